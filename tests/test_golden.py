"""The authors' program, the reference and the kernels agree: trees, roots, logits, loss and every gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from banyan import reference
from banyan.backends import _numba
from banyan.config import PRESETS, Config
from banyan.model import BanyanModel
from banyan.model.functions import Functions
from banyan.model.graph import Graph, check_ragged, entangle
from banyan.model.objective import loss as loss_of
from banyan.model.objective import reconstruction
from tests.helpers.batches import graph_edges, repeats_a_pair
from tests.helpers.places import TESTS
from tests.helpers.plain import BACKENDS, made

WEIGHTS = ("embedding", *reference.Functions._fields, "out_weight", "out_bias")

GOLDEN, SELF_STRAE = (sorted((TESTS / "golden").glob(f"{kind}_*.npz")) for kind in ("banyan", "selfstrae"))


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request) -> dict[str, np.ndarray]:
    """Figures from the authors' program: a batch, all weights, and what it computes."""
    with np.load(request.param) as file:
        return dict(file)


@pytest.fixture(params=SELF_STRAE, ids=lambda path: path.stem)
def self_strae(request) -> dict[str, np.ndarray]:
    """The same from the authors' Self-StrAE program."""
    with np.load(request.param) as file:
        return dict(file)


def golden_functions(golden: dict[str, np.ndarray]) -> Functions:
    return Functions(*(golden[name].astype(np.float64) for name in Functions._fields))


def edges(golden) -> set[tuple]:
    """The golden graph as nested tuples of tokens, so that numbering does not matter."""
    L = len(golden["leaf_tokens"])
    spans: dict[int, tuple] = {i: (int(token),) for i, token in enumerate(golden["leaf_tokens"])}
    for parent, (left, right) in zip(golden["parent"], golden["children"], strict=True):
        spans[int(parent)] = (spans[int(left)], spans[int(right)])
    return {span for node, span in spans.items() if node >= L}


def reference_graph(golden) -> Graph:
    forest = reference.greedy(
        golden["tokens"], golden["offsets"], golden["embedding"].astype(np.float64), golden_functions(golden)
    )
    return reference.entangle(forest)


def kernel_graph(golden, dtype=np.float32) -> Graph:
    tokens, offsets = check_ragged(golden["tokens"], golden["offsets"])
    embedding = golden["embedding"].astype(dtype)
    return entangle(_numba.induce(tokens, offsets, embedding, tokens, golden_functions(golden))[0])


GRAPHS = {
    "reference": reference_graph,
    "numba float32": kernel_graph,
    "numba float64": lambda golden: kernel_graph(golden, np.float64),
}


@pytest.mark.parametrize("graph_of", GRAPHS.values(), ids=GRAPHS)
def test_trees_and_node_counts_are_the_authors(golden, graph_of):
    graph = graph_of(golden)
    assert graph.n_nodes == golden["n_nodes"]
    assert graph_edges(graph) == edges(golden)
    np.testing.assert_array_equal(graph.token, golden["leaf_tokens"])


def test_algorithm_1_makes_the_authors_graph_where_no_pair_repeats(golden):
    graph = reference.algorithm_1(
        golden["tokens"], golden["offsets"], golden["embedding"].astype(np.float64), golden_functions(golden)
    )
    made, given = graph_edges(graph), edges(golden)
    if not repeats_a_pair(reference_graph(golden)):
        assert made == given
    else:
        assert len(made & given) > len(given) / 2  # a repeat changes its own sentence only


def test_reference_computes_the_authors_roots_logits_loss_and_gradients(golden):
    f, graph = golden_functions(golden), reference_graph(golden)
    embedding, weight, bias = (golden[name].astype(np.float64) for name in ("embedding", "out_weight", "out_bias"))
    up = reference.up_pass(graph, embedding[graph.token], f)
    down = reference.down_pass(graph, up, f)
    np.testing.assert_allclose(up[graph.root], golden["roots"], atol=5e-7)
    np.testing.assert_allclose(down[: graph.n_leaves] @ weight.T + bias, golden["logits"], atol=2e-6)
    loss, gradients = reference.loss_and_gradients(graph, embedding, f, weight, bias)
    assert loss == pytest.approx(float(golden["loss"]), abs=1e-6)
    for name in WEIGHTS:
        np.testing.assert_allclose(gradients[name], golden[f"g_{name}"], atol=5e-8, rtol=1e-4)


