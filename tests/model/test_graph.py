"""Invariants of forests and graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan import reference
from banyan.backends import _numba
from banyan.errors import BanyanError
from banyan.model.graph import Forest, check_ragged, disentangled, distinct, entangle, from_merges
from tests.helpers.batches import random_batch, random_functions

seeds = st.integers(0, 2**32 - 1)
FIELDS = ("token", "children", "root", "levels", "key", "node_of")


def random_forest(seed: int, vocab: int = 6) -> Forest:
    rng = np.random.default_rng(seed)
    tokens, offsets = random_batch(rng, sentences=int(rng.integers(1, 12)), vocab=vocab, longest=9)
    embedding = rng.normal(size=(vocab, 8))
    return _numba.induce(tokens, offsets, embedding, tokens, random_functions(rng, 2))[0]


def spans(graph) -> list[tuple]:
    found = [(int(token),) for token in graph.token]
    for left, right in graph.children:
        found.append(found[left] + found[right])
    return found


@pytest.mark.parametrize("tokens", [[], [5], [7, 0, 7, 3, 3, 9]])
def test_distinct_tokens_are_those_of_numpy(tokens):
    found = distinct(np.array(tokens, np.int32))
    for ours, theirs in zip(found, np.unique(np.array(tokens, np.int32), return_inverse=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == np.int32


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_n_leaves_give_n_minus_1_merges_and_children_precede_parents(seed):
    forest = random_forest(seed)
    T, B = len(forest.tokens), len(forest.offsets) - 1
    assert len(forest.children) == T - B
    parents = T + np.arange(T - B)
    assert (forest.children < parents[:, None]).all()
    used = np.sort(np.concatenate([forest.children.ravel(), forest.root]))
    np.testing.assert_array_equal(used, np.arange(2 * T - B))  # every node once: as a child, or as a root


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_equal_spans_share_one_node(seed):
    forest = random_forest(seed)
    graph = entangle(forest)
    assert len(set(map(tuple, graph.children.tolist()))) == len(graph.children)
    assert len(set(graph.token.tolist())) == graph.n_leaves
    assert len(set(graph.key.tolist())) == graph.n_nodes
    of_graph = spans(graph)
    assert len(set(of_graph)) == graph.n_nodes  # identity of children is identity of spans
    sentence = [tuple(forest.tokens[s:e].tolist()) for s, e in zip(forest.offsets, forest.offsets[1:], strict=False)]
    assert [of_graph[root] for root in graph.root] == sentence


@settings(max_examples=60, deadline=None)
@given(seeds, st.booleans())
def test_nodes_are_sorted_by_height(seed, plain):
    forest = random_forest(seed)
    graph = disentangled(forest) if plain else entangle(forest)
    height = np.zeros(graph.n_nodes, int)
    for node, pair in enumerate(graph.children, start=graph.n_leaves):
        height[node] = 1 + height[pair].max()
    expected = np.searchsorted(graph.levels, np.arange(graph.n_nodes), side="right") - 1
    np.testing.assert_array_equal(height, expected)
    assert graph.levels[0] == 0
    assert graph.levels[-1] == graph.n_nodes


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_entangling_is_that_of_the_reference(seed):
    forest = random_forest(seed)
    fast, slow = entangle(forest), reference.entangle(forest)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_plain_trees_keep_every_occurrence(seed):
    forest = random_forest(seed)
    graph = disentangled(forest)
    assert graph.n_nodes == len(forest.tokens) + len(forest.children)
    assert len(set(graph.key.tolist())) == graph.n_nodes
    assert (graph.messages[graph.root] == 0).all()
    assert sorted(graph.node_of) == list(range(graph.n_nodes))


def test_a_pair_of_equal_leaves_gets_two_messages():
    tokens, offsets = check_ragged(np.array([7, 7]), np.array([0, 2]))
    graph = entangle(from_merges(tokens, offsets, [[(0, 1)]]))
    np.testing.assert_array_equal(graph.messages, [2, 0])


def test_given_trees_are_taken_as_they_are():
    tokens, offsets = check_ragged(np.array([3, 1, 4, 1, 5]), np.array([0, 4, 5]))
    forest = from_merges(tokens, offsets, [[(2, 3), (1, 4), (0, 5)], []])
    np.testing.assert_array_equal(forest.children, [[2, 3], [1, 5], [0, 6]])
    np.testing.assert_array_equal(forest.root, [7, 4])


@pytest.mark.parametrize(
    ("merges", "says"),
    [
        ([(0, 1)], "needs? 2|need 2"),
        ([(0, 2), (1, 3)], "not neighbours"),
        ([(0, 1), (0, 2)], "already joined"),
        ([(0, 1), (4, 2)], "missing"),
        ([(1, 0), (2, 3)], "not neighbours"),
    ],
)
def test_a_wrong_tree_is_refused_with_the_reason(merges, says):
    with pytest.raises(BanyanError, match=says):
        from_merges(np.array([5, 6, 7]), np.array([0, 3]), [merges])


def test_a_batch_with_an_empty_sentence_is_refused():
    with pytest.raises(BanyanError, match="sentence 1 of the batch has no tokens"):
        check_ragged(np.array([1, 2]), np.array([0, 2, 2]))
    with pytest.raises(BanyanError, match="offsets must increase from 0"):
        check_ragged(np.array([1, 2]), np.array([0, 1]))
