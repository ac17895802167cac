"""Pretrained models, from a folder or by name from the Hugging Face Hub, run by sentence-transformers: encoders (XLM-R,
MiniLM, ...) and decoders (Llama, Mistral, ...). A text is the mean of its tokens, as in the paper; a model published
for sentence-transformers keeps its own pooling.

Nothing is downloaded for a local folder or if HF_HUB_OFFLINE is 1.
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
from banyan.support.quiet import quietly
from banyan.tokenizer import Tokenizer

with needs("A pretrained transformer", "baselines"):
    import torch
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    from banyan.baselines import masked, relative, tokens  # noqa: F401 - relative registers with AutoModel
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
    """Load a model to encode with.

    name: a folder or a name on the Hugging Face Hub.
    precision: of the weights; auto: bfloat16 for decoders, float32 for encoders.
    longest: truncate texts to this many tokens.
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
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")  # the default for decoders is the last token
    return SentenceTransformer(modules=[transformer, pooling], device=device)


class MeanPooled:
    """An Encoder; the vector of a blank text is zeros.

    words: static vectors for texts of one word (banyan.baselines.in_context).
    """

    def __init__(
        self, model: Any, batch_size: int = 32, longest: int = 512, words: dict[str, np.ndarray] | None = None
    ) -> None:
        self.model, self.batch_size, self.words = model, batch_size, words or {}
        tokenizer = model.tokenizer
        if tokenizer.pad_token is None:  # decoders have none; padding is never attended to, so any token will do
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        tokenizer.padding_side = "right"  # positions must not depend on the batch
        model.max_seq_length = min(model.max_seq_length or longest, longest)
        # Pool in float32: in bfloat16, the cosines of vectors with nearly the same direction round to the same value.
        model[0].register_forward_hook(_to_float32)
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


def _to_float32(module: Any, given: Any, features: dict[str, Any]) -> dict[str, Any]:
    features["token_embeddings"] = features["token_embeddings"].float()
    return features


def _precision(name: str) -> str:
    """float32 for encoders, bfloat16 for decoders, which are the models without a masked-language-model head."""
    try:
        config = AutoConfig.from_pretrained(name)
    except OSError:  # in a subfolder, as sentence-transformers may store it: an encoder
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
    """Turn an error in loading a model into one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        where = "it must be a folder, or the name of a model on the Hugging Face Hub that is reachable or downloaded"
        raise BanyanError(f"cannot load {name}: {first_line(error)} ({where})") from None


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
    """Continue the pretraining of a masked language model on this text, with its own tokenizer: the paper's XLM-R (FT).

    init: a folder or a name on the Hub.
    steps, patience: the paper's 100,000 steps at most; training stops early if the held-out loss has not improved for
    `patience` evaluations (there are 100 in a full run), and the best weights are kept.
    The other settings are as for roberta.
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
        trainer = masked.MaskedTrainer(model, text, tokenizer.mask_token_id, plan, work, place, compile)
        about = trainer.run(display)
        save_transformer(out, model, tokenizer, Manifest("finetuned", settings, None, about), half)
    display.note(f"{about['steps']:,} steps, the best at {about['steps kept']:,}, in {about['seconds']:,.0f} s")


def pieces_of(tokenizer: Any) -> Tokenizer:
    """The Tokenizer equivalent to one of transformers."""
    if not getattr(tokenizer, "is_fast", False):
        raise BanyanError(f"{type(tokenizer).__name__} has no tokenizer.json, which this baseline needs")
    return Tokenizer.from_json(tokenizer.backend_tokenizer.to_str())
