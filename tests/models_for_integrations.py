"""Two small models: the paper's, and one with all that the default preset adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_training import PLACES, SMALL, corpus, lines  # noqa: F401

from banyan import Banyan
from banyan.training import train

LIKE_DEFAULT = {"subword_model": "unigram", "sublinear_tf": True, "lexical_dim": 8, "init_gate": 0.9}
TEXTS = ["The cat sees the dog.", "", "the king remembers the old queen near the river", "bird", "   "]


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory) -> Path:  # noqa: F811
    out = tmp_path_factory.mktemp("model") / "model"
    train(corpus, out, preset="paper", epochs=1, **SMALL)
    return out


@pytest.fixture(scope="module")
def lexical_folder(corpus, tmp_path_factory) -> Path:  # noqa: F811
    out = tmp_path_factory.mktemp("lexical") / "model"
    train(corpus, out, preset="paper", epochs=1, **LIKE_DEFAULT, **SMALL)
    return out


@pytest.fixture(scope="module", params=["folder", "lexical_folder"])
def either(request) -> Path:
    """Of one model, then of the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def model(folder) -> Banyan:
    return Banyan.from_pretrained(folder)


def _place(text: str) -> str:
    return next(place for place in PLACES if place in text)


def pairs(n: int, seed: int = 0) -> dict[str, list]:
    """Two sentences are alike if they are of the same place; the model must forget all else."""
    rng = np.random.default_rng(seed)
    one, other = lines(n, seed), lines(n, seed + 1)
    for i in range(n):
        if rng.random() < 0.5:  # so that more than half of the pairs are alike
            other[i] = other[i].replace(_place(other[i]), _place(one[i]))
    alike = [float(_place(a) == _place(b)) for a, b in zip(one, other, strict=True)]
    return {"sentence1": one, "sentence2": other, "score": alike}
