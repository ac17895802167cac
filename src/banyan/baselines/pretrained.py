"""What others trained, from a folder or by its name on the Hugging Face Hub: encoders (XLM-R, MiniLM, ...) and decoders
(Llama, Mistral, ...) through sentence-transformers. A text is the mean of its tokens, as in the paper; a model of
sentence-transformers is used as it was made.

Nothing is downloaded where HF_HUB_OFFLINE is 1, nor for a local folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from banyan.baselines.folder import Manifest
from banyan.baselines.unfinished import run_in, save_transformer
from banyan.errors import BanyanError, first_line
from banyan.support.display import Display
from banyan.support.needs import needs
from banyan.tokenizer import Tokenizer

with needs("A pretrained transformer", "baselines"):
    import torch
    import transformers
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    from banyan.baselines import masked, relative, tokens  # noqa: F401 - relative makes itself known to AutoModel
    from banyan.support import devices

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
WORD_VECTORS = "static-words.safetensors"  # written by banyan.baselines.in_context


def load(
    name: str,
    *,
    device: str = "cpu",
    precision: str = "auto",
    batch_size: int = 32,
    longest: int = 512,
) -> MeanPooled:
    """A model to encode with.

    name: a folder, or a name on the Hub.
    precision: of its weights; auto: 16 bits (bfloat16) for decoders, 32 for encoders.
    longest: tokens of a text; what is beyond is not read.
    """
    if precision not in PRECISIONS:
        raise BanyanError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    place = devices.choose(device)
    with quietly(), _explained(name):
        number = _precision(name) if precision == "auto" else precision
        model = _sentence_transformer(name, str(place), {"dtype": getattr(torch, number)})
    return MeanPooled(model, batch_size, longest, _word_vectors(Path(name)))


def _sentence_transformer(name: str, device: str, how: dict[str, Any]) -> Any:
    with needs("A pretrained transformer", "baselines"):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
        from sentence_transformers.util import is_sentence_transformer_model
    if is_sentence_transformer_model(name):
        return SentenceTransformer(name, device=device, model_kwargs=how)
    transformer = Transformer(name, model_kwargs=how)
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")  # it would take a decoder's last token
    return SentenceTransformer(modules=[transformer, pooling], device=device)


class MeanPooled:
    """Texts in, float32 [n, dim] out; zeros for a text of nothing but white space.

    words: vectors of single words, if such were made (banyan.baselines.in_context); a text of one word is then that.
    """

    def __init__(
        self, model: Any, batch_size: int = 32, longest: int = 512, words: dict[str, np.ndarray] | None = None
    ) -> None:
        self.model, self.batch_size, self.words = model, batch_size, words or {}
        tokenizer = model.tokenizer
        if tokenizer.pad_token is None:  # decoders have none: never attended to, so any token will do
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        tokenizer.padding_side = "right"  # the first token of a text is at position 0, whatever the batch
        model.max_seq_length = min(model.max_seq_length or longest, longest)
        # Means are taken, and kept, in 32 bits: in 16, the cosines of what points one way all round to the same.
        model[0].register_forward_hook(_in_full)
        self.dim = int(model.get_embedding_dimension())

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        static = [number for number, text in enumerate(texts) if text.strip().lower() in self.words]
        for number in static:
            vectors[number] = self.words[texts[number].strip().lower()]
        there = sorted({number for number, text in enumerate(texts) if text.strip()} - {*static})
        if there:
            vectors[there] = self.model.encode(
                [texts[number] for number in there], batch_size=self.batch_size, show_progress_bar=False
            )
        return vectors


def _in_full(module: Any, given: Any, features: dict[str, Any]) -> dict[str, Any]:
    features["token_embeddings"] = features["token_embeddings"].float()
    return features


def _precision(name: str) -> str:
    """Decoders are those that have no way to guess a masked word."""
    try:
        config = AutoConfig.from_pretrained(name)
    except OSError:  # sentence-transformers may have it in a folder further down: then it is an encoder
        return "float32"
    return "float32" if type(config) in MODEL_FOR_MASKED_LM_MAPPING else "bfloat16"


def _word_vectors(folder: Path) -> dict[str, np.ndarray]:
    path = folder / WORD_VECTORS
    if not path.is_file():
        return {}
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        return dict(zip(json.loads(file.metadata()["words"]), file.get_tensor("vectors"), strict=True))


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What goes wrong when a model is looked for, in a sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        where = "a folder, or a name on the Hugging Face Hub that can be reached or was downloaded before"
        raise BanyanError(f"cannot load {name}: {first_line(error)} (it must be {where})") from None


@contextmanager
def quietly() -> Iterator[None]:
    """Without the bars and reports that transformers prints as it loads and writes; errors it raises."""
    log = transformers.utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    device: str = "auto",
    init: str = "FacebookAI/xlm-roberta-base",
    steps: int = 100_000,
    minutes: float = 0.0,
    batch_size: int = 128,
    lr: float = 5e-5,
    warmup: float = 0.1,
    patience: int = 5,
    half: bool = False,
    compile: bool = False,
    seed: int = 0,
) -> None:
    """Train a masked language model further on this text, with its own tokenizer: the paper's XLM-R (FT).

    init: a folder, or a name on the Hub. The rest as for roberta, with the paper's numbers: 100,000 steps at most,
    ended when held-out text became no likelier for `patience` hundredths of them; what is kept is the best.
    """
    settings = {name: value for name, value in locals().items() if name not in ("corpus_paths", "out", "quiet")}
    settings["text"] = [str(path) for path in corpus_paths]
    plan = masked.Plan(steps, minutes, batch_size, lr, warmup, patience, seed)
    place, display = devices.choose(device), Display(quiet)
    with devices.using(place, False), quietly(), run_in(out, settings) as work:
        with _explained(init):
            tokenizer: Any = AutoTokenizer.from_pretrained(init)
            model = AutoModelForMaskedLM.from_pretrained(init, dtype=torch.float32)
        pieces = pieces_of(tokenizer)
        text = tokens.sentences(corpus_paths, work, pieces, tokenizer, display)
        run = masked.Run(model, text, tokenizer.mask_token_id, plan, work, place, compile)
        about = run.go(display)
        save_transformer(out, model, tokenizer, Manifest("finetuned", settings, None, about), half)
    display.note(f"{about['steps']:,} steps, the best at {about['steps kept']:,}, in {about['seconds']:,.0f} s")


def pieces_of(tokenizer: Any) -> Tokenizer:
    """A tokenizer of transformers as one that makes stores."""
    if not getattr(tokenizer, "is_fast", False):
        raise BanyanError(f"{type(tokenizer).__name__} has no tokenizer.json, which is needed here")
    return Tokenizer.from_json(tokenizer.backend_tokenizer.to_str())
