"""What Banyan is compared with: each system trained, counted or loaded by `banyan baseline NAME`, into a folder that
`banyan eval` measures as it does a model.

A module that is listed here offers

    train(corpus_paths, out, *, quiet=False, **settings)   kinds "trains" and "counts": writes the folder `out`
    load(folder)                                           what is measured: an Encoder, or a Comparer
    load(name, **settings)                                 kind "loads": of a folder or hub name that others made

`settings` are keyword-only parameters with defaults: the command reads them from the signature, and
`--set NAME=VALUE` gives them. Both may also take `device`, which --device gives. Nothing heavy is imported before it
is needed.
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
    kind: str  # "trains" on text, "loads" what others trained, "counts" and learns nothing
    wins: str


BASELINES: dict[str, Baseline] = {
    "glove": Baseline(
        "banyan.baselines.glove",
        "GloVe: word vectors from co-occurrence counts; a text is the mean of its words",
        "trains",
        "it trains in minutes and is small; single words, given text by the hundred million words",
    ),
    "sent2vec": Baseline(
        "banyan.baselines.sent2vec",
        "Sent2Vec: word and bigram vectors, learnt so that the mean of a context predicts the missing word",
        "trains",
        "over GloVe, on sentences and words; on single words not far from the best",
    ),
    "fasttext": Baseline(
        "banyan.baselines.fasttext",
        "fastText: word vectors from character n-grams, trained here or from a published .vec; a text by SIF",
        "trains",
        "among those that average words; words that mean the same; published vectors",
    ),
    "roberta": Baseline(
        "banyan.baselines.roberta",
        "RoBERTa medium from scratch by masked language modelling; a text is the mean of its tokens",
        "trains",
        "hardly ever alone; it is where SimCSE starts from",
    ),
    "simcse": Baseline(
        "banyan.baselines.simcse",
        "SimCSE, unsupervised: a transformer that learns to know a sentence again under dropout",
        "trains",
        "often over the transformer that it starts from; where there is a GPU and no labelled pairs",
    ),
    "finetuned": Baseline(
        "banyan.baselines.pretrained",
        "a pretrained transformer, trained further on your text by masked language modelling",
        "trains",
        "over the same transformer as it came; text of a special kind, in a language that it knows",
    ),
    "model2vec": Baseline(
        "banyan.baselines.model2vec",
        "model2vec: static token vectors distilled from a sentence transformer",
        "loads",
        "well-resourced languages where speed counts",
    ),
    "pretrained": Baseline(
        "banyan.baselines.pretrained",
        "any model of transformers or sentence-transformers, mean pooling: XLM-R, MiniLM, Llama, ...",
        "loads",
        "languages that it knows well, where there is a GPU, or time; not the others",
    ),
    "tfidf": Baseline(
        "banyan.baselines.tfidf",
        "TF-IDF of character 3- and 4-grams",
        "counts",
        "wherever similar texts are worded alike: most test sets, near-duplicates, names; not single words",
    ),
    "bm25": Baseline(
        "banyan.baselines.bm25",
        "BM25: shared words, the rare ones counting more",
        "counts",
        "retrieval where a query repeats the words of what it seeks",
    ),
    "dice": Baseline(
        "banyan.baselines.dice",
        "Dice: the share of words, or of character bigrams, that two texts have in common",
        "counts",
        "a first look: no text to learn from, nothing to install",
    ),
}


class Encoder(Protocol):
    """A baseline that has vectors. (One that has none is a banyan.evaluate.similarity.Comparer.)"""

    @property
    def dim(self) -> int: ...
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [n, dim]; zeros for an empty text."""
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
    """The argument that says so, if the function takes it."""
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
