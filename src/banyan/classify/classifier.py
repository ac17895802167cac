"""Classifier: what a folder with a classifier predicts, and why. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan._version import __version__
from banyan.classify.calibration import Calibration, probabilities
from banyan.classify.features import LEAST_DEVIATION, OVERLAPS, Features, Ragged, Vocabulary, bits_for, width
from banyan.classify.figures import predicted
from banyan.classify.head import Head, scores_of
from banyan.encoder import Banyan
from banyan.errors import BanyanError, first_line
from banyan.model.weights import LARGEST, check_values
from banyan.support import checksums, files
from banyan.tokenizer.rules import without_surrogates

if TYPE_CHECKING:
    from banyan.classify.decision import Decision

ABOUT, HEAD, CONFUSION = "classifier.json", "classifier.safetensors", "confusion.png"
FORMAT = "1"
MOST_CLASSES = 1 << 16
Inputs = Iterable[str] | Iterable[tuple[str, str]] | Iterable[str | tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Classifier:
    """A model with a classifier on top: predicts the labels of texts, or of pairs of texts.

    >>> classifier = Classifier.from_pretrained("classifier/")
    >>> classifier.predict(["The parcel never arrived."])
    ['delivery']
    """

    model: Banyan
    classes: list[str]
    several: bool  # a text may have several labels, or none
    pair: bool  # the inputs are pairs of texts
    head: Head = field(repr=False)
    vocabulary: Vocabulary = field(repr=False)
    calibration: Calibration
    about: dict[str, Any] = field(repr=False, default_factory=dict)  # how it was trained, and its held-out figures

    @classmethod
    def from_pretrained(cls, path: str | Path, device: str = "cpu") -> Classifier:
        """Load a folder written by `banyan classify train`, or one of that kind on the Hugging Face Hub."""
        return cls.of(Banyan.from_pretrained(path, device))

    @classmethod
    def of(cls, model: Banyan) -> Classifier:
        """The classifier in the folder that a model was loaded from."""
        folder = model.folder
        if folder is None or not has_classifier(folder):
            raise BanyanError(
                f"{folder or 'the model'} has no classifier: train one with `banyan classify train MODEL LABELLED "
                "--out DIR`"
            )
        about, arrays = _read(folder, model)
        table = np.zeros((1 << about["bits"], len(about["classes"])), np.float32)
        idf = np.zeros(1 << about["bits"], np.float32)
        table[arrays["bucket"]], idf[arrays["bucket"]] = arrays["table"], arrays["idf"]
        vocabulary = Vocabulary(idf, arrays["mean"], arrays["deviation"], arrays["frequency"])
        head = Head(arrays["weight"], arrays["bias"], table)
        calibration = Calibration(about["slope"], about["offset"])
        return cls(model, about["classes"], about["several"], about["pair"], head, vocabulary, calibration, about)

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder for `from_pretrained`: the model and the classifier. Each file is written atomically."""
        self.model.save_pretrained(path)
        self.save_head(Path(path))

    def save_head(self, folder: Path) -> None:
        """Write the files of the classifier beside those of its model."""
        from safetensors.numpy import save_file

        (folder / ABOUT).unlink(missing_ok=True)  # written last: without it, there is no classifier
        bucket = np.flatnonzero(self.vocabulary.idf)
        arrays = {
            **{name: getattr(self.vocabulary, name) for name in ("mean", "deviation", "frequency")},
            "weight": self.head.weight,
            "bias": self.head.bias,
            "bucket": bucket.astype(np.int32),
            "table": self.head.table[bucket],
            "idf": self.vocabulary.idf[bucket],
        }
        with files.reported(folder / HEAD), files.atomic(folder / HEAD) as temporary:
            save_file(arrays, temporary, metadata={"banyan": json.dumps({"format": FORMAT})})
        about = {
            "format": FORMAT,
            "banyan_version": __version__,
            "classes": self.classes,
            "several": self.several,
            "pair": self.pair,
            "bits": self.vocabulary.bits,
            "slope": self.calibration.slope,
            "offset": self.calibration.offset,
            **self.about,
        }
        told = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        own = {HEAD: checksums.digest(folder / HEAD), ABOUT: checksums.of_text(told)}
        checksums.record(folder / checksums.SUMS, {**checksums.read(folder / checksums.SUMS), **own})
        files.write_text(folder / ABOUT, told)

    # --- Predictions -------------------------------------------------------------------------------------------------

    def predict(self, texts: Inputs) -> list[Any]:
        """The label of each text, or a list of labels if texts may have several."""
        return self.labels(self.predict_proba(texts))

    def labels(self, p: np.ndarray) -> list[Any]:
        """The labels that these probabilities stand for, as `predict` returns them."""
        if not self.several:
            return [self.classes[c] for c in p.argmax(1)]
        return [[self.classes[c] for c in np.flatnonzero(row)] for row in predicted(p, True)]

    def predict_proba(self, texts: Inputs) -> np.ndarray:
        """The probability of each class, float32 [n, C], calibrated on held-out texts."""
        return probabilities(self.scores(texts), self.several)

    def scores(self, texts: Inputs) -> np.ndarray:
        """The calibrated scores of each class, float32 [n, C], before they become probabilities."""
        return self.scores_of_tokens(self.features.tokenised(self.columns(texts)))

    def scores_of_tokens(self, texts: tuple[Ragged, ...]) -> np.ndarray:
        """texts: one column of tokenised texts, or two."""
        return self.calibration(scores_of(self.features, self.head, texts))

    def explain(self, text: str | tuple[str, str], label: str | None = None) -> Decision:
        """Which words decided, and how much each contributed. label: by default the most probable one."""
        from banyan.classify.decision import decision

        own = tuple(column[0] for column in self.columns([text]))
        if label is not None and label not in self.classes:
            raise BanyanError(f"there is no class {label!r}; the classes are {', '.join(self.classes[:20])}")
        return decision(self, own, label)

    @cached_property
    def features(self) -> Features:
        return Features(self.model, self.vocabulary)

    def columns(self, texts: Inputs) -> tuple[list[str], ...]:
        """The texts as one column, or pairs as two. Raise an error if they are something else."""
        if isinstance(texts, str):
            raise BanyanError("expected a list of texts, not one string: put it in a list")
        given: list[Any] = list(texts)
        if not self.pair:
            for row, text in enumerate(given):
                if not isinstance(text, str):
                    raise BanyanError(f"text {row} is {type(text).__name__}, not a string")
            return (given,)
        for row, pair in enumerate(given):
            two = isinstance(pair, list | tuple | np.ndarray) and len(pair) == 2
            if not two or not all(isinstance(text, str) for text in pair):
                raise BanyanError(f"input {row} is not a pair of texts, which this classifier needs")
        return [pair[0] for pair in given], [pair[1] for pair in given]


