"""A model of random weights, and a classifier on top of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from banyan import Banyan
from banyan.classify import train_classifier
from banyan.model.word_ngrams import BUCKETS
from tests.helpers.labelled import texts
from tests.helpers.models import tiny_model


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """A random model with lexical dimensions, as default has."""
    tiny = tiny_model()
    config = replace(tiny.config, lexical_dim=8, lexical_ngrams="words", lexical_weight=0.5, sublinear_tf=True)
    model = Banyan(config, tiny.tokenizer, {**tiny.weights, "lexical_idf": np.full(BUCKETS, 9, np.uint8)})
    folder = tmp_path_factory.mktemp("base") / "model"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def trained(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("classifier") / "classifier"
    train_classifier(base, texts(600), folder, quiet=True)
    return folder
