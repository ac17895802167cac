"""The plain torch back end is the reference too, on whatever device is here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from banyan import reference
from banyan.backends import _torch
from banyan.config import SETTINGS, Config
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.model.functions import Functions
from banyan.model.graph import Graph, disentangled, entangle
from banyan.model.objective import reconstruction
from tests.helpers.batches import kinds, random_batch, seeds

VOCAB = 8
CPU = torch.device("cpu")
ACCELERATOR = torch.accelerator.current_accelerator(check_available=True)

in_both_kinds = pytest.mark.parametrize("functions", SETTINGS["functions"].choices)
if_accelerated = pytest.mark.skipif(ACCELERATOR is None, reason="torch sees no accelerator here")
on_every_device = pytest.mark.parametrize(
    "device", [pytest.param(CPU, id="cpu"), pytest.param(ACCELERATOR, id="accelerator", marks=if_accelerated)]
)


def model_of(seed: int, E: int = 6, U: int = 2, backend: str | None = "torch", **config) -> BanyanModel:
    """float64, with weights large enough that every one of them matters."""
    rng = np.random.default_rng(seed)
    model = BanyanModel(Config(dim=E, channels=E // U, **config), VOCAB, backend).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(rng.uniform(-1, 1, parameter.shape)))
        for gate in model.functions:
            if gate.ndim == 2:
                gate /= U**0.5
    return model


def batch(seed: int, sentences: int = 4, longest: int = 6) -> tuple[np.ndarray, np.ndarray]:
    return random_batch(np.random.default_rng(seed), sentences, VOCAB, longest)


def weights_of(model: BanyanModel) -> tuple[dict[str, np.ndarray], Functions]:
    weights = {name: p.detach().cpu().double().numpy() for name, p in model.named_parameters()}
    return weights, Functions(*(weights[name] for name in Functions._fields))


def loss_and_gradients(model: BanyanModel, graph: Graph, dropout: Dropout) -> tuple[float, dict[str, np.ndarray]]:
    model.zero_grad()
    loss = reconstruction(model, model(graph, dropout))
    loss.backward()
    gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
    return loss.item(), {name: gradient.cpu().numpy() for name, gradient in gradients.items()}  # None: nothing merged


def assert_is_the_reference(model: BanyanModel, graph: Graph, dropout: Dropout, atol: float) -> None:
    """Both passes, the loss over the vocabulary, and the gradient of all ten parameters."""
    weights, f = weights_of(model)
    passes = model(graph, dropout)
    up = reference.up_pass(graph, weights["embedding"][graph.token], f, dropout)
    down = reference.down_pass(graph, up, f, dropout)
    for got, wanted in ((passes.up, up), (passes.down, down), (passes.roots, up[graph.root])):
        np.testing.assert_allclose(got.detach().cpu(), wanted, atol=atol)
    loss, gradients = loss_and_gradients(model, graph, dropout)
    out = weights["out_weight"], weights["out_bias"]
    expected, wanted = reference.loss_and_gradients(graph, weights["embedding"], f, *out, dropout)
    assert loss == pytest.approx(expected, abs=atol)
    assert len(gradients) == 10
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, wanted[name], atol=atol, err_msg=name)


@on_every_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("rate", "leaf_rate"), [(0.0, None), (0.1, None), (0.7, None), (0.1, 0.0), (0.0, 0.2)])
def test_masks_are_exactly_those_of_the_reference(rate, leaf_rate, dtype, device):
    if device.type == "mps" and dtype == torch.float64:
        pytest.skip("mps has no float64")
    keys = np.random.default_rng(0).integers(0, 2**64, 50, np.uint64)
    keys[:2] = 0, 2**64 - 1
    dropout = Dropout(rate, 3, 5, leaf_rate)
    for place in range(4):
        expected = np.array([dropout.mask(place, int(key), 300) for key in keys])
        got = _torch.masks(dropout, place, keys, 300, device, dtype)
        assert (got.device.type, got.dtype) == (device.type, dtype)
        np.testing.assert_array_equal(got.cpu(), torch.from_numpy(expected).to(dtype))


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from([0.0, 0.3]), st.sampled_from([(6, 2), (3, 3), (14, 7)]), st.booleans(), kinds)
def test_both_passes_and_every_gradient_are_those_of_the_reference(seed, rate, shape, plain, functions):
    model = model_of(seed, *shape, trees="plain" if plain else "entangled", functions=functions)
    dropout = Dropout(rate, seed=1, step=2, leaf_rate=0.1)
    weights, f = weights_of(model)
    forest = reference.greedy(*batch(seed), weights["embedding"], f, dropout, plain)
    assert_is_the_reference(model, disentangled(forest) if plain else entangle(forest), dropout, atol=1e-12)


@on_every_device
@pytest.mark.parametrize("trees", ["entangled", "plain"])
@pytest.mark.parametrize("rate", [0.0, 0.2])
@in_both_kinds
def test_in_float32_it_is_the_reference_within_rounding(functions, rate, trees, device):
    model = model_of(5, E=32, U=4, trees=trees, functions=functions).float().to(device)
    dropout = Dropout(rate, seed=1, step=2)
    graph = model.structure(*batch(5, sentences=20, longest=12), dropout)
    assert_is_the_reference(model, graph, dropout, atol=2e-5)


@on_every_device
@pytest.mark.parametrize("candidates", ["all", "batch"])
@pytest.mark.parametrize("trees", ["entangled", "plain"])
@in_both_kinds
def test_it_agrees_with_the_cpu_kernels_in_structure_loss_and_gradients(functions, trees, candidates, device):
    ours, theirs = (
        model_of(6, E=32, U=4, backend=backend, trees=trees, candidates=candidates, functions=functions).float()
        for backend in ("torch", "numba")
    )
    ours, dropout = ours.to(device), Dropout(0.1, seed=2, step=7)
    graph, expected_graph = (m.structure(*batch(6, sentences=20, longest=12), dropout) for m in (ours, theirs))
    np.testing.assert_array_equal(graph.children, expected_graph.children)
    loss, gradients = loss_and_gradients(ours, graph, dropout)
    expected, wanted = loss_and_gradients(theirs, graph, dropout)
    assert loss == pytest.approx(expected, abs=1e-5)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, wanted[name], atol=2e-5, err_msg=name)


@pytest.mark.parametrize("backend", ["torch", "numba"])
@in_both_kinds
def test_gradients_of_both_passes_are_their_slopes(functions, backend):
    model, dropout = model_of(4, backend=backend, functions=functions), Dropout(0.2, seed=1, step=2, leaf_rate=0.1)
    graph = model.structure(*batch(4, sentences=3, longest=5), dropout)
    names = ("embedding", *Functions._fields)

    def both_passes(*weights):
        passes = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (graph, dropout))
        return passes.up, passes.down

    assert torch.autograd.gradcheck(both_passes, [getattr(model, name) for name in names])


class WithoutFloat64(TorchDispatchMode):
    """A device that has none (mps)."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert torch.float64 not in [x.dtype for x in tree_leaves(result) if isinstance(x, torch.Tensor)], func
        return result


