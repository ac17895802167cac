"""Classifiers that are damaged, or made to do damage: each is refused in one sentence, before it costs memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from banyan import BanyanError
from banyan.checking import check
from banyan.classify import train_classifier
from banyan.classify.classifier import ABOUT, HEAD, Classifier
from tests.helpers.broken import assert_refused, broken
from tests.helpers.labelled import texts


def about(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = json.loads((folder / ABOUT).read_text()) | values
        (folder / ABOUT).write_text(json.dumps({name: value for name, value in found.items() if value is not None}))

    return change


def head(name: str, change: Callable[[np.ndarray], np.ndarray | None]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        arrays = load_file(folder / HEAD)
        found = change(arrays.pop(name))
        save_file(arrays if found is None else {**arrays, name: np.ascontiguousarray(found)}, folder / HEAD)

    return write


def first(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array.flat[0] = value
        return array

    return change


REFUSED = {
    "about nested": (lambda folder: (folder / ABOUT).write_text("[" * 200_000), "classifier.json"),
    "about a list": (lambda folder: (folder / ABOUT).write_text("[]"), "cannot read"),
    "no slope": (about(slope=None), "no valid slope"),
    "slope NaN": (about(slope=float("nan")), "no valid slope"),
    "slope 1e308": (about(slope=1e308), "no valid slope"),
    "offset a word": (about(offset="x"), "no valid offset"),
    "33 bits": (about(bits=33), "bits does not match"),
    "minus one bit": (about(bits=-1), "bits does not match"),
    "bits a fraction": (about(bits=18.0), "no valid bits"),
    "several a list": (about(several=[]), "no valid several"),
    "no pair": (about(pair=None), "no valid pair"),
    "classes a number": (about(classes=2), "no valid classes"),
    "a class twice": (about(classes=["a", "a"]), "no valid classes"),
    "a class that is no text": (about(classes=["a", "\ud800"]), "no valid classes"),
    "a million classes": (about(classes=[str(n) for n in range(1 << 20)]), "no valid classes"),
    "figures a list": (about(figures=[]), "no valid figures"),
    "bucket negative": (head("bucket", first(-1)), "bucket holds"),
    "bucket of another table": (head("bucket", first(2**31 - 1)), "bucket holds"),
    "bucket of floats": (head("bucket", lambda array: array.astype(np.float32)), "bucket is not int32"),
    "bucket of two dimensions": (head("bucket", lambda array: array[:, None]), "does not match"),
    "no idf": (head("idf", lambda _: None), "idf is not"),
    "idf NaN": (head("idf", first(np.nan)), "idf holds a number that is not finite"),
    "weight infinite": (head("weight", first(np.inf)), "weight holds a number that is not finite"),
    "bias 3e38": (head("bias", first(3e38)), "bias holds 3e+38"),
}


@pytest.mark.parametrize(("break_it", "told"), REFUSED.values(), ids=REFUSED)
def test_a_broken_classifier_is_refused_in_one_sentence(trained, tmp_path, break_it, told):
    assert_refused(Classifier.from_pretrained, broken(trained, tmp_path / "classifier", break_it), told)


def test_info_of_a_broken_classifier_is_one_sentence(trained, tmp_path, banyan):
    code, _, told = banyan("info", broken(trained, tmp_path / "classifier", about(classes=[1, 2])))
    assert (code, told.count("\n")) == (1, 1)


@pytest.mark.filterwarnings("error")  # NumPy's would come before the sentence
@pytest.mark.parametrize("lr", [1e30, 1e9])
def test_a_classifier_that_goes_wrong_in_numbers_stops_and_says_so(base, tmp_path, lr):
    told = r"embedding became NaN or larger than 1e\+06 by step \d+: try a lower lr, with --overwrite"
    with pytest.raises(BanyanError, match=told):
        train_classifier(base, texts(200), tmp_path / "out", lr=lr, checkpoint_seconds=0, quiet=True)
    assert check(tmp_path / "out").problems == []
    assert not (tmp_path / "out" / ABOUT).exists()


@pytest.mark.parametrize("lr", [float("inf"), float("nan"), 0.0, -1.0])
def test_a_learning_rate_is_a_positive_number(base, tmp_path, lr):
    with pytest.raises(BanyanError, match="lr must be a positive number"):
        train_classifier(base, texts(200), tmp_path / "out", lr=lr, quiet=True)
