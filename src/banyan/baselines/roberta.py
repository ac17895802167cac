"""RoBERTa medium, trained from scratch by masked language modelling.

8 layers, 8 heads, width 256, feed-forward width 2048, relative key-query positions: 10.6 million parameters without the
embedding (the paper's "about 10M"). The tokenizer is the BPE tokenizer that Banyan trains. A text is the mean of its
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from banyan.baselines.folder import Manifest
from banyan.baselines.unfinished import run_in, save_transformer
from banyan.config import Config
from banyan.encoder import TOKENIZER
from banyan.errors import BanyanError
from banyan.support.display import Display
from banyan.support.needs import needs
from banyan.tokenizer import Tokenizer

with needs("The RoBERTa baseline", "baselines"):
    import tokenizers
    import torch
    from transformers import PreTrainedTokenizerFast

    from banyan.baselines import masked, tokens
    from banyan.baselines.pretrained import MeanPooled, quietly
    from banyan.baselines.pretrained import load as load_any
    from banyan.baselines.relative import RelativeRobertaConfig, RelativeRobertaForMaskedLM
    from banyan.support import devices

LONGEST_TEXT = 512  # tokens; longer texts are truncated


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    device: str = "auto",
    steps: int = 200_000,
    minutes: float = 0.0,
    batch_size: int = 128,
    lr: float = 5e-5,
    warmup: float = 0.1,
    patience: int = 0,
    layers: int = 8,
    heads: int = 8,
    dim: int = 256,
    feed_forward: int = 2048,
    vocab_size: int = 0,
    half: bool = False,
    compile: bool = False,
    seed: int = 0,
) -> None:
    """Train a RoBERTa on the text. The same command resumes an interrupted run.

    corpus_paths: text as for banyan train, or one folder with a tokenizer.json and the store/ tokenised with it.
    steps: the paper's number. minutes: limit the steps to those that fit in this time (0: no limit), estimated by
    timing some when the run begins.
    patience: stop if the held-out loss has not improved for this many evaluations, of 100 in a full run (0: never).
    vocab_size: of the tokenizer (0: chosen from the size of the corpus, as for banyan train).
    half: write the weights as float16. compile: compile the layers with torch.compile.
    """
    settings = {name: value for name, value in locals().items() if name not in ("corpus_paths", "out", "quiet")}
    settings["text"] = [str(path) for path in corpus_paths]
    if heads < 1 or dim % heads:
        raise BanyanError(f"dim ({dim}) must be a multiple of heads ({heads})")
    plan = masked.Plan(steps, minutes, batch_size, lr, warmup, patience, seed)
    place, display = devices.choose(device), Display(quiet)
    with devices.using(place, False), quietly(), run_in(out, settings) as work:
        own = work / TOKENIZER
        if not own.exists():
            tokens.made_tokenizer(corpus_paths, vocab_size, display).save(own)
        pieces = Tokenizer.from_file(own)
        tokenizer = for_transformers(pieces)
        text = tokens.sentences(corpus_paths, work, pieces, tokenizer, display)
        torch.manual_seed(seed)
        model = RelativeRobertaForMaskedLM(medium(tokenizer, layers, heads, dim, feed_forward))
        mask = tokenizer.mask_token_id
        trainer = masked.MaskedTrainer(model, text, mask, plan, work, place, compile, capture=True)
        about = trainer.run(display)
        save_transformer(out, model, tokenizer, Manifest("roberta", settings, None, about), half)
    display.note(f"{about['steps']:,} of the paper's 200,000 steps, in {about['seconds']:,.0f} s")


def medium(
    tokenizer: PreTrainedTokenizerFast, layers: int, heads: int, dim: int, feed_forward: int
) -> RelativeRobertaConfig:
    return RelativeRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=feed_forward,
        max_position_embeddings=Config().max_pieces,  # training has no longer distances
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=None,
    )


def for_transformers(pieces: Tokenizer) -> PreTrainedTokenizerFast:
    """The tokenizer for transformers, with padding and mask tokens."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(pieces.to_json()),
        pad_token="[PAD]",
        mask_token="[MASK]",
        model_max_length=LONGEST_TEXT,
        clean_up_tokenization_spaces=False,
    )


def load(folder: str | Path, *, device: str = "cpu") -> MeanPooled:
    return load_any(str(folder), device=device)
