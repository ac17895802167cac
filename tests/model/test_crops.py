"""InfoNCE between the two parts of each sentence: where they are, what they cost, and that every device agrees."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from torch import Tensor

from banyan import backends
from banyan.config import Config
from banyan.corpus.report import Report
from banyan.corpus.store import Store, shuffled_batches
from banyan.model import BanyanModel, crops, objective
from banyan.model.dropout import LEAF, NO_DROPOUT, NODE, Dropout
from banyan.model.graph import Graph
from banyan.support import devices
from banyan.training import train
from banyan.training.passages import Part, parts
from tests.helpers.batches import assert_holds, random_batch
from tests.helpers.corpora import NOUNS, lines
from tests.helpers.plain import BACKENDS, DROPOUT, VOCAB, made, plain_loss, same_loss_and_gradients
from tests.helpers.training import SMALL, adam_with_a_tensor, digest, first_step_again, interrupted_at, metrics

CROPS = {"infonce_weight": 0.7, "infonce_temperature": 0.2, "infonce_min_part": 0.4}
SENTENCES = st.lists(st.integers(1, 300), min_size=1, max_size=20), st.integers(0, 2**63 - 1), st.integers(0, 2**40)


@pytest.fixture
def small_blocks(monkeypatch) -> None:
    """The interpreter goes through large blocks number by number."""
    pytest.importorskip("triton")
    from banyan.backends._triton import entangling, passes
    from banyan.training import gpu_windows as windows

    monkeypatch.setattr(windows, "ROUNDED", (8, 8))
    if not torch.cuda.is_available():
        monkeypatch.setattr(entangling, "NUMBERED", 64)
        monkeypatch.setattr(passes, "BLOCK", 32)
        monkeypatch.setattr(passes, "SLABS", 2)


# --- Where they are ---------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(*SENTENCES, st.floats(0, 0.5, exclude_min=True))
def test_parts_are_the_sentence_before_and_after_a_place_in_it(lengths, seed, step, shortest):
    begin, size = crops.draw(np.array([lengths]), [Dropout(0.1, seed, step)], shortest)
    assert begin.shape == size.shape == (1, 2, len(lengths))
    for length, (first, second), (before, after) in zip(lengths, begin[0].T, size[0].T, strict=True):
        if length == 1:
            assert (first, second, before, after) == (0, 0, 1, 1)
        else:
            assert (first, second, before + after) == (0, before, length)
            assert min(before, after) >= max(1, min(shortest * length, length // 2))


def test_every_place_that_leaves_parts_long_enough_is_drawn():
    size = crops.draw(np.full((1, 2100), 10), [Dropout(0.0)], 0.2)[1]
    assert set(size[0, 0]) == set(range(2, 9))
    assert np.bincount(size[0, 0])[2:].min() > 240  # of 300
    halves = crops.draw(np.full((1, 500), 5), [Dropout(0.0)], 0.5)[1]
    assert set(halves.ravel()) == {2, 3}


def test_parts_depend_on_seed_and_step_and_place_and_on_nothing_else():
    lengths = np.full((1, 50), 30)

    def drawn(seed: int, step: int, rate: float = 0.1) -> np.ndarray:
        return np.stack(crops.draw(lengths, [Dropout(rate, seed, step)], 0.1))

    np.testing.assert_array_equal(drawn(3, 4), drawn(3, 4, rate=0.5))
    others = [drawn(3, 4), drawn(3, 5), drawn(4, 4), drawn(4, 3)]
    assert len({one.tobytes() for one in others}) == 4
    assert len(np.unique(others[0].reshape(2, -1), axis=1).T) > 30  # each sentence is split at its own place
    longer = np.stack(crops.draw(np.full((1, 60), 30), [Dropout(0.1, 3, 4)], 0.1))
    np.testing.assert_array_equal(longer[..., :50], drawn(3, 4))


def test_parts_follow_the_sentences_of_their_batch():
    tokens, offsets = random_batch(np.random.default_rng(0), sentences=9, vocab=100, longest=12)
    dropout, cut = Dropout(0.1, 5, 6), 0.3
    all_tokens, all_offsets = crops.batch_with_crops(tokens, offsets, dropout, cut)
    sentences = [all_tokens[a:b].tolist() for a, b in pairwise(all_offsets)]
    whole = [tokens[a:b].tolist() for a, b in pairwise(offsets)]
    assert len(sentences) == 27
    assert sentences[:9] == whole
    begin, size = crops.draw(np.diff(offsets)[None], [dropout], cut)
    for which in (0, 1):
        expected = [s[a : a + n] for s, a, n in zip(whole, begin[0, which], size[0, which], strict=True)]
        assert sentences[9 + 9 * which : 18 + 9 * which] == expected
    assert sentences[9:18] != sentences[18:]


# --- What they learn --------------------------------------------------------------------------------------------------


def plain_roots(model: BanyanModel, graph: Graph, dropout: Dropout) -> Tensor:
    """The roots, every node a tensor of its own, made anew for every tree it is in."""
    E, L, f = model.config.dim, graph.n_leaves, model

    def up(node: int) -> Tensor:
        mask = torch.from_numpy(dropout.mask(NODE if node >= L else LEAF, int(graph.key[node]), E)).to(f.embedding)
        if node < L:
            return f.embedding[int(graph.token[node])] * mask
        left, right = (up(child).view(model.config.channels, -1) for child in graph.children[node - L].tolist())
        return (left * f.comp_l.sigmoid() + right * f.comp_r.sigmoid() + f.comp_b).flatten() * mask

    return torch.stack([up(root) for root in graph.root.tolist()])


def plain_infonce(roots: Tensor, temperature: float) -> Tensor:
    B = len(roots) // 2
    unit = [root / root.norm() for root in roots]
    p = torch.stack([torch.stack([(unit[i] @ unit[B + j] / temperature).exp() for j in range(B)])
                     for i in range(B)])  # fmt: skip
    chosen = [-(p[i, i] / p[i].sum()).log() / 2 - (p[i, i] / p[:, i].sum()).log() / 2 for i in range(B)]
    return torch.stack(chosen).mean()


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
@pytest.mark.parametrize(
    "kind",
    [{}, {"trees": "plain"}, {"objective": "contrastive"}, {"objective": "none"}],
    ids=lambda kind: "".join(kind.values()),
)
def test_loss_and_every_gradient_are_those_of_the_plain_version(request, backend, dtype, kind):
    if backend == "triton":
        request.getfixturevalue("small_blocks")
    model = made(backend, dtype, **CROPS, **kind)
    tokens, offsets = random_batch(np.random.default_rng(0), sentences=5, vocab=VOCAB, longest=6)
    cut = crops.cut(model.config)
    graph = model.structure(*crops.batch_with_crops(tokens, offsets, DROPOUT, *cut), DROPOUT)
    got = objective.loss(model, model(graph, DROPOUT))
    plain = graph if isinstance(graph, Graph) else graph.to_numpy()
    assert len(plain.root) == 5 * cut.texts == (15 if cut.whole else 10)
    expected = 0.7 * plain_infonce(plain_roots(model, plain, DROPOUT)[-10:], 0.2)
    if cut.whole:
        expected = expected + plain_loss(model, plain, DROPOUT)
    same_loss_and_gradients(model, got, expected)


def test_parts_that_are_all_equal_are_guessed_by_chance():
    roots = torch.ones(2 * 8, 4, dtype=torch.float64)
    assert objective.infonce(roots, 0.05).item() == pytest.approx(np.log(8))
    apart = torch.eye(8, dtype=torch.float64).repeat(2, 1)
    assert objective.infonce(apart, 0.05).item() == pytest.approx(np.log1p(7 * np.exp(-20)))


def test_gradients_of_roots_that_parts_share_are_added_in_a_fixed_order():
    model = BanyanModel(Config(dim=256, channels=128, infonce_weight=1.0), 2)
    rng = np.random.default_rng(0)
    tokens, offsets = rng.integers(0, 2, 1200).astype(np.int32), np.arange(0, 1201, 4)
    graph = model.structure(*crops.batch_with_crops(tokens, offsets, NO_DROPOUT, 0.5))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gradients = [torch.autograd.grad(objective.loss(model, model(graph)), [model.embedding])
                     for _ in range(10)]  # fmt: skip
    finally:
        torch.set_num_threads(before)
    assert len({gradient.numpy().tobytes() for (gradient,) in gradients}) == 1


def before_and_after(folder: Path) -> list[BanyanModel]:
    state = load_file(folder / "training/checkpoint.safetensors")
    config = Config.from_file(folder / "config.json")
    before, after = (BanyanModel(config, len(state["model.embedding"])) for _ in range(2))
    with torch.no_grad():
        for name, parameter in after.named_parameters():
            parameter.copy_(torch.from_numpy(state[f"model.{name}"]))
    return [before, after]


@torch.no_grad()
def mean_infonce(model: BanyanModel, store: Store) -> float:
    """Of fresh crops of the whole corpus."""
    losses = []
    for i, chosen in enumerate(shuffled_batches(len(store), 40, 99, 0)):
        batch = crops.batch_with_crops(*store.batch(chosen), Dropout(0.0, 99, i), 0.5)
        losses.append(objective.infonce(model(model.structure(*batch)).roots[len(chosen) :], 0.05).item())
    return float(np.mean(losses))


def test_training_with_infonce_learns_to_match_parts(tmp_path):
    corpus, rng = tmp_path / "echoes.txt", random.Random(0)
    pairs = [rng.sample(NOUNS, 2) for _ in range(400)]
    echoes = [f"The {a} and the {b} sleep, and here are the {a} and the {b} again." for a, b in pairs]
    corpus.write_text("\n".join(echoes), encoding="utf-8")
    for name, weight in (("with", 1.0), ("without", 0.0)):
        train(corpus, tmp_path / name, preset="paper", epochs=4, lr=5e-3, infonce_weight=weight, **SMALL)
    store = Store.open(tmp_path / "with/training/store")
    before, after = (mean_infonce(model, store) for model in before_and_after(tmp_path / "with"))
    without = mean_infonce(before_and_after(tmp_path / "without")[1], store)
    assert after < 0.8 * min(before, without)
    losses = [row["loss"] for row in metrics(tmp_path / "with") if "loss" in row]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_the_held_out_loss_is_the_training_loss_without_dropout(corpus, tmp_path):
    train(corpus, tmp_path / "out", preset="default", epochs=1, **CROPS, **SMALL)
    _, model = before_and_after(tmp_path / "out")
    _, held_out = parts(Store.open(tmp_path / "out/training/store"), None, Config(), hold_out=True)
    batch = held_out.batch()
    total, terms = objective.losses(model, model(model.structure(*crops.batch_with_crops(*batch, NO_DROPOUT, 0.4))))
    (row,) = [row for row in metrics(tmp_path / "out") if "dev_loss" in row]
    found = [row["dev_loss"], row["dev_reconstruction"], row["dev_infonce"]]
    np.testing.assert_allclose(found, [total.item(), *terms.tolist()], rtol=1e-6)


def test_metrics_count_whole_sentences_and_compare_nodes_with_the_same_batch(corpus, tmp_path):
    train(corpus, tmp_path / "out", preset="paper", epochs=1, trees="plain", infonce_weight=0.5, **SMALL)
    steps = [row for row in metrics(tmp_path / "out") if "loss" in row]
    store = Store.open(tmp_path / "out/training/store")
    assert sum(row["sentences"] for row in steps) == 396  # 4 are held out
    assert store.n_tokens * 0.98 < sum(row["tokens"] for row in steps) < store.n_tokens
    for row in steps:
        assert row["nodes"] == row["plain_nodes"] == 4 * row["tokens"] - 3 * row["sentences"]
    train(corpus, tmp_path / "parts", preset="light", epochs=1, trees="plain", **SMALL)
    for row in (row for row in metrics(tmp_path / "parts") if "loss" in row):
        assert row["nodes"] == row["plain_nodes"] == 2 * row["tokens"] - 2 * row["sentences"]


def test_an_interrupted_run_goes_on_to_the_same_bits(corpus, tmp_path):
    with interrupted_at(17):  # in the second epoch
        train(corpus, tmp_path / "out", epochs=3, **CROPS, **SMALL)
    train(corpus, tmp_path / "out", epochs=3, resume=True, **SMALL)
    train(corpus, tmp_path / "whole", epochs=3, **CROPS, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_two_processes_contrast_each_its_own_crops(train_in_processes, tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(lines(80)), encoding="utf-8")
    ended = train_in_processes(tmp_path / "corpus.txt", tmp_path / "out", batch_size=80, epochs=1, **CROPS)
    assert [code for code, _ in ended] == [0, 0], ended
    assert len({Path(f"{tmp_path}/out.rank{rank}").read_text() for rank in range(2)}) == 1

    def loss(model: BanyanModel, tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout) -> Tensor:
        graph = model.structure(*crops.batch_with_crops(tokens, offsets, dropout, 0.4), dropout)
        return objective.loss(model, model(graph, dropout))

    model, state, losses = first_step_again(tmp_path / "out", loss)
    (row,) = [row for row in metrics(tmp_path / "out") if "loss" in row]
    assert row["loss"] == pytest.approx(sum(losses).item() / 2, rel=1e-6)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(10 * state[f"exp_avg.{name}"], parameter.grad, atol=1e-6, rtol=1e-4, err_msg=name)


# --- On the GPU path --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plain", "fits", "whole"), [(False, True, True), (True, False, True), (False, False, False)])
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.kernels
def test_a_window_holds_the_parts_of_the_cpu(plain, fits, whole, monkeypatch):
    from banyan.training import gpu_windows as windows

    monkeypatch.setattr(windows, "SHARE", 4 if fits else 1e30)
    rng = np.random.default_rng(0)
    tokens, offsets = random_batch(rng, sentences=40, vocab=30, longest=9)
    store = Store(tokens.astype(np.uint16), offsets, Report(), "")
    part = rng.permutation(40)[:35]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    drawing = windows.DeviceStore(Part(store, part, part + 1), 30, device, plain, crops.Cut(0.4, whole))
    chosen = [rng.permutation(35)[:7] for _ in range(3)]
    dropouts = [Dropout(0.1, 8, step) for step in (5, 6, 7)]
    window = drawing.draw(chosen, dropouts)
    assert window.room.sentences == (21 if whole else 14)
    for i, (indices, dropout) in enumerate(zip(chosen, dropouts, strict=True)):
        tokens, offsets = crops.batch_with_crops(*store.batch(part[indices]), dropout, 0.4, whole)
        batch, _, _ = window.step(i)
        assert_holds(batch, tokens, offsets, plain)


@pytest.mark.parametrize("preset", ["default", "light"])
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.kernels
def test_a_run_by_the_gpu_kernels_is_that_of_the_cpu(preset, tmp_path, monkeypatch):
    """Crops and a rate that falls, through every step of an epoch."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (tmp_path / "corpus.txt").write_text("\n".join(lines(11)), encoding="utf-8")
    same = {**SMALL, "dim": 8, "channels": 4, "batch_size": 4, "epochs": 1, "lr": 0.02, "final_lr_frac": 0.1, **CROPS}
    same["preset"] = preset
    train(tmp_path / "corpus.txt", tmp_path / "cpu", **same)
    monkeypatch.setattr(backends, "choose", lambda *given: backends.named("triton"))
    monkeypatch.setattr(devices, "window", lambda device: 2)
    monkeypatch.setattr(devices, "adam", adam_with_a_tensor)
    train(tmp_path / "corpus.txt", tmp_path / "gpu", **{**same, "device": device, "precision": "float32"})
    by_cpu, by_gpu = ([row for row in metrics(tmp_path / name) if "loss" in row] for name in ("cpu", "gpu"))
    assert [row["sentences"] for row in by_cpu] == [4, 4, 3]
    for a, b in zip(by_cpu, by_gpu, strict=True):
        for name in ("loss", "reconstruction", "infonce") if preset == "default" else ("loss", "infonce"):
            assert b.pop(name) == pytest.approx(a.pop(name), rel=1e-4)
        assert a == b
