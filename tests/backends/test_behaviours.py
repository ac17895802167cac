"""Every back end behaves alike: one suite over all of them, held against reference.py and against plain autograd."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from banyan import backends, reference
from banyan.config import SETTINGS
from banyan.model import BanyanModel
from banyan.model.dropout import LEAF, LEFT_MESSAGE, NO_DROPOUT, NODE, RIGHT_MESSAGE, Dropout
from banyan.model.functions import Functions
from banyan.model.graph import Graph, from_merges
from banyan.model.objective import loss, reconstruction
from tests.helpers.batches import canonical, random_batch
from tests.helpers.plain import (
    BACKENDS,
    DROPOUT,
    VOCAB,
    made,
    on_host,
    plain_loss,
    plain_passes,
    same_loss_and_gradients,
    up_and_down,
)

KINDS = ("trees", "functions", "objective")
TREES, FUNCTIONS, OBJECTIVES = (SETTINGS[name].choices for name in KINDS)
OBJECTIVES = tuple(name for name in OBJECTIVES if name != "none")  # which leaves nothing to learn without a teacher
STRUCTURES = SETTINGS["structure"].choices
PLAIN_HALVES = [{"trees": "plain", "halves": halves} for halves in SETTINGS["halves"].choices]
TREES_AND_HALVES = [{"trees": "entangled"}, *PLAIN_HALVES]
COMBINATIONS = [
    *(dict(zip(KINDS, chosen, strict=True)) for chosen in product(TREES, FUNCTIONS, OBJECTIVES)),
    *({"structure": structure} for structure in STRUCTURES if structure != "induced"),
    *({"trees": trees, "candidates": "batch"} for trees in TREES),
    {"trees": "plain", "mean_over": "tokens"},
    {"trees": "plain", "mean_over": "tokens", "candidates": "batch"},
    *({"functions": "linear", "objective": "both", **halves} for halves in PLAIN_HALVES[1:]),
]

over_back_ends = pytest.mark.parametrize(
    ("backend", "dtype"), BACKENDS, ids=lambda value: str(value).removeprefix("torch.")
)
over_trees_and_halves = pytest.mark.parametrize(
    "trees", TREES_AND_HALVES, ids=lambda settings: " by ".join(settings.values())
)
pytestmark = pytest.mark.usefixtures("small_blocks", "memory_full_of_nan")


def batch(seed: int = 0, sentences: int = 5, longest: int = 6) -> tuple[np.ndarray, np.ndarray]:
    return random_batch(np.random.default_rng(seed), sentences, VOCAB, longest)


def seeds(backend: str) -> range:
    """Kernels that are interpreted get one example."""
    return range(1 if backend == "triton" and not torch.cuda.is_available() else 10)


def weights_of(model: BanyanModel) -> tuple[dict[str, np.ndarray], Functions]:
    weights = {name: parameter.detach().cpu().double().numpy() for name, parameter in model.named_parameters()}
    return weights, Functions(*(weights[name] for name in Functions._fields))


def reference_graph(model: BanyanModel, tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout) -> Graph:
    (weights, f), plain = weights_of(model), model.config.trees == "plain"
    forest = reference.greedy(tokens, offsets, weights["embedding"], f, dropout, plain, model.config.structure)
    return reference.disentangle(forest, model.config.halves) if plain else reference.entangle(forest)


def stepped(model: BanyanModel, dropout: Dropout, seed: int = 0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss of a batch and its gradients."""
    model.zero_grad()
    value = loss(model, model(model.structure(*batch(seed), dropout), dropout))
    value.backward()
    return value.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


# --- Structure -------------------------------------------------------------------------------------------------------


@over_back_ends
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("functions", FUNCTIONS)
@over_trees_and_halves
def test_the_graph_is_that_of_the_reference(backend, dtype, trees, functions, structure):
    kind = {**trees, "functions": functions, "structure": structure}
    for seed in seeds(backend):
        model = made(backend, dtype, seed, dim=32, channels=8, **kind)  # wide enough that no two vectors are parallel
        dropout = DROPOUT if seed % 2 == 0 else NO_DROPOUT
        given = *batch(seed, 6, 8), dropout
        assert canonical(on_host(model.structure(*given))) == canonical(reference_graph(model, *given))