@pytest.mark.parametrize("candidates", ["all", "batch"])
def test_a_step_in_float32_needs_no_float64(candidates):
    model, dropout = model_of(9, candidates=candidates).float(), Dropout(0.1)
    graph = model.structure(*batch(9), dropout)
    with WithoutFloat64():
        loss_and_gradients(model, graph, dropout)


def test_the_same_step_has_the_same_bits_on_the_cpu():
    model, dropout = model_of(7, E=32, U=4).float(), Dropout(0.1, seed=2, step=7)
    graph = model.structure(*batch(7, sentences=50, longest=20), dropout)
    once, again = (loss_and_gradients(model, graph, dropout)[1] for _ in range(2))
    for name in once:
        np.testing.assert_array_equal(once[name], again[name])


@on_every_device
def test_training_steps_reduce_the_loss(device):
    model = BanyanModel(Config(dim=32, channels=8), VOCAB, "torch").to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-2)
    losses = []
    for step in range(30):
        dropout = Dropout(0.1, seed=0, step=step)
        loss = reconstruction(model, model(model.structure(*batch(8, sentences=20), dropout), dropout))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_weights_on_the_cpu_use_its_kernels_and_others_plain_torch():
    model = model_of(0, backend=None)
    assert model.backend == "numba"
    assert model.to("meta").backend == "torch"
