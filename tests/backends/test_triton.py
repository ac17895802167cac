"""What only the GPU kernels must do: blocks, room for more, hashes, precisions, windows and recorded steps.

What every back end must do is in test_behaviours.py. On a machine with a GPU the kernels run there; elsewhere they run
in Triton's interpreter, on small cases.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from banyan import reference
from banyan.config import SETTINGS, Config
from banyan.corpus.report import Report
from banyan.corpus.store import Store
from banyan.model import BanyanModel
from banyan.model import graph as graphs
from banyan.model import objective as objectives
from banyan.model.dropout import Dropout
from banyan.support import devices
from tests.helpers.batches import assert_holds, canonical, random_batch, random_functions
from tests.helpers.places import HELPERS
from tests.helpers.plain import DROPOUT, VOCAB, made, plain_loss, same_loss_and_gradients
from tests.helpers.training import adam_with_a_tensor

ON_GPU = torch.cuda.is_available()
pytestmark = [pytest.mark.usefixtures("memory_full_of_nan", "small_blocks"), pytest.mark.kernels]
pytest.importorskip("triton")

from banyan.backends import _numba  # noqa: E402
from banyan.backends._triton import entangling, functions, passes, trees  # noqa: E402
from banyan.backends._triton import loss as output_layer  # noqa: E402
from banyan.backends._triton.batch import Batch, Noise  # noqa: E402
from banyan.backends._triton.passes import rows  # noqa: E402
from banyan.training import gpu_steps as gpu_steps_module  # noqa: E402
from banyan.training import gpu_windows as windows  # noqa: E402
from banyan.training.gpu_steps import Steps  # noqa: E402
from banyan.training.passages import Part  # noqa: E402

DEVICE = torch.device("cuda" if ON_GPU else "cpu")
FUNCTIONS = reference.Functions._fields
LARGE = pytest.mark.gpu  # the interpreter would take minutes


def on_device(array: np.ndarray, dtype=torch.float32) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE, dtype)


def linear_functions(rng: np.random.Generator, U: int) -> reference.Functions:
    shapes = [(U, U) if name in ("comp_l", "comp_r", "decomp_l", "decomp_r") else (U,) for name in FUNCTIONS]
    return reference.Functions(*(rng.uniform(-1, 1, shape) / U**0.5 for shape in shapes))


def with_room(batch: Batch, tokens: int, leaves: int) -> Batch:
    """The same batch, with room for so many more."""
    more = {"tokens": tokens, "leaf": tokens, "token": leaves}
    return batch._replace(**{name: torch.nn.functional.pad(getattr(batch, name), (0, n)) for name, n in more.items()})


class Problem:
    """A batch and all weights, in float64 for the reference and in float32 on the device."""

    def __init__(
        self, seed=0, E=8, U=2, vocab=8, sentences=5, longest=7, rate=0.0, plain=False,
        linear=False, leaf_rate=None, structure="induced", room=(0, 0),
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        self.tokens, self.offsets = random_batch(rng, sentences, vocab, longest)
        self.embedding = rng.normal(size=(vocab, E)).astype(np.float32).astype(np.float64)
        functions = (linear_functions if linear else random_functions)(rng, U)
        self.f = reference.Functions(*(v.astype(np.float32).astype(np.float64) for v in functions))
        self.plain, self.structure = plain, structure
        self.dropout = Dropout(rate, seed=seed, step=3, leaf_rate=leaf_rate)
        self.batch = with_room(Batch.of(self.tokens, self.offsets, DEVICE, plain), *room)
        self.noise = Noise.of(self.dropout, DEVICE)
        self.functions = tuple(on_device(v).requires_grad_() for v in self.f)
        self.weights = on_device(self.embedding).requires_grad_()

    def forest(self) -> trees.Forest:
        key = self.batch.token.new_empty(len(self.batch.token), dtype=torch.int64)
        leaves = trees.dropped_leaves(self.weights.detach(), self.batch, key, self.noise, self.plain)
        gates = functions.gates_of(self.functions, leaves.shape[1])
        return trees.induce(self.batch, leaves, gates, self.noise, self.plain, structure=self.structure)

    def graph(self, **options) -> entangling.DeviceGraph:
        given = self.batch, self.weights, self.functions, self.noise, self.plain
        return entangling.structure(*given, structure=self.structure, **options)

    def passes(self, graph: entangling.DeviceGraph) -> passes.Passes:
        return passes.Passes(graph, *passes.UpAndDown.apply(graph, self.weights, *self.functions))

    def reference_forest(self) -> graphs.Forest:
        given = self.tokens, self.offsets, self.embedding, self.f, self.dropout, self.plain
        return reference.greedy(*given, structure=self.structure)

    def reference_graph(self) -> graphs.Graph:
        forest = self.reference_forest()
        return graphs.disentangled(forest) if self.plain else reference.entangle(forest)


CASES = [
    pytest.param({"seed": seed, "rate": rate, "plain": plain}, id=f"{rate}-{'plain' if plain else 'entangled'}")
    for seed, (rate, plain) in enumerate([(0.0, False), (0.3, False), (0.0, True), (0.3, True)])
]
LINEAR = [
    pytest.param({"linear": True, "rate": 0.2, **case}, id=f"linear {' '.join(f'{k}={v}' for k, v in case.items())}")
    for case in (
        {"seed": 4, "E": 8, "U": 4},
        {"seed": 5, "E": 48, "U": 16, "plain": True, "leaf_rate": 0.5},
        {"seed": 6, "E": 16, "U": 2, "leaf_rate": 0.4, "room": (7, 3)},  # several channels in a slab
        {"seed": 7, "E": 16, "U": 16, "plain": True, "rate": 0.0, "room": (5, 9)},
        {"seed": 8, "E": 16, "U": 8, "vocab": 2, "sentences": 7, "longest": 4},
    )
]
LEAVES = [
    pytest.param({"seed": 3, "rate": rate, "leaf_rate": leaf_rate, "plain": plain}, id=f"{leaf_rate} of leaves")
    for rate, leaf_rate, plain in ((0.0, 0.4, False), (0.3, 0.0, True), (0.2, 0.5, False))
]
STRUCTURES = SETTINGS["structure"].choices
BIG = pytest.param(
    {"seed": 9, "E": 256, "vocab": 300, "sentences": 200, "longest": 60, "rate": 0.1}, id="big", marks=LARGE
)
BIG_PLAIN = pytest.param(
    {"seed": 8, "E": 96, "U": 3, "vocab": 90, "sentences": 90, "longest": 40, "rate": 0.1, "plain": True},
    id="big plain",
    marks=LARGE,
)
BIG_LINEAR = pytest.param(
    {
        "seed": 7, "E": 256, "U": 16, "vocab": 300, "sentences": 200, "longest": 60, "rate": 0.1, "leaf_rate": 0.2,
        "plain": True, "linear": True, "room": (500, 700),
    },
    id="big linear",
    marks=LARGE,
)  # fmt: skip
BIG_SHARED = pytest.param(
    {"seed": 6, "E": 96, "U": 32, "vocab": 90, "sentences": 90, "longest": 40, "rate": 0.1, "linear": True},
    id="big linear, entangled",
    marks=LARGE,
)
ALL_BIG = [BIG, BIG_PLAIN, BIG_LINEAR, BIG_SHARED]


def check_trees(problem: Problem) -> None:
    expected = problem.reference_forest().children
    ours, T = problem.forest().children.cpu().numpy()[: len(expected)], len(problem.tokens)
    ours = np.where(ours < T, ours, ours - (len(problem.batch.tokens) - T))  # merges are numbered after the room
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("case", [*CASES, *LINEAR, *LEAVES, *ALL_BIG])
def test_induction_gives_the_trees_of_the_reference(case):
    check_trees(Problem(**{"E": 32, **case}))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("options", [{"vocab": 2, "plain": True}, {"linear": True, "room": (3, 2)}])
def test_every_kind_of_structure_is_that_of_the_reference(structure, options):
    common = {"seed": 3, "E": 16, "sentences": 6, "longest": 12, "rate": 0.2, "structure": structure}
    problem = Problem(**{**common, **options})
    check_trees(problem)
    if "room" not in options:
        assert canonical(problem.graph().to_numpy()) == canonical(problem.reference_graph())


@LARGE
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_kind_of_structure_of_large_batches(structure):
    check_trees(Problem(seed=2, E=64, vocab=90, sentences=150, longest=70, rate=0.1, structure=structure))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("linear", [False, True])
def test_sentences_too_long_for_registers_are_merged_in_memory(structure, linear, monkeypatch):
    monkeypatch.setattr(trees, "IN_REGISTERS", 16)
    check_trees(Problem(5, E=16, sentences=3, longest=40, rate=0.2, vocab=5, linear=linear, structure=structure))


@pytest.mark.parametrize("case", [CASES[1], *ALL_BIG[:2]])
def test_graphs_of_large_batches_are_those_of_the_reference(case):
    problem = Problem(**{"E": 32, **case})
    graph = problem.graph()
    ours, theirs = canonical(graph.to_numpy()), canonical(problem.reference_graph())
    for part, value in theirs.items():
        assert ours[part] == value, part
    np.testing.assert_array_equal(graph.messages.cpu()[: int(graph.n_nodes)], graph.to_numpy().messages)


def test_equal_hashes_of_different_nodes_are_detected_and_another_salt_tells_them_apart():
    problem = Problem(seed=1, sentences=4, longest=6)
    assert int(problem.graph(hash_bits=1).collided) == 1
    assert [int(problem.graph(salt=salt).collided) for salt in range(3)] == [0, 0, 0]
    collided = [int(problem.graph(hash_bits=5, salt=salt).collided) for salt in range(6)]
    assert 0 < sum(collided) < 6


@pytest.mark.parametrize("case", CASES)
def test_passes_and_gradients_are_those_of_the_reference_across_the_borders_of_blocks(case, monkeypatch):
    monkeypatch.setattr(passes, "SLABS", 2)
    monkeypatch.setattr(passes, "BLOCK", 4)
    check_passes(Problem(**case), tolerance=2e-5)


@pytest.mark.parametrize("case", [*LINEAR, *LEAVES])
def test_linear_functions_and_dropout_of_leaves_too(case, monkeypatch):
    monkeypatch.setattr(passes, "BLOCK", 16)
    check_passes(Problem(**case), tolerance=2e-5)


@pytest.mark.parametrize("case", ALL_BIG)
def test_large_batches_too(case):
    check_passes(Problem(**case), tolerance=2e-4)


def check_passes(problem: Problem, tolerance: float) -> None:
    graph = problem.graph()
    plain_graph = graph.to_numpy()
    passes = problem.passes(graph)
    N, E = plain_graph.n_nodes, problem.embedding.shape[1]
    expected_up = reference.up_pass(plain_graph, problem.embedding[plain_graph.token], problem.f, problem.dropout)
    expected_down = reference.down_pass(plain_graph, expected_up, problem.f, problem.dropout)
    for slabs, expected in ((passes.up, expected_up), (passes.down, expected_down)):
        np.testing.assert_allclose(rows(slabs.detach())[:N].cpu(), expected, atol=tolerance, rtol=tolerance)

    rng = np.random.default_rng(1)
    vocab = len(problem.embedding)
    weight, bias = rng.normal(size=(vocab, E)), rng.normal(size=vocab)
    _, expected = reference.loss_and_gradients(
        plain_graph, problem.embedding, problem.f, weight, bias, problem.dropout
    )
    logits = passes.rebuilt[: plain_graph.n_leaves] @ on_device(weight).T + on_device(bias)
    torch.nn.functional.cross_entropy(logits, on_device(plain_graph.token, torch.int64)).backward()
    for name, parameter in zip(FUNCTIONS, problem.functions, strict=True):
        np.testing.assert_allclose(parameter.grad.cpu(), expected[name], atol=tolerance, rtol=tolerance, err_msg=name)
    np.testing.assert_allclose(problem.weights.grad.cpu(), expected["embedding"], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("plain", "options"),
    [
        (True, {"room": (9, 5)}),
        (False, {"linear": True, "E": 16, "U": 4, "room": (9, 5)}),
        (True, {"linear": True, "E": 32, "U": 16, "room": (9, 5)}),
    ],
)
def test_gradients_reach_the_weights_where_there_is_room_for_more(plain, options):
    """Autograd over the plain torch passes is the judge: the reference has no such objective."""
    from banyan.backends import _torch

    # some sentences are equal, or inside others
    problem = Problem(seed=4, rate=0.2, leaf_rate=0.1, sentences=7, longest=4, vocab=3, plain=plain, **options)
    graph = problem.graph()
    assert plain or len(set(graph.root.tolist())) < 7
    passes = problem.passes(graph)
    N, E = int(graph.n_nodes), problem.embedding.shape[1]
    generator = torch.Generator().manual_seed(0)
    of_up, of_down = (torch.randn(N, E, generator=generator).to(DEVICE) for _ in range(2))
    total = sum((rows(slabs)[:N] * g).sum() for slabs, g in zip(passes[1:3], (of_up, of_down), strict=True))
    ours = torch.autograd.grad(total, (problem.weights, *problem.functions))

    numbered = graph.to_numpy()
    leaves = problem.weights[on_device(numbered.token, torch.int64)]
    leaves = _torch.drop_leaves(leaves, numbered.key[: numbered.n_leaves], problem.dropout)
    up = _torch.up_pass(numbered, leaves, problem.functions, problem.dropout)
    down = _torch.down_pass(numbered, up, problem.functions, problem.dropout)
    theirs = torch.autograd.grad((up * of_up).sum() + (down * of_down).sum(), (problem.weights, *problem.functions))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


# --- The output layer ------------------------------------------------------------------------------------------------


def loss_problem(n, V, E, scale=1.0, distinct=False):
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.normal(size=shape) * scale for shape in ((n, E), (V, E), (V,)))
    return x, weight, bias, np.sort(rng.permutation(V)[:n]) if distinct else rng.integers(0, V, n), distinct


PRECISIONS = {"float32": 1e-5, "tf32": 2e-3, "bf16": 2e-2}  # ‖ours - reference‖ / ‖reference‖


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("logits", [1 << 11, 1 << 29], ids=["in blocks", "at once"])
@pytest.mark.parametrize("largest", [0.0, 6.0, 70.0], ids=["highest found", "some found", "bound known"])
@pytest.mark.parametrize("distinct", [False, True])
def test_cross_entropy_and_its_gradients_are_those_of_the_reference(precision, logits, largest, distinct, monkeypatch):
    monkeypatch.setattr(output_layer, "LOGITS", logits)
    monkeypatch.setattr(output_layer, "LARGEST", largest)
    monkeypatch.setattr(output_layer, "_COLUMNS", 16)
    monkeypatch.setattr(output_layer, "_ROWS", 16)
    check_loss(precision, *loss_problem(37, 45, 24, 0.5, distinct))


@LARGE
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("largest", [0.0, 25.0, 70.0], ids=["highest found", "some found", "bound known"])
def test_cross_entropy_at_full_size(precision, largest, monkeypatch):
    monkeypatch.setattr(output_layer, "LARGEST", largest)
    check_loss(precision, *loss_problem(1500, 5003, 256, 0.3, distinct=True))


def check_loss(precision, x, weight, bias, target, distinct):
    x, weight, bias = (a.astype(np.float32).astype(np.float64) for a in (x, weight, bias))
    inputs = [on_device(a).requires_grad_() for a in (x, weight, bias)]
    loss = output_layer.cross_entropy(*inputs, on_device(target, torch.int64), precision, distinct=distinct)
    loss.backward()
    expected, g_logits = reference.cross_entropy(x, target, weight, bias)
    assert loss.item() == pytest.approx(expected, rel=PRECISIONS[precision])
    for ours, theirs in zip(inputs, (g_logits @ weight, g_logits.T @ x, g_logits.sum(0)), strict=True):
        difference = np.linalg.norm(ours.grad.cpu().numpy() - theirs) / np.linalg.norm(theirs)
        assert difference < PRECISIONS[precision]


def test_cross_entropy_survives_huge_logits():
    x, weight, bias = on_device(np.array([[2.0**15, 0.0]])), on_device(np.eye(2)), on_device(np.zeros(2))
    for precision in PRECISIONS:
        for target, expected in ((0, 0.0), (1, 2.0**15)):
            loss = output_layer.cross_entropy(x, weight, bias, torch.tensor([target], device=DEVICE), precision)
            assert loss.item() == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(("trees", "objective"), [("entangled", "contrastive"), ("plain", "both")])
def test_exponentials_taken_in_registers_change_nothing(trees, objective, monkeypatch):
    monkeypatch.setattr(output_layer, "HALF", torch.float32)  # what bf16 rounds is not the matter here
    model = made("triton", torch.float32, trees=trees, objective=objective)
    model.precision = "bf16"
    graph = model.structure(*random_batch(np.random.default_rng(0), 5, VOCAB, 6), DROPOUT)
    got = objectives.loss(model, model(graph, DROPOUT))
    same_loss_and_gradients(model, got, plain_loss(model, graph.to_numpy(), DROPOUT))


# --- Windows and steps -----------------------------------------------------------------------------------------------


@pytest.fixture
def store(monkeypatch) -> Store:
    monkeypatch.setattr(windows, "ROUNDED", (8, 8))
    monkeypatch.setattr(passes, "BLOCK", 32)
    monkeypatch.setattr(passes, "SLABS", 2)
    rng = np.random.default_rng(0)
    tokens, offsets = random_batch(rng, sentences=40, vocab=30, longest=6)
    return Store(tokens.astype(np.uint16), offsets, Report(), "")


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("fits", [True, False])
def test_a_window_holds_the_batches_that_the_store_gives(store, plain, fits, monkeypatch):
    monkeypatch.setattr(windows, "SHARE", 4 if fits else 1e30)
    drawing = windows.DeviceStore(Part(store, np.arange(40), np.arange(1, 41)), 30, DEVICE, plain)
    assert (drawing.tokens is not None) == fits
    rng = np.random.default_rng(1)
    chosen = [rng.permutation(40)[:7] for _ in range(3)]
    dropouts = [Dropout(0.1, 0, step, leaf_rate=0.3) for step in (5, 6, 7)]
    window = drawing.draw(chosen, dropouts)
    for i, (indices, dropout) in enumerate(zip(chosen, dropouts, strict=True)):
        tokens, offsets = store.batch(indices)
        batch, noise, _ = window.step(i)
        assert_holds(batch, tokens, offsets, plain)
        assert batch.longest >= np.diff(offsets).max()
        expected = Noise.of(dropout, DEVICE)
        assert noise.streams.tolist() == expected.streams.tolist()
        assert noise[1:] == expected[1:]
    again = drawing.draw(chosen[:2], dropouts[:2], windows.Room(7, 5000, 4000, 64))
    assert again.room == windows.Room(7, 5000, 4000, 64)


def small_model(backend: str, **settings) -> BanyanModel:
    config = Config(dim=8, channels=4, batch_size=5, lr=0.05, **settings)
    return BanyanModel(config, 30, backend).to(DEVICE if backend == "triton" else "cpu")


def falling(step: int) -> float:
    """A rate that differs much from step to step, so that one of another step shows."""
    return 0.05 / (1 + step)


def gpu_steps(store, agree=None, **settings):
    model = small_model("triton", **settings)
    drawing = windows.DeviceStore(Part(store, np.arange(40), np.arange(1, 41)), 30, DEVICE, "trees" in settings)
    falls = model.config.final_lr_frac < 1
    optimiser = adam_with_a_tensor(model.parameters(), 0.05, falls)
    steps_before = 0

    def dropout(i):
        return Dropout(0.1, 0, steps_before + i, model.config.leaf_dropout)

    loss = lambda graph, targets: objectives.losses(model, model(graph), targets)  # noqa: E731
    rate = lambda i: falling(steps_before + i)  # noqa: E731
    steps = Steps(model, optimiser, loss, drawing, dropout, 8, agree, rate=rate if falls else None)
    honest = steps.run

    def run(window, following=()):
        nonlocal steps_before
        result = honest(window, following)
        steps_before += len(window)
        return result

    steps.run = run
    return model, steps


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"candidates": "batch"},
        {"trees": "plain"},
        {"trees": "plain", "candidates": "batch"},
        {"trees": "plain", "functions": "linear", "objective": "contrastive", "clip_grad_norm": 0.05}
        | {"leaf_dropout": 0.3},
        {"functions": "linear", "structure": "balanced", "objective": "both"},
        {"final_lr_frac": 0.0},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_steps_on_the_gpu_path_are_those_of_the_cpu(store, settings):
    rng = np.random.default_rng(2)
    many = 6 if ON_GPU else 2  # so many that they are recorded
    windows = [[rng.permutation(longer)[:5] for _ in range(many)] for longer in (20, 40, 40)]
    windows[2:2] = [[np.arange(20, 23)]]  # a batch that is smaller
    windows = windows if ON_GPU else windows[1:3]
    model = small_model("numba", **settings)
    optimiser = devices.adam(model.parameters(), 0.05)
    expected = []
    for step, chosen in enumerate(indices for window in windows for indices in window):
        dropout = Dropout(0.1, 0, step, model.config.leaf_dropout)
        graph = model.structure(*store.batch(chosen), dropout)
        loss, terms = objectives.losses(model, model(graph, dropout))
        optimiser.zero_grad()
        loss.backward()
        if limit := model.config.clip_grad_norm:
            assert torch.nn.utils.clip_grad_norm_(model.parameters(), limit) > limit
        if model.config.final_lr_frac < 1:
            optimiser.param_groups[0]["lr"] = falling(step)
        optimiser.step()
        expected.append((loss.item(), terms.tolist(), graph.n_nodes))

    gpu_model, steps = gpu_steps(store, **settings)
    losses, terms, nodes = [], [], []
    for window, following in pairwise([*windows, []]):
        for some, all_of in zip(steps.run(window, following), (losses, terms, nodes), strict=True):
            all_of += some
    assert nodes == [nodes for _, _, nodes in expected]
    np.testing.assert_allclose(losses, [loss for loss, _, _ in expected], rtol=1e-4)
    np.testing.assert_allclose(terms, [terms for _, terms, _ in expected], rtol=1e-4)
    for (name, a), b in zip(model.named_parameters(), gpu_model.parameters(), strict=True):
        torch.testing.assert_close(a, b.cpu(), atol=2e-3, rtol=2e-3, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the steps that count for nothing
def test_a_step_whose_hashes_collide_is_done_again_with_others(store, monkeypatch):
    """Few bits of hash until the salt changes: the losses are still those of exact structure."""
    window = [np.arange(i, i + 5) for i in range(0, 25 if ON_GPU else 10, 5)]  # five are recorded, two are not
    expected_losses, _, expected_nodes = gpu_steps(store, clip_grad_norm=0.1)[1].run(window)
    honest = entangling.structure
    salts = []

    def poor(batch, embedding, functions, noise, plain, salt, **kind):
        salts.append(salt)
        return honest(batch, embedding, functions, noise, plain, salt, hash_bits=64 if salt else 3, **kind)

    monkeypatch.setattr(entangling, "structure", poor)
    losses, _, nodes = gpu_steps(store, clip_grad_norm=0.1)[1].run(window)
    assert max(salts) == 1
    assert nodes == expected_nodes
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)


def test_a_collision_in_another_process_voids_the_step_here_too(store):
    """Done again, it learns at its own rate."""
    window = [np.arange(i, i + 5) for i in range(0, 15, 5)]
    model, steps = gpu_steps(store, final_lr_frac=0.0)
    expected = steps.run(window)
    heard = []

    def agree(void):
        heard.append(void.item())
        if len(heard) == 2:  # the second step collided elsewhere: it and the third are done again
            void.fill_(1)

    other_model, other = gpu_steps(store, agree, final_lr_frac=0.0)
    got = other.run(window)
    assert heard == [0, 0, 1, 0, 0]
    assert got[2] == expected[2]
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5)
    torch.testing.assert_close(model.embedding, other_model.embedding, atol=1e-5, rtol=1e-5)


def test_the_structure_of_a_batch_is_exact_whatever_the_hashes(store, monkeypatch):
    honest = entangling.structure
    monkeypatch.setattr(
        entangling,
        "structure",
        lambda *given, **kind: honest(*given, hash_bits=64 if given[5] > 1 else 2, **kind),
    )
    model = small_model("triton")
    batch = store.batch(np.arange(8))
    graph = model.structure(*batch)
    assert int(graph.n_nodes) == small_model("numba").structure(*batch).n_nodes


def test_of_two_pairs_that_mirror_each_other_the_left_one_merges():
    """As in "the X the", once X is one node: both cosines are the same number, whichever thread computes them."""
    problem = Problem(seed=0, vocab=6, sentences=400 if ON_GPU else 10, longest=9, rate=0.1)
    np.testing.assert_array_equal(problem.forest().children.cpu(), problem.reference_forest().children)


# --- The compiler's view ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cards", [["90"], ["80", "--one-variant"], pytest.param(["80"], marks=pytest.mark.slow)], ids=" ".join
)
def test_every_kernel_compiles_for_cards_that_are_not_here(cards):
    script = HELPERS / "compiled_kernels.py"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ended = subprocess.run(
        [sys.executable, str(script), *cards], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    sources = [*Path(passes.__file__).parent.glob("*.py"), Path(gpu_steps_module.__file__)]
    defined = {name for path in sources for name in re.findall(r"@kernel\ndef (\w+)\(", path.read_text())}
    for line in ended.stdout.splitlines():
        assert defined == set(line.split("kernels: ")[1].split())


# --- Encoding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("structure", "linear", "longest"),
    [
        *(("induced", linear, longest) for linear in (False, True) for longest in (7, 30)),
        ("random", False, 7),
        ("balanced", True, 7),
        ("right-branching", False, 30),
    ],
)
def test_roots_are_those_of_the_cpu_whatever_the_batch(structure, linear, longest, monkeypatch):
    monkeypatch.setattr(trees, "IN_REGISTERS", 16)
    problem = Problem(seed=6, E=16, U=4, sentences=6, longest=longest, linear=linear)
    embedding = problem.embedding.astype(np.float32)
    expected, got, alone = (np.empty((6, 16), np.float32) for _ in range(3))
    _numba.Encoder(embedding, problem.f, structure).roots(problem.tokens, problem.offsets, expected)
    encoder = trees.Encoder(embedding, problem.f, DEVICE, structure)
    encoder.roots(problem.tokens, problem.offsets, got)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(trees, "TOKENS", 1)  # one sentence at a time
    encoder.roots(problem.tokens, problem.offsets, alone)
    np.testing.assert_array_equal(alone, got)