@over_back_ends
def test_the_older_child_gets_the_first_half(backend, dtype):
    """Leaves from left to right, then merges in order: in ((0 1) (2 3)) the first merge, in (0 (1 2)) the leaf."""
    model = made(backend, dtype, structure="right-branching", trees="plain", halves="age")
    graph = on_host(model.structure(np.arange(3), np.array([0, 3])))
    np.testing.assert_array_equal(graph.receivers, graph.children)  # leaves on the left
    forest = from_merges(np.arange(5), np.array([0, 5]), [[(3, 4), (2, 5), (0, 1), (7, 6)]])
    graph = model.graph_of(forest)
    (top,) = graph.root
    left, right = graph.children[top - 5]
    np.testing.assert_array_equal(graph.receivers[top - 5], [right, left])  # (2 (3 4)) was made before (0 1)


@over_back_ends
def test_equal_spans_share_one_node(backend, dtype):
    """Those of two sentences that are equal, and the end that a third has in common with them."""
    tokens, offsets = np.array([5, 1, 2, 6, 1, 2, 5, 1, 2]), np.array([0, 3, 6, 9])
    graph = on_host(made(backend, dtype, structure="right-branching").structure(tokens, offsets))
    assert (graph.n_leaves, graph.n_nodes) == (4, 7)
    assert graph.root[0] == graph.root[2] != graph.root[1]
    np.testing.assert_array_equal(graph.messages[graph.n_leaves :], [2, 0, 0])
    plain = on_host(made(backend, dtype, structure="right-branching", trees="plain").structure(tokens, offsets))
    assert (plain.n_leaves, plain.n_nodes) == (9, 15)


@over_back_ends
def test_sentences_of_one_token_are_their_tokens(backend, dtype):
    model = made(backend, dtype, objective="both")
    graph = model.structure(np.array([3, 4]), np.array([0, 1, 2]))
    passes = model(graph)
    assert on_host(graph).n_nodes == 2
    torch.testing.assert_close(passes.roots, model.embedding[3:5])
    value = loss(model, passes)
    value.backward()
    assert value.isfinite()


# --- Both passes, the losses, and their gradients --------------------------------------------------------------------


@over_back_ends
@pytest.mark.parametrize("functions", FUNCTIONS)
@over_trees_and_halves
def test_passes_loss_and_every_gradient_are_those_of_the_reference(backend, dtype, trees, functions):
    for seed in seeds(backend):
        model, dropout = made(backend, dtype, seed, functions=functions, **trees), DROPOUT
        weights, f = weights_of(model)
        graph = model.structure(*batch(seed), dropout)
        passes, host = model(graph, dropout), on_host(graph)
        up = reference.up_pass(host, weights["embedding"][host.token], f, dropout)
        down = reference.down_pass(host, up, f, dropout)
        close = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 2e-5, "atol": 2e-5}
        got = *up_and_down(passes), passes.rebuilt[: host.n_leaves], passes.roots
        for a, b in zip(got, (up, down, down[: host.n_leaves], up[host.root]), strict=True):
            np.testing.assert_allclose(a.detach().cpu(), b, **close)
        model.zero_grad()
        value = reconstruction(model, passes)
        value.backward()
        out = weights["out_weight"], weights["out_bias"]
        expected, gradients = reference.loss_and_gradients(host, weights["embedding"], f, *out, dropout)
        assert value.item() == pytest.approx(expected, rel=close["rtol"])
        assert gradients.keys() == dict(model.named_parameters()).keys()
        for name, parameter in model.named_parameters():
            np.testing.assert_allclose(parameter.grad.cpu(), gradients[name], err_msg=name, **close)


@over_back_ends
@pytest.mark.parametrize("settings", COMBINATIONS, ids=lambda settings: " ".join(settings.values()))
def test_every_combination_is_its_plain_version(backend, dtype, settings):
    model = made(backend, dtype, **settings)
    graph = model.structure(*batch(), DROPOUT)
    same_loss_and_gradients(model, loss(model, model(graph, DROPOUT)), plain_loss(model, on_host(graph), DROPOUT))


