"""BERTopic finds topics with our embeddings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from banyan import Banyan
from tests.helpers.corpora import lines

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its dependencies
    bertopic = pytest.importorskip("bertopic", reason="bertopic is not installed")
    from bertopic.backend._utils import select_backend

    from banyan.integrations.bertopic import BanyanBackend


class Halves:
    """In place of UMAP: the first dimensions. (UMAP takes half a minute to compile.)"""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, :2]


def test_bertopic_takes_a_model(trained_folder):
    from sklearn.cluster import KMeans

    model = Banyan.from_pretrained(trained_folder)
    backend = BanyanBackend(model)
    assert select_backend(backend) is backend
    np.testing.assert_array_equal(backend.embed_documents(["the cat"]), model.encode(["the cat"], normalize=True))
    documents = lines(60, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clusters = KMeans(3, random_state=0, n_init=1)
        topics = bertopic.BERTopic(embedding_model=backend, umap_model=Halves(), hdbscan_model=clusters)
        found, _ = topics.fit_transform(documents)
    assert len(set(found)) == 3
    assert topics.get_topic(0)
