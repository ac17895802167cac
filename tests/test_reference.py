"""When the two forms of induction agree, what the tie rule says, the other structures, and linear functions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from banyan import reference
from banyan.backends import _numba
from banyan.config import SETTINGS
from banyan.model.dropout import LEAF, NODE, Dropout
from banyan.model.graph import check_ragged
from tests.helpers.batches import (
    functions_of,
    graph_edges,
    kinds,
    random_batch,
    random_functions,
    repeats_a_pair,
    seeds,
)


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
@given(seeds, kinds)
def test_algorithm_1_and_the_greedy_form_agree_unless_a_pair_repeats_or_ties(seed, kind):
    rng = np.random.default_rng(seed)
    tokens, offsets = random_batch(rng, sentences=4, vocab=40, longest=8)
    embedding, f = rng.normal(size=(40, 6)), functions_of(kind, rng, 2)
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


# --- Structures that ask no vector -----------------------------------------------------------------------------------


def trees(seed, structure, n, sentences=1, vocab=50):
    """Nested tuples of tokens, one a sentence."""
    rng = np.random.default_rng(seed)
    tokens, offsets = rng.integers(0, vocab, sentences * n), np.arange(sentences + 1) * n
    embedding, f = rng.normal(size=(vocab, 4)), random_functions(rng, 2)
    forest = reference.greedy(tokens, offsets, embedding, f, structure=structure)
    nodes: list = tokens.tolist()
    for left, right in forest.children:
        nodes.append((nodes[left], nodes[right]))
    return [nodes[root] for root in forest.root]


def leaves(tree) -> tuple:
    return leaves(tree[0]) + leaves(tree[1]) if isinstance(tree, tuple) else (tree,)


def phrases(tree) -> list:
    return [tree, *phrases(tree[0]), *phrases(tree[1])] if isinstance(tree, tuple) else []


def height(tree) -> int:
    return 1 + max(map(height, tree)) if isinstance(tree, tuple) else 0


def test_right_branching_trees_branch_to_the_right():
    (tree,) = trees(0, "right-branching", 9)
    while isinstance(tree, tuple):
        left, tree = tree
        assert isinstance(left, np.integer | int)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 32, 128])
def test_balanced_trees_are_as_low_as_can_be(n):
    (tree,) = trees(1, "balanced", n)
    assert height(tree) == np.log2(n)


@pytest.mark.parametrize("structure", SETTINGS["structure"].choices)
def test_equal_spans_have_equal_trees(structure):
    """Whatever is around them."""
    seen: dict[tuple, tuple] = {}
    met = [phrase for tree in trees(2, structure, n=6, sentences=200, vocab=3) for phrase in phrases(tree)]
    assert len(set(map(leaves, met))) < len(met) / 2
    for phrase in met:
        assert seen.setdefault(leaves(phrase), phrase) == phrase


def test_random_trees_differ_from_sentence_to_sentence():
    shapes = {str(tree).translate(dict.fromkeys(range(ord("0"), ord("9") + 1))) for tree in trees(3, "random", 5, 300)}
    assert len(shapes) == 14  # all that five leaves can have


# --- Linear functions, and dropout at the leaves ---------------------------------------------------------------------


def test_linear_functions_are_equations_1_and_2_channel_by_channel():
    rng = np.random.default_rng(6)
    f, left, right = functions_of("linear", rng, 3), rng.normal(size=12), rng.normal(size=12)
    parent = reference.compose(left, right, f)
    to_left, to_right = reference.decompose(parent, f)
    for k in range(0, 12, 3):
        l_k, r_k, p_k = left[k : k + 3], right[k : k + 3], parent[k : k + 3]
        np.testing.assert_allclose(p_k, l_k @ f.comp_l + r_k @ f.comp_r + f.comp_b)
        np.testing.assert_allclose(to_left[k : k + 3], p_k @ f.decomp_l + f.decomp_lb)
        np.testing.assert_allclose(to_right[k : k + 3], p_k @ f.decomp_r + f.decomp_rb)
    assert sum(value.size for value in functions_of("linear", rng, 16)) == 1072


def test_leaves_may_have_a_rate_of_their_own():
    both, alone = Dropout(0.3, 5, 6, leaf_rate=0.0), Dropout(0.3, 5, 6)
    assert (both.mask(LEAF, 7, 50) == 1).all()
    np.testing.assert_array_equal(both.mask(NODE, 7, 50), alone.mask(NODE, 7, 50))
    np.testing.assert_array_equal(Dropout(0.0, 5, 6, leaf_rate=0.3).mask(LEAF, 7, 50), alone.mask(LEAF, 7, 50))
