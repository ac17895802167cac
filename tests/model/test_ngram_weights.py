"""Learned weights of n-grams: the same cosines as in encoding, whatever the weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from banyan import Banyan
from banyan.backends._numba.word_ngrams import listed
from banyan.model.ngram_weights import hashed, sketches, stored
from banyan.model.word_ngrams import BUCKETS, WordNgrams, spelling
from tests.helpers.models import tiny_model

TEXTS = ["the cat sat on the mat", "cat cat cat, cat", "a dog slept over 1984", "green-house_tree 7:30 the the", "dog"]


@pytest.mark.parametrize(("sublinear_tf", "root"), [(True, False), (False, False), (True, True)])
def test_cosines_of_sketches_are_those_of_lexical_parts(sublinear_tf, root):
    tiny, rng = tiny_model(), np.random.default_rng(0)
    idf = rng.integers(4, 40, BUCKETS).astype(np.uint8)
    scale = rng.normal(0, 0.1, BUCKETS).astype(np.float32)
    settings = {"lexical_dim": 64, "lexical_ngrams": "words", "lexical_root": root, "sublinear_tf": sublinear_tf}
    config = replace(tiny.config, **settings)
    model = Banyan(config, tiny.tokenizer, {**tiny.weights, "lexical_idf": stored(idf, scale)})
    tokens, offsets = tiny.tokenizer.encode(TEXTS)
    expected = model.lexical_parts(tokens, offsets)
    ngrams = hashed(tokens, offsets, spelling(tiny.tokenizer.pieces), 64, sublinear_tf, torch.device("cpu"))
    found = sketches(ngrams, torch.from_numpy(idf), torch.from_numpy(scale), 64, root).numpy()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=0.02 if root else 0.01)


@pytest.mark.parametrize("sublinear_tf", [True, False])
def test_listed_ngrams_add_up_to_what_is_defined(sublinear_tf):
    dim, tiny = 97, tiny_model()  # an odd number of columns is not rotated
    weights = 2 * np.random.default_rng(0).integers(2, 20, BUCKETS).astype(np.uint8)  # even: no half is rounded
    tokens, offsets = tiny.tokenizer.encode(TEXTS * 900)  # several jobs
    spelt = spelling(tiny.tokenizer.pieces)
    place, bucket, halves = listed(tokens, offsets, spelt, dim, sublinear_tf)
    sums = np.bincount(place, halves * weights[bucket] / 2, len(TEXTS) * 900 * dim).reshape(-1, dim)
    model = WordNgrams(spelt, weights, dim, sublinear_tf)
    expected = [model.contributions(text).sum(0) for text in np.split(tokens, offsets[1:-1])[: len(TEXTS)]]
    np.testing.assert_array_equal(sums, np.tile(expected, (900, 1)))


def test_weights_that_were_not_learned_are_stored_as_they_are():
    idf = np.arange(BUCKETS).astype(np.uint8)
    assert stored(idf, np.zeros(BUCKETS, np.float32)) is idf
    assert stored(idf, np.full(BUCKETS, 0.1, np.float32)).max() == 255


@pytest.mark.parametrize("root", [False, True])
def test_gradients_reach_the_weights_of_shared_ngrams(root):
    tiny = tiny_model()
    tokens, offsets = tiny.tokenizer.encode(["the cat", "the dog"])
    ngrams = hashed(tokens, offsets, spelling(tiny.tokenizer.pieces), 512, True, torch.device("cpu"))
    scale = torch.zeros(BUCKETS, requires_grad=True)
    found = sketches(ngrams, torch.full((BUCKETS,), 8), scale, 512, root)
    (found[0] @ found[1]).backward()
    first, second = (set(ngrams.bucket[ngrams.place // 512 == row].tolist()) for row in range(2))
    assert scale.grad[list(first & second)].min() > 0  # they make the texts more similar
    assert scale.grad[list(first ^ second)].max() < 0