def golden_model(golden, dtype: torch.dtype) -> BanyanModel:
    model = BanyanModel(Config(dim=int(golden["E"]), channels=int(golden["K"])), int(golden["V"])).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(golden[name]))
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_model_computes_the_authors_roots_logits_loss_and_gradients(golden, dtype):
    model = golden_model(golden, dtype)
    passes = model(model.structure(golden["tokens"], golden["offsets"]))
    logits = passes.rebuilt @ model.out_weight.T + model.out_bias
    np.testing.assert_allclose(passes.roots.detach(), golden["roots"], atol=1e-6)
    np.testing.assert_allclose(logits.detach(), golden["logits"], atol=3e-6)
    loss = reconstruction(model, passes)
    assert loss.item() == pytest.approx(float(golden["loss"]), abs=1e-6)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert name in WEIGHTS
        np.testing.assert_allclose(parameter.grad, golden[f"g_{name}"], atol=1e-7, rtol=1e-4)


# --- Self-StrAE ------------------------------------------------------------------------------------------------------


def self_strae_weights(golden) -> tuple[np.ndarray, Functions]:
    return golden["embedding"].astype(np.float64), golden_functions(golden)


def self_strae_reference(golden, halves: str) -> tuple[np.ndarray, float, dict[str, np.ndarray]]:
    """Roots, loss and gradients of the reference."""
    embedding, f = self_strae_weights(golden)
    graph = reference.disentangle(reference.greedy(golden["tokens"], golden["offsets"], embedding, f), halves)
    roots = reference.up_pass(graph, embedding[graph.token], f)[graph.root]
    return roots, *reference.contrastive_loss_and_gradients(graph, embedding, f)


def test_reference_by_age_computes_the_authors_self_strae(self_strae):
    roots, loss, gradients = self_strae_reference(self_strae, "age")
    np.testing.assert_allclose(roots, self_strae["roots"], atol=5e-7)
    assert loss == pytest.approx(float(self_strae["loss"]), abs=1e-6)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, self_strae[f"g_{name}"], atol=5e-8, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("halves", ["side", "random"])
def test_halves_by_side_or_at_random_are_not_the_authors_self_strae(self_strae, halves):
    roots, loss, _ = self_strae_reference(self_strae, halves)
    np.testing.assert_allclose(roots, self_strae["roots"], atol=5e-7)  # the way up has no halves
    assert abs(loss - float(self_strae["loss"])) > 1e-3


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("backend", "dtype"), BACKENDS, ids=lambda value: str(value).removeprefix("torch."))
def test_every_back_end_computes_the_authors_self_strae(self_strae, backend, dtype):
    if backend == "triton" and not torch.cuda.is_available() and len(self_strae["tokens"]) > 100:
        pytest.skip("the interpreter takes ten seconds of CPU time")
    K, E = int(self_strae["K"]), self_strae["embedding"].shape[1]
    model = made(backend, dtype, preset="self-strae", **{**PRESETS["self-strae"], "dim": E, "channels": K})
    model.embedding = torch.nn.Parameter(torch.empty(self_strae["embedding"].shape).to(model.embedding))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(self_strae[name]))
    passes = model(model.structure(self_strae["tokens"], self_strae["offsets"]))
    np.testing.assert_allclose(passes.roots.detach().cpu(), self_strae["roots"], atol=2e-6)
    value = loss_of(model, passes)
    assert value.item() == pytest.approx(float(self_strae["loss"]), abs=3e-6)
    value.backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad.cpu(), self_strae[f"g_{name}"], atol=2e-7, rtol=2e-4, err_msg=name)
