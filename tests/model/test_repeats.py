"""Sublinear term frequency: trees with few repeats of a token."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.model.leaves import LeafChoice
from banyan.training import train
from tests.helpers.batches import random_batch
from tests.helpers.training import SMALL

SUBLINEAR = LeafChoice(sublinear_tf=True)


@given(st.lists(st.lists(st.integers(0, 3), max_size=40), max_size=8))
@settings(deadline=None, max_examples=100)
def test_of_n_occurrences_as_many_are_left_as_their_logarithm_says(sentences):
    tokens = np.array([token for sentence in sentences for token in sentence], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])]).astype(np.int64)
    left, ends, _ = SUBLINEAR.leaves(tokens, offsets)
    for sentence, kept in zip(sentences, [left[a:b].tolist() for a, b in pairwise(ends)], strict=True):
        for token in range(4):
            n = sentence.count(token)
            assert kept.count(token) == (math.floor(1 + math.log(n)) if n else 0)
        places = iter(sentence)
        assert all(token in places for token in kept)  # in their order
        assert list(dict.fromkeys(kept)) == list(dict.fromkeys(sentence))  # where each stood first


@pytest.fixture(scope="module")
def once(corpus, tmp_path_factory) -> Banyan:
    out = tmp_path_factory.mktemp("once") / "out"
    train(corpus, out, epochs=1, sublinear_tf=True, whole_words=False, lexical_ngrams="pieces", **SMALL)
    return Banyan.from_pretrained(out)


@pytest.fixture
def always(once) -> Banyan:
    """The same weights in a model that takes every token."""
    return Banyan(replace(once.config, sublinear_tf=False), once.tokenizer, once.weights)


TEXT = "the cat saw the dog and the dog saw the cat"


def test_an_embedding_is_that_of_what_is_left(once, always):
    tokens, offsets = random_batch(np.random.default_rng(0), 20, once.tokenizer.vocab_size, 30)
    expected = always.encode_tokens(*SUBLINEAR.leaves(tokens, offsets)[:2])
    np.testing.assert_array_equal(once.encode_tokens(tokens, offsets), expected)
    tokens, offsets = once.tokenizer.encode([TEXT])
    np.testing.assert_array_equal(once.encode([TEXT]), always.encode_tokens(*SUBLINEAR.leaves(tokens, offsets)[:2]))
    assert np.abs(once.encode(TEXT) - always.encode(TEXT)).max() > 1e-3
    assert not once.encode("").any()


def test_a_tree_has_what_is_left_and_says_where_it_stood(once, always):
    tree = once.parse(TEXT)
    every = always.parse(TEXT).pieces
    assert {piece: tree.pieces.count(piece) for piece in every} == {
        piece: math.floor(1 + math.log(every.count(piece))) for piece in every
    }
    assert len(tree.pieces) < len(every)
    np.testing.assert_array_equal(tree.embeddings[-1], once.encode(TEXT))
    starts = tree.spans[: len(tree.pieces), 0]
    assert (np.diff(starts) >= 0).all()
    assert once.explain(TEXT, "the dog").similarity == pytest.approx(once.similarity(TEXT, "the dog"), abs=1e-5)


def test_training_has_every_token_and_the_model_says_what_it_encodes(once, corpus, tmp_path):
    train(corpus, tmp_path / "out", epochs=1, sublinear_tf=True, **SMALL)
    train(corpus, tmp_path / "every", epochs=1, sublinear_tf=False, lexical_ngrams="pieces", **SMALL)
    for name, weights in Banyan.from_pretrained(tmp_path / "every").weights.items():
        np.testing.assert_array_equal(weights, once.weights[name])
    said = json.loads((tmp_path / "out/config.json").read_text())
    assert said["sublinear_tf"] is True
    with pytest.raises(BanyanError, match="has sublinear_tf = True, which cannot be changed"):
        train(corpus, tmp_path / "next", init=tmp_path / "out", sublinear_tf=False, **SMALL)