def has_classifier(folder: Path) -> bool:
    return (folder / ABOUT).is_file()


def about_classifier(folder: Path) -> dict[str, Any]:
    """The content of classifier.json; empty if the folder has no classifier."""
    if not has_classifier(folder):
        return {}
    about = files.read_json(folder / ABOUT)
    version = about.get("format") if isinstance(about, dict) else None
    if str(version) != FORMAT:
        raise BanyanError(f"{folder / ABOUT} has the format {str(version)[:20]!r}, which this version cannot read")
    for name, fine in _VALUES.items():
        if not fine(about.get(name)):
            raise BanyanError(f"{folder / ABOUT} is not that of a classifier: it has no valid {name}")
    if about["bits"] != bits_for(len(about["classes"])):
        raise BanyanError(f"{folder / ABOUT}: bits does not match the number of classes")
    return about


def _are_classes(value: Any) -> bool:
    names = isinstance(value, list) and 1 < len(value) <= MOST_CLASSES and all(isinstance(name, str) for name in value)
    return names and len(set(value)) == len(value) and all(without_surrogates(name) == name for name in value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


_VALUES: dict[str, Callable[[Any], bool]] = {
    "classes": _are_classes,
    "several": lambda value: isinstance(value, bool),
    "pair": lambda value: isinstance(value, bool),
    "bits": lambda value: type(value) is int,
    "slope": _is_number,
    "offset": _is_number,
    "texts": lambda value: value is None or type(value) is int,
    "figures": lambda value: value is None or isinstance(value, dict),
}


def _read(folder: Path, model: Banyan) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    checksums.verify(folder, [ABOUT])
    about, path = about_classifier(folder), folder / HEAD
    try:
        arrays = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BanyanError(f"cannot read {path}: {first_line(error)}") from None
    except (KeyError, TypeError, AttributeError) as error:  # of a type that NumPy does not have, such as BF16
        raise BanyanError(f"cannot read {path}: NumPy cannot hold its numbers ({first_line(error)})") from None
    classes, pair, rows = len(about["classes"]), about["pair"], arrays.get("bucket", np.empty(0)).size
    overlaps = (OVERLAPS if pair else 0,)
    expected = {
        "weight": (width(model, pair), classes), "bias": (classes,), "bucket": (rows,), "table": (rows, classes),
        "idf": (rows,), "mean": overlaps, "deviation": overlaps, "frequency": (len(model.embedding) if pair else 0,),
    }  # fmt: skip
    for name, shape in expected.items():
        kind = np.int32 if name == "bucket" else np.float32
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != kind:
            raise BanyanError(f"{path} does not match its {ABOUT} and model: {name} is not {kind.__name__} {shape}")
    check_values(arrays, str(path))
    bucket, least = arrays["bucket"], arrays["deviation"].min(initial=1)
    if rows and not 0 <= bucket.min() <= bucket.max() < 1 << about["bits"]:
        raise BanyanError(f"{path}: bucket holds a number that is not between 0 and {(1 << about['bits']) - 1}")
    if least < LEAST_DEVIATION / 2:
        raise BanyanError(f"{path}: deviation holds {least:g}; the least is {LEAST_DEVIATION:g}")
    return about, arrays
