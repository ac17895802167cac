"""When the two forms of induction agree, and what the tie rule says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from conftest import random_batch, random_functions
from hypothesis import given, settings
from hypothesis import strategies as st
from test_golden import graph_edges, repeats_a_pair

from banyan import reference
from banyan.backends import _numba
from banyan.graph import check_ragged

seeds = st.integers(0, 2**32 - 1)


def clear_margins(forest, embedding, f) -> bool:
    """No two candidate pairs of any frontier come within 1e-9 of each other (the same pair twice aside)."""
    T = len(forest.tokens)
    keys, vectors = [], []
    for token in forest.tokens:
        keys.append(int(token))
        vectors.append(embedding[token])
    names: dict[tuple, int] = {}
    for left, right in forest.children:
        keys.append(names.setdefault((keys[left], keys[right]), 1_000_000 + len(names)))
        vectors.append(reference.compose(vectors[left], vectors[right], f))
    for b, (start, end) in enumerate(zip(forest.offsets[:-1], forest.offsets[1:], strict=True)):
        frontier = list(range(start, end))
        for merge in range(start - b, end - b - 1):
            pairs = {
                (keys[i], keys[j]): reference.similarity(vectors[i], vectors[j], keys[i] == keys[j])
                for i, j in pairwise(frontier)
            }
            scores = sorted(pairs.values())
            if np.diff(scores).size and np.diff(scores).min() < 1e-9:
                return False
            left, _ = forest.children[merge]
            at = frontier.index(left)
            frontier[at : at + 2] = [T + merge]
    return True


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_algorithm_1_and_the_greedy_form_agree_unless_a_pair_repeats_or_ties(seed):
    rng = np.random.default_rng(seed)
    tokens, offsets = random_batch(rng, sentences=4, vocab=40, longest=8)
    embedding, f = rng.normal(size=(40, 6)), random_functions(rng, 2)
    forest = reference.greedy(tokens, offsets, embedding, f)
    graph = reference.entangle(forest)
    if repeats_a_pair(graph) or not clear_margins(forest, embedding, f):
        return
    assert graph_edges(graph) == graph_edges(reference.algorithm_1(tokens, offsets, embedding, f))


def test_the_two_forms_can_differ_where_a_pair_repeats_inside_a_sentence():
    """Greedy: merging the first "a b" can change its left neighbour's choice before the second is reached."""
    rng = np.random.default_rng(0)
    differing = 0
    for _ in range(200):
        embedding, f = rng.normal(size=(4, 4)), random_functions(rng, 2)
        tokens, offsets = np.array([0, 1, 2, 0, 1, 3]), np.array([0, 6])
        greedy = reference.entangle(reference.greedy(tokens, offsets, embedding, f))
        differing += graph_edges(greedy) != graph_edges(reference.algorithm_1(tokens, offsets, embedding, f))
    assert 0 < differing < 200


def induced(tokens, embedding, f, dtype):
    if dtype is None:
        return reference.greedy(np.array(tokens), np.array([0, len(tokens)]), embedding, f).children
    tokens, offsets = check_ragged(np.array(tokens), np.array([0, len(tokens)]))
    return _numba.induce(tokens, offsets, embedding.astype(dtype), tokens, f)[0].children


@pytest.mark.parametrize("dtype", [None, np.float32, np.float64], ids=["reference", "float32", "float64"])
class TestTies:
    """Similarity is symmetric, equal nodes score exactly 1, all others are clamped to 1, the leftmost wins."""

    def test_a_b_a_merges_from_the_left(self, dtype):
        rng = np.random.default_rng(1)
        for _ in range(50):
            children = induced([0, 1, 0], rng.normal(size=(2, 32)), random_functions(rng, 2), dtype)
            np.testing.assert_array_equal(children[0], [0, 1])

    def test_equal_neighbours_tie_at_one_and_the_leftmost_wins(self, dtype):
        rng = np.random.default_rng(2)
        for _ in range(50):
            children = induced([2, 0, 0, 3, 1, 1], rng.normal(size=(4, 32)), random_functions(rng, 2), dtype)
            np.testing.assert_array_equal(children[0], [1, 2])

    def test_parallel_vectors_do_not_beat_equal_nodes(self, dtype):
        rng = np.random.default_rng(3)
        for _ in range(50):
            a = rng.normal(size=32)
            embedding = np.stack([a, rng.normal(size=32), 3 * a])
            children = induced([1, 1, 0, 2], embedding, random_functions(rng, 2), dtype)
            np.testing.assert_array_equal(children[0], [0, 1])

    def test_a_zero_vector_scores_nothing_and_still_merges(self, dtype):
        rng = np.random.default_rng(4)
        embedding = np.stack([np.zeros(8), np.ones(8), np.ones(8) + 0.1 * rng.normal(size=8)])
        children = induced([0, 1, 2], embedding, random_functions(rng, 2), dtype)
        np.testing.assert_array_equal(children[0], [1, 2])


def test_nan_and_infinity_in_the_embedding_still_give_a_tree():
    rng = np.random.default_rng(5)
    embedding = rng.normal(size=(5, 8))
    embedding[1], embedding[3] = np.nan, np.inf
    children = induced([0, 1, 2, 3, 4, 1, 3], embedding, random_functions(rng, 2), np.float32)
    assert sorted(children.ravel()) == list(range(12))
