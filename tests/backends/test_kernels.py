"""What only the CPU kernels must do: any number of threads, columns cut into jobs, long documents.

What every back end must do is in test_behaviours.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan import reference
from banyan.backends import _numba
from banyan.backends._numba.autograd import Lent, Up, graph_of_batch
from banyan.config import SETTINGS
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.graph import disentangled, entangle
from banyan.support import threads
from tests.helpers.batches import functions_of, kinds, random_batch, seeds


def problem(seed: int, E: int = 6, U: int = 2, vocab: int = 8, sentences: int = 6, longest: int = 8, kind="diagonal"):
    rng = np.random.default_rng(seed)
    tokens, offsets = random_batch(rng, sentences, vocab, longest)
    return tokens, offsets, rng.normal(size=(vocab, E)), functions_of(kind, rng, U)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("leaf_rate", [None, 0.2])
def test_masks_are_those_of_the_reference(rate, place, leaf_rate):
    dropout, keys = Dropout(rate, 3, 5, leaf_rate), np.array([1, 2, 2**63 + 5, 1], np.uint64)
    rows = np.ones((4, 100))
    noise = _numba.Noise.of(dropout)
    _numba.drop_leaves(rows, keys, noise._replace(leaf=noise[place]))
    np.testing.assert_allclose(rows, [dropout.mask(place, int(key), 100) for key in keys])
    np.testing.assert_array_equal(rows[0], rows[3])  # equal keys, equal masks


def test_masks_drop_the_asked_share_and_differ_by_seed_step_place_and_key():
    def mask(rate=0.1, seed=0, step=0, place=0, key=1):
        rows = np.ones((1, 200_000))
        dropout = Dropout(rate, seed, step)
        noise = _numba.Noise.of(dropout)
        _numba.drop_leaves(rows, np.array([key], np.uint64), noise._replace(leaf=noise[place]))
        return rows[0]

    base = mask()
    assert (base == 0).mean() == pytest.approx(0.1, abs=0.003)
    assert base.mean() == pytest.approx(1, abs=0.003)
    for other in (mask(seed=1), mask(step=1), mask(place=1), mask(key=2)):
        assert ((base == 0) & (other == 0)).mean() == pytest.approx(0.01, abs=0.002)  # independent


shapes = st.sampled_from([(3, 3), (130, 1), (70, 7), (160, 80)])


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([0.0, 0.3]), st.sampled_from([None, 0.2]), shapes, st.booleans(), kinds)
def test_passes_and_gradients_do_not_depend_on_jobs_of_columns(seed, rate, leaf_rate, shape, plain, kind):
    E, U = shape
    tokens, offsets, embedding, f = problem(seed, E, U, sentences=4, longest=6, kind=kind)
    dropout = Dropout(rate, 1, 2, leaf_rate)
    forest = reference.greedy(tokens, offsets, embedding, f, dropout, plain)
    graph = disentangled(forest) if plain else entangle(forest)
    weight, bias = np.random.default_rng(seed).normal(size=(8, E)), np.zeros(8)

    leaves = embedding[graph.token].copy()
    _numba.drop_leaves(leaves, graph.key[: graph.n_leaves], _numba.Noise.of(dropout))
    up = _numba.up_pass(graph, leaves, f, dropout)
    down = _numba.down_pass(graph, up, f, dropout)
    np.testing.assert_allclose(up, reference.up_pass(graph, embedding[graph.token], f, dropout), atol=1e-12)
    np.testing.assert_allclose(down, reference.down_pass(graph, up, f, dropout), atol=1e-12)

    _, g_logits = reference.cross_entropy(down[: graph.n_leaves], graph.token, weight, bias)
    g_up, g_down = np.zeros_like(up), np.zeros_like(down)
    g_down[: graph.n_leaves] = g_logits @ weight
    g_leaves, g_f = _numba.backward(graph, up, down, g_up, g_down, f, dropout)
    _numba.drop_leaves(g_leaves, graph.key, _numba.Noise.of(dropout))
    _, expected = reference.loss_and_gradients(graph, embedding, f, weight, bias, dropout)
    g_embedding = np.zeros_like(embedding)
    np.add.at(g_embedding, graph.token, g_leaves)
    np.testing.assert_allclose(g_embedding, expected["embedding"], atol=1e-12)
    for name, g in g_f._asdict().items():
        assert g.shape == getattr(f, name).shape
        np.testing.assert_allclose(g, expected[name], atol=1e-11, err_msg=name)


def roots(tokens, offsets, embedding, f, n_threads=None, structure="induced"):
    out = np.full((len(offsets) - 1, embedding.shape[1]), np.nan, embedding.dtype)
    _numba.Encoder(embedding, f, structure).roots(tokens, offsets, out, n_threads)
    return out


@pytest.mark.parametrize(("kind", "U"), [("diagonal", 2), ("linear", 16)])
def test_embedding_is_bit_identical_alone_in_any_batch_and_with_any_thread_count(kind, U):
    tokens, offsets, embedding, f = problem(11, E=256, U=U, vocab=500, sentences=2000, longest=40, kind=kind)
    embedding = embedding.astype(np.float32)
    one = roots(tokens, offsets, embedding, f, 1)
    for n_threads in (2, 3, 8):
        np.testing.assert_array_equal(roots(tokens, offsets, embedding, f, n_threads), one)
    for i in range(0, 2000, 97):
        alone = roots(tokens[offsets[i] : offsets[i + 1]], np.array([0, offsets[i + 1] - offsets[i]]), embedding, f)
        np.testing.assert_array_equal(alone[0], one[i])


@pytest.mark.parametrize(("kind", "U"), [("diagonal", 2), ("linear", 16)])
def test_both_passes_are_bit_identical_with_any_thread_count(monkeypatch, kind, U):
    tokens, offsets, embedding, f = problem(12, E=256, U=U, vocab=100, sentences=64, longest=20, kind=kind)
    graph = entangle(reference.greedy(tokens, offsets, embedding, f))
    leaves = embedding[graph.token].astype(np.float32)
    results = []
    for count in ("1", "2", "5"):
        monkeypatch.setenv("BANYAN_THREADS", count)
        up = _numba.up_pass(graph, leaves, f)
        down = _numba.down_pass(graph, up, f)
        g = _numba.backward(graph, up, down, np.zeros_like(up), down.copy(), f)
        results.append([up, down, g[0], *g[1]])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_graphs_whose_gradients_are_still_to_come_share_no_memory(monkeypatch):
    """What a graph gives back holds rubbish for the next."""
    problems = [problem(seed, E=8, vocab=50, sentences=20) for seed in (13, 14)]
    rubbish = [np.full(1 << 20, 255, np.uint8) for _ in range(2)]  # NaN in any precision

    def roots_and_gradient(tokens, offsets, embedding, f):
        functions = [torch.from_numpy(vector).float() for vector in f]
        given = torch.from_numpy(embedding).float().requires_grad_()
        graph = graph_of_batch(tokens, offsets, given, functions, NO_DROPOUT, False, "induced", "side")
        roots = Up.apply(graph, NO_DROPOUT, given, *functions)
        return given, (roots**2).sum()

    alone = []
    for one in problems:
        monkeypatch.setattr(Lent, "_free", [array.copy() for array in rubbish])
        given, loss = roots_and_gradient(*one)
        loss.backward()
        alone.append(given.grad)
    assert all(torch.isfinite(gradient).all() for gradient in alone)
    together = [roots_and_gradient(*one) for one in problems]
    for _, loss in together:
        loss.backward(retain_graph=True)
    together[0][1].backward()
    assert torch.equal(together[0][0].grad, 2 * alone[0])
    assert torch.equal(together[1][0].grad, alone[1])


@pytest.mark.parametrize("structure", SETTINGS["structure"].choices)
def test_a_document_of_100_000_tokens_is_one_tree(structure):
    """Quadratic work would take minutes here."""
    rng = np.random.default_rng(0)
    embedding, f = rng.normal(size=(1000, 8)).astype(np.float32), functions_of("diagonal", rng, 2)
    tokens = rng.integers(0, 1000, 100_000).astype(np.int32)
    forest, similarity = _numba.induce(tokens, np.array([0, 100_000]), embedding, tokens, f, structure=structure)
    assert structure != "induced" or (similarity <= 1).all()
    assert len(forest.children) == 99_999
    assert np.isfinite(roots(tokens, np.array([0, 100_000]), embedding, f, structure=structure)).all()


def test_threads_run_returns_results_in_order_and_raises_what_a_job_raises():
    assert threads.run(lambda x: x * 2, [(i,) for i in range(100)], 4) == [2 * i for i in range(100)]
    with pytest.raises(ZeroDivisionError):
        threads.run(lambda x: 1 // x, [(1,), (0,)], 2)
