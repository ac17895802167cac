"""The trainable module: gradients by gradcheck, the blocked cross-entropy, given trees, initialisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from banyan import reference
from banyan.config import Config
from banyan.model import objective
from banyan.model.banyan_model import BanyanModel, _UpAndDown
from banyan.model.dropout import Dropout
from banyan.model.graph import from_merges
from banyan.model.objective import cross_entropy, reconstruction
from tests.helpers.batches import random_batch


def small_model(**settings) -> BanyanModel:
    return BanyanModel(Config(dim=6, channels=3, **settings), 9).double()


def batch(seed: int = 0):
    return random_batch(np.random.default_rng(seed), sentences=4, vocab=9, longest=6)


@pytest.mark.parametrize("trees", ["entangled", "plain"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_gradients_of_both_passes_pass_gradcheck(trees, rate):
    model, dropout = small_model(trees=trees), Dropout(rate, seed=1, step=3)
    graph = model.structure(*batch(), dropout)
    inputs = [p.detach().clone().requires_grad_() for p in (model.embedding, *model.functions)]
    assert torch.autograd.gradcheck(lambda *weights: _UpAndDown.apply(graph, dropout, *weights), inputs)


@pytest.mark.parametrize("largest", [0.0, 60.0], ids=["the usual way", "factored"])
@pytest.mark.parametrize("logits", [1, 10, 15, 512])
def test_blocked_cross_entropy_is_torchs_and_passes_gradcheck(logits, largest, monkeypatch):
    monkeypatch.setattr(objective, "LOGITS", logits)
    monkeypatch.setattr(objective, "LARGEST", largest)
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)
        for shape in ((7, 4), (5, 4), (5,))
    )
    target = torch.tensor([0, 1, 4, 4, 2, 3, 0])
    expected = torch.nn.functional.cross_entropy(x @ weight.T + bias, target)
    torch.testing.assert_close(cross_entropy(x, weight, bias, target), expected)
    assert torch.autograd.gradcheck(lambda *w: cross_entropy(*w, target), (x, weight, bias))
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(x, weight, bias, target), expected.detach())


def test_cross_entropy_survives_huge_logits():
    x, weight, bias = torch.tensor([[3e4, 0.0]]), torch.eye(2), torch.zeros(2)
    assert cross_entropy(x, weight, bias, torch.tensor([0])).item() == 0
    assert cross_entropy(x, weight, bias, torch.tensor([1])).item() == pytest.approx(3e4)


@pytest.mark.parametrize("trees", ["entangled", "plain"])
@pytest.mark.parametrize("candidates", ["all", "batch"])
def test_loss_is_the_mean_over_leaves_among_the_candidates(trees, candidates):
    model = small_model(trees=trees, candidates=candidates)
    passes = model(model.structure(*batch()))
    token = torch.from_numpy(passes.graph.token).long()
    allowed = torch.unique(token) if candidates == "batch" else torch.arange(9)
    logits = passes.rebuilt @ model.out_weight[allowed].T + model.out_bias[allowed]
    expected = torch.nn.functional.cross_entropy(logits, torch.searchsorted(allowed, token))
    loss = reconstruction(model, passes)
    torch.testing.assert_close(loss, expected)
    parameters = list(model.parameters())
    got = torch.autograd.grad(loss, parameters, retain_graph=True)
    wanted = torch.autograd.grad(expected, parameters)
    for name, a, b in zip(dict(model.named_parameters()), got, wanted, strict=True):
        torch.testing.assert_close(a, b, msg=lambda text, name=name: f"{name}: {text}")
    assert len(token) == (len(batch()[0]) if trees == "plain" else len(set(batch()[0].tolist())))


def test_gradients_reach_the_weights_through_the_roots_too():
    model = small_model()
    model(model.structure(*batch())).roots.sum().backward()
    assert model.embedding.grad.abs().sum() > 0
    assert model.comp_l.grad.abs().sum() > 0
    assert model.decomp_l.grad.abs().sum() == 0


def test_dropout_of_a_step_repeats_and_another_step_differs():
    model = small_model()

    def loss(step):
        dropout = Dropout(0.3, seed=0, step=step)
        return reconstruction(model, model(model.structure(*batch(), dropout), dropout)).item()

    assert loss(1) == loss(1)
    assert loss(1) != loss(2)


def test_with_dropout_the_model_is_still_the_reference():
    model, dropout = small_model(), Dropout(0.2, seed=4, step=9)
    graph = model.structure(*batch(), dropout)
    loss = reconstruction(model, model(graph, dropout))
    loss.backward()
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    f = reference.Functions(*(weights[name] for name in reference.Functions._fields))
    forest = reference.greedy(*batch(), weights["embedding"], f, dropout)
    np.testing.assert_array_equal(reference.entangle(forest).children, graph.children)
    expected, gradients = reference.loss_and_gradients(
        graph, weights["embedding"], f, weights["out_weight"], weights["out_bias"], dropout
    )
    assert loss.item() == pytest.approx(expected, abs=1e-12)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad, gradients[name], atol=1e-12, err_msg=name)


def test_trees_given_by_the_user_can_be_trained_on():
    model = small_model()
    forest = from_merges(np.array([1, 2, 3]), np.array([0, 3]), [[(1, 2), (0, 3)]])
    passes = model(model.graph_of(forest))
    f = reference.Functions(*(p.detach().numpy() for p in model.functions))
    a, b, c = model.embedding.detach().numpy()[[1, 2, 3]]
    np.testing.assert_allclose(passes.roots[0].detach(), reference.compose(a, reference.compose(b, c, f), f))
    reconstruction(model, passes).backward()
    assert model.embedding.grad[1:4].abs().min() > 0


def test_initial_weights_follow_the_seed_and_the_published_ranges():
    one, same, other = (BanyanModel(Config(seed=seed), 500) for seed in (0, 0, 1))
    assert torch.equal(one.embedding, same.embedding)
    assert not torch.equal(one.embedding, other.embedding)
    assert one.embedding.abs().max() <= 0.1
    for gate in (one.comp_l, one.comp_r, one.decomp_l, one.decomp_r):
        assert gate.min() >= 0.6
        assert gate.max() <= 0.9
    assert sum(p.numel() for p in one.functions) == 14
    assert one.comp_b.abs().sum() == one.decomp_lb.abs().sum() == one.decomp_rb.abs().sum() == 0