@over_back_ends
@pytest.mark.parametrize("functions", FUNCTIONS)
@over_trees_and_halves
def test_gradients_of_every_node_up_and_down_reach_the_weights(backend, dtype, trees, functions):
    model = made(backend, dtype, functions=functions, **trees)
    tokens, offsets = random_batch(np.random.default_rng(4), 7, 3, 4)  # some sentences are equal, or inside others
    graph = model.structure(tokens, offsets, DROPOUT)
    host = on_host(graph)
    assert trees["trees"] == "plain" or len(set(host.root.tolist())) < 7
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(host.n_nodes, 8, generator=generator).to(model.embedding) for _ in range(2)]
    ours, theirs = (
        sum((rows * g).sum() for rows, g in zip(both, given, strict=True))
        for both in (up_and_down(model(graph, DROPOUT)), map(torch.stack, plain_passes(model, host, DROPOUT)))
    )
    same_loss_and_gradients(model, ours, theirs)


@over_back_ends
@pytest.mark.parametrize("functions", FUNCTIONS)
@pytest.mark.parametrize("trees", TREES)
def test_without_reconstruction_the_roots_and_every_gradient_are_the_same(backend, dtype, trees, functions):
    model = made(backend, dtype, trees=trees, functions=functions, objective="none", teacher_weight=1.0)
    tokens, offsets = random_batch(np.random.default_rng(4), 7, 3, 4)  # some sentences are equal, or inside others
    graph = model.structure(tokens, offsets, DROPOUT)
    host = on_host(graph)
    targets = torch.randn(7, 8, generator=torch.Generator().manual_seed(0)).to(model.embedding)
    roots = torch.stack(plain_passes(model, host, DROPOUT)[0])[host.root]
    expected = (1 - torch.cosine_similarity(roots, targets)).mean()
    same_loss_and_gradients(model, loss(model, model(graph, DROPOUT), targets), expected)


@over_back_ends
def test_gradients_that_do_not_exist_are_zero(backend, dtype):
    """A loss of the roots alone leaves decomposition and the output layer as they are."""
    for settings in ({}, {"objective": "none", "infonce_weight": 1.0}):
        model = made(backend, dtype, **settings)
        model(model.structure(*batch())).roots.sum().backward()
        for name, parameter in model.named_parameters():
            moved = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            assert moved == (name in ("embedding", "comp_l", "comp_r", "comp_b")), name


