"""Two small models: the paper's, and one with all that the default preset adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan import Banyan
from banyan.training import train
from tests.helpers.models import LIKE_DEFAULT
from tests.helpers.training import SMALL


@pytest.fixture(scope="session")
def folder(trained_folder) -> Path:
    return trained_folder


@pytest.fixture(scope="session")
def model(trained_model) -> Banyan:
    return trained_model


@pytest.fixture(scope="session")
def lexical_folder(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("lexical") / "model"
    train(corpus, out, preset="paper", epochs=1, **LIKE_DEFAULT, **SMALL)
    return out


@pytest.fixture(scope="session")
def words_folder(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("words") / "model"
    train(corpus, out, preset="paper", epochs=1, **LIKE_DEFAULT, lexical_ngrams="words", **SMALL)
    return out


@pytest.fixture(scope="module", params=["folder", "lexical_folder", "words_folder"])
def either(request) -> Path:
    """Of one model, then of the other."""
    return request.getfixturevalue(request.param)
