"""Baselines to compare Banyan with. `banyan baseline NAME` writes a folder that `banyan eval` evaluates like a model.

Each module listed in BASELINES has

    train(corpus_paths, out, *, quiet=False, **settings)   kinds "trains" and "counts": write the folder `out`
    load(folder)                                           the same kinds: an Encoder or a Comparer
    load(name, **settings)                                 kind "loads": from a folder or a name on the Hugging Face Hub

`settings` are keyword-only parameters with defaults. The command reads them from the signature and sets them with
`--set NAME=VALUE`. Both functions may also take `device`. Heavy packages are imported only when they are needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from banyan.errors import BanyanError

if TYPE_CHECKING:
    import numpy as np


class Baseline(NamedTuple):
    module: str
    about: str
    kind: str  # "trains" on text, "loads" a pretrained model, or "counts" without training
    best_for: str


BASELINES: dict[str, Baseline] = {
    "glove": Baseline(
        "banyan.baselines.glove",
        "GloVe: word vectors from co-occurrence counts; a text is the mean of its word vectors",
        "trains",
        "training in minutes, small models; single words, given hundreds of millions of words of text",
    ),
    "sent2vec": Baseline(
        "banyan.baselines.sent2vec",
        "Sent2Vec: word and bigram vectors, trained so that the mean of a context predicts the missing word",
        "trains",
        "sentences and words, where it beats GloVe; close to the best on single words",
    ),
    "fasttext": Baseline(
        "banyan.baselines.fasttext",
        "fastText: word vectors from character n-grams, trained here or from a published .vec; SIF-weighted mean",
        "trains",
        "averages of word vectors, of which it is the strongest; synonyms; published vectors",
    ),
    "roberta": Baseline(
        "banyan.baselines.roberta",
        "RoBERTa medium, trained from scratch by masked language modelling; mean pooling",
        "trains",
        "a starting point for SimCSE; it is rarely the best on its own",
    ),
    "simcse": Baseline(
        "banyan.baselines.simcse",
        "unsupervised SimCSE: a transformer trained to match a sentence with itself under different dropout",
        "trains",
        "training on a GPU without labelled pairs; often better than the transformer it starts from",
    ),
    "finetuned": Baseline(
        "banyan.baselines.pretrained",
        "a pretrained transformer, trained further on your text by masked language modelling",
        "trains",
        "specialised text in a language the transformer knows, where it beats the same transformer as published",
    ),
    "model2vec": Baseline(
        "banyan.baselines.model2vec",
        "model2vec: static token vectors distilled from a sentence transformer",
        "loads",
        "speed, in well-resourced languages",
    ),
    "pretrained": Baseline(
        "banyan.baselines.pretrained",
        "any transformers or sentence-transformers model, mean pooling: XLM-R, MiniLM, Llama, ...",
        "loads",
        "languages the model knows well, given a GPU or time",
    ),
    "tfidf": Baseline(
        "banyan.baselines.tfidf",
        "TF-IDF of character 3- and 4-grams",
        "counts",
        "similar texts with similar wording: most test sets, near-duplicates, names; not single words",
    ),
    "bm25": Baseline(
        "banyan.baselines.bm25",
        "BM25: shared words, with rare words weighted higher",
        "counts",
        "retrieval where the query repeats the words of the document",
    ),
    "dice": Baseline(
        "banyan.baselines.dice",
        "Dice: the share of words or character bigrams that two texts have in common",
        "counts",
        "a first look: it needs no training text and no extra packages",
    ),
}


class Encoder(Protocol):
    """A baseline with vectors. One without is a banyan.evaluate.similarity.Comparer."""

    @property
    def dim(self) -> int: ...
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of the texts, float32 [n, dim]; zeros for an empty text."""
        ...


def module_of(name: str) -> Any:
    if name not in BASELINES:
        raise BanyanError(f"there is no baseline {name}: choose one of {', '.join(BASELINES)}")
    return import_module(BASELINES[name].module)


def settings_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The settings of a module's `train` or `load`, with their defaults."""
    own = ("quiet", "device")
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in own}


def for_device(function: Callable[..., Any], device: str) -> dict[str, Any]:
    """The argument `device`, if the function takes it."""
    return {"device": device} if "device" in inspect.signature(function).parameters else {}


def is_baseline(folder: str | Path) -> bool:
    from banyan.baselines.folder import MANIFEST

    return (Path(folder) / MANIFEST).is_file()


def load(folder: str | Path, device: str = "cpu") -> Any:
    """The Encoder or Comparer of a folder that `banyan baseline` wrote."""
    from banyan.baselines.folder import read

    manifest = read(folder)
    loading = module_of(manifest.name).load
    given = for_device(loading, device)
    if manifest.source is None:
        return loading(folder, **given)
    return loading(manifest.source, **given, **manifest.settings)
