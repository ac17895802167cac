"""Every kind of model, on every back end, is what a plain autograd version of it is: one node after the other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from banyan.config import SETTINGS, Config
from banyan.model import BanyanModel, contrastive
from banyan.model.contrastive import SCALE
from banyan.model.dropout import Dropout
from banyan.model.graph import Graph
from banyan.model.objective import loss
from tests.helpers.batches import random_batch
from tests.helpers.plain import BACKENDS, DROPOUT, VOCAB, made, plain_loss, same_loss_and_gradients

KINDS = list(product(SETTINGS["trees"].choices, SETTINGS["functions"].choices, SETTINGS["objective"].choices))


def check(model: BanyanModel, dropout: Dropout, seed: int = 0) -> None:
    tokens, offsets = random_batch(np.random.default_rng(seed), sentences=5, vocab=VOCAB, longest=6)
    graph = model.structure(tokens, offsets, dropout)
    got = loss(model, model(graph, dropout))
    plain = graph if isinstance(graph, Graph) else graph.to_numpy()
    expected = plain_loss(model, plain, dropout)
    same_loss_and_gradients(model, got, expected)


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
@pytest.mark.parametrize(("trees", "functions", "objective"), KINDS)
def test_every_combination_is_its_plain_version(backend, dtype, trees, functions, objective):
    check(made(backend, dtype, trees=trees, functions=functions, objective=objective), DROPOUT)


@pytest.mark.parametrize(("trees", "objective"), [("entangled", "contrastive"), ("plain", "both")])
def test_exponentials_taken_in_registers_change_nothing(trees, objective, monkeypatch):
    output_layer = pytest.importorskip("banyan.backends._triton.loss")
    monkeypatch.setattr(output_layer, "HALF", torch.float32)  # what bf16 rounds is not the matter here
    model = made("triton", torch.float32, trees=trees, objective=objective)
    model.precision = "bf16"
    check(model, DROPOUT)


@pytest.mark.parametrize("held", [1, 3 * 9 * 8, 1 << 20])  # bytes: a row, three rows or all of P at a time
def test_contrastive_loss_is_that_of_the_whole_matrix(held, monkeypatch):
    monkeypatch.setitem(contrastive.HELD, "cpu", held)
    generator = torch.Generator().manual_seed(0)
    up, down = (torch.randn(9, 4, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2))
    cosines = cosine_similarity(up[:, None], down[None], dim=-1) * SCALE
    expected = (cross_entropy(cosines, torch.arange(9)) + cross_entropy(cosines.T, torch.arange(9))) / 2
    torch.testing.assert_close(contrastive.contrastive(up, down), expected)
    assert torch.autograd.gradcheck(contrastive.contrastive, (up, down))


def test_rows_that_are_no_nodes_count_for_nothing():
    here = torch.tensor([True, False, True, True])
    up, down = (torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i in range(2))
    expected = contrastive.contrastive(up[here], down[here])
    up[1] = down[1] = torch.nan
    up.requires_grad_()
    got = contrastive.contrastive(up, down, here)
    torch.testing.assert_close(got, expected)
    got.backward()
    assert up.grad.isfinite().all()
    assert (up.grad[1] == 0).all()


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
def test_a_batch_without_inner_nodes_is_no_obstacle(backend, dtype):
    model = made(backend, dtype, objective="both")
    graph = model.structure(np.array([3, 4]), np.array([0, 1, 2]))
    value = loss(model, model(graph))
    value.backward()
    assert value.isfinite()


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
def test_the_mean_over_distinct_tokens_is_its_plain_version(backend, dtype):
    check(made(backend, dtype, trees="plain", mean_over="tokens"), DROPOUT)


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
@pytest.mark.parametrize("structure", [name for name in SETTINGS["structure"].choices if name != "induced"])
def test_structures_that_look_at_no_vector_are_trained_alike(backend, dtype, structure):
    check(made(backend, dtype, structure=structure), DROPOUT)


def test_self_strae_has_the_parameters_of_the_paper():
    model = BanyanModel(Config.from_preset("self-strae"), VOCAB)
    assert sum(function.numel() for function in model.functions) == 1072
    assert sum(weight.numel() for weight in model.parameters()) == 1072 + VOCAB * 256  # no output layer
