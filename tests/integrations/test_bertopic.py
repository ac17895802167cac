"""BERTopic finds topics with our embeddings. A stand-in for its class of backends is quicker where that is enough."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
import warnings
from types import ModuleType

import numpy as np
import pytest

from banyan import Banyan
from tests.helpers.corpora import lines


class BaseEmbedder:
    """As in bertopic 0.17."""

    def __init__(self, embedding_model=None, word_embedding_model=None):
        self.embedding_model, self.word_embedding_model = embedding_model, word_embedding_model

    def embed_documents(self, document: list[str], verbose: bool = False) -> np.ndarray:
        return self.embed(document, verbose)  # type: ignore[attr-defined]


@pytest.fixture
def stand_in(monkeypatch):
    package, backend = ModuleType("bertopic"), ModuleType("bertopic.backend")
    backend.BaseEmbedder = BaseEmbedder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bertopic", package)
    monkeypatch.setitem(sys.modules, "bertopic.backend", backend)
    monkeypatch.delitem(sys.modules, "banyan.integrations.bertopic", raising=False)
    yield importlib.import_module("banyan.integrations.bertopic")
    del sys.modules["banyan.integrations.bertopic"]


def test_a_model_is_a_backend(stand_in, model_folder):
    model = Banyan.from_pretrained(model_folder)
    for given in (model, model_folder, str(model_folder)):
        backend = stand_in.BanyanBackend(given)
        assert isinstance(backend, BaseEmbedder)
        found = backend.embed_documents(np.array(["the cat", "a dog"], object))
        np.testing.assert_array_equal(found, model.encode(["the cat", "a dog"], normalize=True))


def test_a_model_becomes_a_backend_when_it_is_asked(stand_in, model_folder):
    model, pickled = (Banyan.from_pretrained(model_folder) for _ in range(2))
    pickle.loads(pickle.dumps(pickled))  # before it is asked
    assert isinstance(model, BaseEmbedder)  # as BERTopic asks
    assert isinstance(model, Banyan)
    texts = ["the cat", "a dog"]
    expected = model.encode(texts, normalize=True)
    for one in (model, copy.copy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(one.embed_documents(np.array(texts, object)), expected)


def test_without_bertopic_a_model_is_what_it_is(model_folder):
    if "bertopic.backend" not in sys.modules:
        assert Banyan.from_pretrained(model_folder).__class__ is Banyan


class Halves:
    """In place of UMAP: the first dimensions. (UMAP takes half a minute to compile.)"""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, :2]


@pytest.mark.parametrize("form", ["model", "backend"])
def test_bertopic_takes_a_model(trained_folder, form):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies
        bertopic = pytest.importorskip("bertopic", reason="bertopic is not installed")
        from bertopic.backend._utils import select_backend

        from banyan.integrations.bertopic import BanyanBackend

        backend = BanyanBackend(trained_folder) if form == "backend" else Banyan.from_pretrained(trained_folder)
        assert select_backend(backend) is backend
        clusters = KMeans(3, random_state=0, n_init=1)
        topics = bertopic.BERTopic(embedding_model=backend, umap_model=Halves(), hdbscan_model=clusters)
        found, _ = topics.fit_transform(lines(60, 4))
    assert len(set(found)) == 3
    assert topics.get_topic(0)