@over_back_ends
@pytest.mark.parametrize("trees", TREES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_trees_that_are_given_can_be_trained_on(backend, dtype, objective, trees):
    model = made(backend, dtype, objective=objective, trees=trees)
    forest = from_merges(np.array([1, 2, 3, 2, 3]), np.array([0, 3, 5]), [[(1, 2), (0, 3)], [(0, 1)]])
    graph = model.graph_of(forest)
    passes = model(graph)
    weights, f = weights_of(model)
    a, b, c = weights["embedding"][[1, 2, 3]]
    expected = reference.compose(a, reference.compose(b, c, f), f)
    np.testing.assert_allclose(passes.roots[0].detach().cpu(), expected, rtol=1e-5)
    same_loss_and_gradients(model, loss(model, passes), plain_loss(model, graph, NO_DROPOUT))


# --- Dropout ---------------------------------------------------------------------------------------------------------


@over_back_ends
@pytest.mark.parametrize("dropout", [DROPOUT, Dropout(0.3, 1, 2), Dropout(0.0, 1, 2, 0.5), Dropout(0.5, 1, 2, 0.0)])
@over_trees_and_halves
def test_what_is_dropped_is_what_the_reference_drops(backend, dtype, trees, dropout):
    """A number is 0 exactly where its mask is: leaves, nodes, and the only message to a node."""
    model = made(backend, dtype, **trees)
    graph = model.structure(*batch(1), dropout)
    host = on_host(graph)
    up, down = (rows.detach().cpu().numpy() for rows in up_and_down(model(graph, dropout)))
    L, E = host.n_leaves, model.config.dim

    def kept(place: int, node: int) -> np.ndarray:
        return dropout.mask(place, int(host.key[node]), E) > 0

    for node in range(host.n_nodes):
        np.testing.assert_array_equal(up[node] != 0, kept(LEAF if node < L else NODE, node))
    for parent, receivers in enumerate(host.receivers, L):
        for child, place in zip(receivers, (LEFT_MESSAGE, RIGHT_MESSAGE), strict=True):
            if host.messages[child] == 1:
                np.testing.assert_array_equal(down[child] != 0, kept(place, parent))


@over_back_ends
def test_a_step_repeats_its_bits_and_another_step_drops_others(backend, dtype):
    for functions in FUNCTIONS:
        model = made(backend, dtype, functions=functions, objective="both")
        value, gradients = stepped(model, DROPOUT)
        again, same = stepped(model, DROPOUT)
        assert torch.equal(value, again)
        for name, gradient in gradients.items():
            assert torch.equal(gradient, same[name]), name
        assert not torch.equal(stepped(model, DROPOUT._replace(step=6))[0], value)


# --- Training and encoding -------------------------------------------------------------------------------------------


@over_back_ends
def test_training_steps_reduce_the_loss(backend, dtype):
    model = made(backend, dtype)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for step in range(8):
        losses.append(stepped(model, Dropout(0.1, 0, step))[0].item())
        optimiser.step()
    assert losses[-1] < 0.7 * losses[0]


def encoder_of(model: BanyanModel, structure: str = "induced") -> Any:
    weights, f = weights_of(model)
    return model.backend.encoder(weights["embedding"].astype(np.float32), f, structure, model.embedding.device)


def roots(encoder: Any, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    out = np.full((len(offsets) - 1, 8), np.nan, np.float32)
    encoder.roots(tokens, offsets, out)
    return out


@over_back_ends
@pytest.mark.parametrize("functions", FUNCTIONS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_embeddings_are_the_roots_of_the_up_pass(backend, dtype, structure, functions):
    for seed in seeds(backend):
        model = made(backend, dtype, seed, functions=functions, structure=structure).float()
        weights, f = weights_of(model)
        graph = reference_graph(model, *batch(seed), NO_DROPOUT)
        up = reference.up_pass(graph, weights["embedding"][graph.token], f)
        found = roots(encoder_of(model, structure), *batch(seed))
        np.testing.assert_allclose(found, up[graph.root], rtol=1e-5, atol=1e-5)


@over_back_ends
@pytest.mark.parametrize("functions", FUNCTIONS)
def test_an_embedding_does_not_depend_on_its_batch_mates(backend, dtype, functions):
    encoder = encoder_of(made(backend, dtype, functions=functions))
    tokens, offsets = batch(3, 7, 9)
    together = roots(encoder, tokens, offsets)
    sentences = np.split(tokens, offsets[1:-1])
    for sentence, row in zip(sentences, together, strict=True):
        np.testing.assert_array_equal(roots(encoder, sentence, np.array([0, len(sentence)]))[0], row)
    order = np.random.default_rng(0).permutation(7)
    lengths = np.concatenate([[0], np.cumsum(np.diff(offsets)[order])])
    permuted = roots(encoder, np.concatenate([sentences[i] for i in order]), lengths)
    np.testing.assert_array_equal(permuted, together[order])


@over_back_ends
def test_lexical_sums_have_the_same_bits(backend, dtype):
    model, rng = made(backend, dtype), np.random.default_rng(1)
    table = rng.integers(-127, 128, (VOCAB, 6)).astype(np.int8)
    tokens, offsets = batch(2, 20, 30)
    offsets = np.insert(offsets, 3, offsets[3])  # one is empty
    found = rng.normal(size=(21, 8 + 6)).astype(np.float32)
    expected = found.copy()
    model.backend.lexical_sums(table, 0.7, model.embedding.device).put(tokens, offsets, found)
    backends.named("numba").lexical_sums(table, 0.7, "cpu").put(tokens, offsets, expected)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(np.linalg.norm(found[:, :8], axis=1), 1, rtol=1e-6)
    sums = np.array([table[some].astype(int).sum(0) for some in np.split(tokens, offsets[1:-1])])
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(found[:, 8:], 0.7 * sums / lengths, rtol=1e-5, atol=1e-6)


def test_every_back_end_is_in_this_suite():
    assert {name for name, _ in BACKENDS} == {*backends.NAMES}
