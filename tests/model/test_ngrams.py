"""Leaves made of a token's vector and of its n-grams: which they are, and every back end against a dense matrix."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from banyan import Banyan, BanyanError, devices, objective, threads
from banyan.config import Config
from banyan.graph import Graph
from banyan.model import BanyanModel, _torch_up_and_down, _UpAndDown
from banyan.ngrams import Leaves, Ngrams, buckets_of, cpu_leaves
from banyan.reference import Dropout
from banyan.report import Report
from banyan.store import Store
from banyan.tokenizer import BYTES, Tokenizer
from banyan.training import train
from tests.helpers.batches import random_batch
from tests.helpers.plain import BACKENDS, DROPOUT, plain_loss, same_loss_and_gradients
from tests.helpers.training import SMALL, digest

pytestmark = pytest.mark.usefixtures("memory_full_of_nan")
PIECES = ["<0x0A>", "a", "▁", "▁cat", "▁cats", "scatter", "▁banana", "▁नमस्ते", "मस्", "▁東京", "▁the", "ा"]
ENOUGH = 1 << 64  # buckets that a hash is its own


def fnv(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def dense(pieces: list[str], ngrams: Ngrams, buckets: int, shortest: int, longest: int) -> torch.Tensor:
    """What each vector counts for in the mean of each token [V, n]."""
    matrix, column = torch.zeros(len(pieces), len(ngrams.bucket)), {b: i for i, b in enumerate(ngrams.bucket.tolist())}
    for token, piece in enumerate(pieces):
        spans = [(i, i + n) for n in range(shortest, longest + 1) for i in range(len(piece) - n + 1)]
        parts = [piece[i:j] for i, j in spans if j - i < len(piece) and piece not in BYTES]
        for part in parts:
            matrix[token, column[fnv(part) % buckets]] += 1 / len(parts)
    return matrix


# --- Which they are --------------------------------------------------------------------------------------------------


def test_the_hash_is_fnv_1a_of_utf_8():
    assert next(buckets_of("ab", ENOUGH, 1, 1)) == 0xAF63DC4C8601EC8C  # as its authors publish it
    assert next(buckets_of("foobar.", ENOUGH, 6, 6)) == 0x85944171F73967E8
    assert next(buckets_of("▁x", ENOUGH, 1, 1)) == fnv("▁")
    assert next(buckets_of("foobar.", 1000, 6, 6)) == 0x85944171F73967E8 % 1000


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("▁cat", ["▁c", "▁ca", "ca", "cat", "at"]),
        ("cat", ["ca", "at"]),
        ("nana", ["na", "nan", "an", "ana", "na"]),
        ("▁नम", ["▁न", "नम"]),
        ("東京都", ["東京", "京都"]),
        ("𝒳yz", ["𝒳y", "yz"]),
        ("ab", []),
        ("a", []),
        ("▁", []),
        ("", []),
        ("<0x0A>", []),
        ("<0x0a>", ["<0", "<0x", "0x", "0x0", "x0", "x0a", "0a", "0a>", "a>"]),  # as text spells it
    ],
)
def test_a_piece_has_the_ngrams_within_it_but_not_itself(piece, expected):
    assert list(buckets_of(piece, ENOUGH, 2, 3)) == [fnv(ngram) for ngram in expected]


@given(st.lists(st.text("▁abक東", max_size=7), min_size=1, max_size=9), st.integers(1, 40), st.integers(1, 3))
@settings(deadline=None, max_examples=50)
def test_tokens_list_their_vectors_and_vectors_their_tokens(pieces, buckets, shortest):
    ngrams = Ngrams.of(pieces, buckets, shortest, shortest + 2)
    forth = [
        (token, vector)
        for token, piece in enumerate(pieces)
        for vector in ngrams.ids[ngrams.offsets[token] : ngrams.offsets[token + 1]].tolist()
    ]
    assert [bucket for piece in pieces for bucket in buckets_of(piece, buckets, shortest, shortest + 2)] == [
        int(ngrams.bucket[vector]) for _, vector in forth
    ]
    back = [
        (token, vector)
        for vector, (start, end) in enumerate(pairwise(ngrams.starts.tolist()))
        for token in ngrams.tokens[start:end].tolist()
    ]
    assert back == sorted(forth, key=lambda pair: (pair[1], pair[0]))
    assert len(set(ngrams.bucket.tolist())) == len(ngrams.bucket) <= buckets
    needed = np.diff(ngrams.starts)
    assert (needed > 0).all()
    assert (np.diff(needed) <= 0).all()


# --- What they do ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """The interpreter goes through large ones number by number."""
    if importlib.util.find_spec("triton") and not torch.cuda.is_available():
        from banyan.backends._triton import entangling, ngrams, passes

        for module, name in ((entangling, "NUMBERED"), (passes, "BLOCK")):
            monkeypatch.setattr(module, name, 32)
        monkeypatch.setattr(ngrams, "LISTED", 4)  # fewer than some have


def made(backend: str, dtype: torch.dtype, pieces: list[str] = PIECES, **settings) -> BanyanModel:
    if backend == "triton":
        pytest.importorskip("triton")
    device = "cuda" if backend == "triton" and torch.cuda.is_available() else "cpu"
    config = Config(**{"dim": 8, "channels": 4, "ngrams": 20, "ngram_longest": 4, **settings})
    model = BanyanModel(config, len(pieces), backend, pieces)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 3)
    return model.to(dtype).to(device)


def batch(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return random_batch(np.random.default_rng(seed), sentences=6, vocab=len(PIECES), longest=6)


def in_numpy(graph) -> Graph:
    return graph if isinstance(graph, Graph) else graph.to_numpy()


def naive(model: BanyanModel, pieces: list[str] = PIECES) -> SimpleNamespace:
    """The same weights, with an embedding that is a product with a dense matrix."""
    config, weights = model.config, dict(model.named_parameters())
    shares = dense(pieces, model.ngrams, config.ngrams, config.ngram_shortest, config.ngram_longest)
    weights["embedding"] = model.embedding + shares.to(model.embedding) @ model.ngram_vectors
    return SimpleNamespace(config=config, **weights)


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        pytest.param({"dim": 12}, PIECES, id="entangled"),
        pytest.param({"trees": "plain", "functions": "linear", "objective": "both"}, PIECES, id="plain"),
        pytest.param({}, list("abcdefghijkl"), id="no n-gram at all"),
    ],
)
def test_leaves_and_all_gradients_are_those_of_a_dense_matrix(backend, dtype, kind, pieces):
    model = made(backend, dtype, pieces, **kind)
    graph = model.structure(*batch(), DROPOUT)
    loss = objective.loss(model, model(graph, DROPOUT))
    graph = in_numpy(graph)
    other = naive(model, pieces)
    expected = plain_loss(other, graph, DROPOUT)
    same_loss_and_gradients(model, loss, expected)

    without = BanyanModel(Config(**{**model.config.to_dict(), "ngrams": 0}), len(pieces), backend)
    without.to(dtype).to(model.embedding.device)
    with torch.no_grad():
        for name, parameter in without.named_parameters():
            parameter.copy_(getattr(other, name))
    np.testing.assert_array_equal(in_numpy(without.structure(*batch(), DROPOUT)).children, graph.children)


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS)
def test_roots_are_those_of_the_folded_model_and_so_are_their_gradients(backend, dtype):
    model = made(backend, dtype)
    roots = model(model.structure(*batch())).roots
    folded = {name: weight.astype(np.float32) for name, weight in model.folded().items()}
    assert set(folded) == {name for name, _ in model.named_parameters()} - {"ngram_vectors"}
    finished = Banyan(model.config, SimpleNamespace(vocab_size=len(PIECES)), folded)
    np.testing.assert_allclose(finished.encode_tokens(*batch()), roots.detach().cpu(), rtol=1e-4, atol=1e-5)
    roots.sum().backward()
    shares = dense(PIECES, model.ngrams, 20, 2, 4).to(model.embedding)
    tolerance = {} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(model.ngram_vectors.grad, shares.T @ model.embedding.grad, **tolerance)
    assert model.ngram_vectors.grad.abs().sum() > 0


def test_gradients_of_leaves_pass_gradcheck():
    model = made("numba", torch.float64)
    token = np.array([7, 3, 0, 6], np.int32)
    inputs = [p.detach().clone().requires_grad_() for p in (model.embedding, model.ngram_vectors)]
    assert torch.autograd.gradcheck(lambda *weights: Leaves.apply(model.ngrams, token, *weights), inputs)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    rng = np.random.default_rng(0)
    pieces = ["".join(rng.choice(list("▁abcde"), rng.integers(1, 9))) for _ in range(300)]
    ngrams, token = Ngrams.of(pieces, 90, 2, 6), np.arange(0, 300, 2)

    def both() -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        shapes = (300, 16), (len(ngrams.bucket), 16)
        weights = [torch.randn(*shape, generator=generator).requires_grad_() for shape in shapes]
        leaves = Leaves.apply(ngrams, token, *weights)
        return leaves, *torch.autograd.grad((leaves**2).sum(), weights)

    monkeypatch.setattr(threads, "available", lambda: 1)
    one = both()
    monkeypatch.setattr(threads, "available", lambda: 3)
    assert all(torch.equal(a, b) for a, b in zip(one, both(), strict=True))


def test_steps_on_the_gpu_path_are_those_of_the_cpu(monkeypatch):
    """With room for more tokens than there are; where there is a GPU, recorded."""
    pytest.importorskip("triton")
    from banyan.backends._triton import windows
    from banyan.backends._triton.steps import Steps

    on_gpu = torch.cuda.is_available()
    monkeypatch.setattr(windows, "ROUNDED", (8, 8))
    tokens, offsets = random_batch(np.random.default_rng(0), sentences=30, vocab=len(PIECES), longest=6)
    store = Store(tokens.astype(np.uint16), offsets, Report(), "")
    chosen = [np.random.default_rng(i).permutation(30)[:5] for i in range(6 if on_gpu else 2)]
    dropouts = [Dropout(0.1, 0, step) for step in range(len(chosen))]

    cpu, gpu = made("numba", torch.float32), made("triton", torch.float32)
    optimiser, expected = devices.adam(cpu.parameters(), 0.05), []
    for indices, dropout in zip(chosen, dropouts, strict=True):
        loss = objective.loss(cpu, cpu(cpu.structure(*store.batch(indices), dropout), dropout))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        expected.append(loss.item())
    device = gpu.embedding.device
    steps = Steps(
        gpu,
        devices.adam(gpu.parameters(), 0.05),
        lambda graph: objective.loss(gpu, gpu(graph)),
        windows.DeviceStore(store, np.arange(30), len(PIECES), device, False),
        lambda i: dropouts[i],
        8,
    )
    np.testing.assert_allclose(steps.run(chosen)[0], expected, rtol=1e-4)
    for (name, a), b in zip(cpu.named_parameters(), gpu.parameters(), strict=True):
        torch.testing.assert_close(a, b.cpu(), atol=2e-3, rtol=2e-3, msg=lambda text, name=name: f"{name}: {text}")


# --- Without them, nothing changes -----------------------------------------------------------------------------------


def loss_and_gradients(model: BanyanModel) -> list[torch.Tensor]:
    loss = objective.loss(model, model(model.structure(*batch(), DROPOUT), DROPOUT))
    loss.backward()
    return [loss, model.embedding.grad, *(function.grad for function in model.functions)]


@pytest.mark.parametrize(("backend", "dtype"), BACKENDS[:2])
def test_a_model_without_ngrams_has_the_bits_of_one_that_never_heard_of_them(backend, dtype):
    config = Config(dim=8, channels=4)
    told, never = BanyanModel(config, len(PIECES), backend, PIECES), BanyanModel(config, len(PIECES), backend)
    assert [name for name, _ in told.named_parameters()] == [name for name, _ in never.named_parameters()]
    assert not any("ngram" in name for name, _ in told.named_parameters())
    assert all(map(torch.equal, loss_and_gradients(told), loss_and_gradients(never)))
    up_and_down = _UpAndDown.apply if backend == "numba" else _torch_up_and_down
    graph = never.structure(*batch(), DROPOUT)
    up, down = up_and_down(graph, DROPOUT, never.embedding, *never.functions)
    passes = told(graph, DROPOUT)
    assert passes.graph is graph
    assert torch.equal(passes.up, up)
    assert torch.equal(passes.down, down)


def test_ngrams_begin_at_zero_so_that_the_model_begins_as_one_without():
    with_them = BanyanModel(Config(dim=8, channels=4, ngrams=20, seed=3), len(PIECES), pieces=PIECES)
    without = BanyanModel(Config(dim=8, channels=4, seed=3), len(PIECES))
    for name, parameter in without.named_parameters():
        assert torch.equal(parameter, getattr(with_them, name))
    assert all(map(torch.equal, loss_and_gradients(with_them), loss_and_gradients(without)))
    assert with_them.ngram_vectors.grad.abs().sum() > 0


def test_ngrams_need_the_pieces():
    with pytest.raises(BanyanError, match="n-grams must be given the pieces"):
        BanyanModel(Config(ngrams=20), 12)


# --- Training --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("ngrams") / "model"
    train(corpus, out, epochs=2, ngrams=500, lr=5e-3, **SMALL)
    return out


def test_what_is_saved_is_folded_and_the_checkpoint_keeps_both(trained):
    weights, state = load_file(trained / "model.safetensors"), load_file(trained / "training/checkpoint.safetensors")
    assert "ngram_vectors" not in weights
    assert np.abs(state["model.ngram_vectors"]).max() > 0
    assert {"exp_avg.ngram_vectors", "exp_avg_sq.ngram_vectors", "step.ngram_vectors"} <= set(state)
    ngrams = Ngrams.of(Tokenizer.from_file(trained / "tokenizer.json").pieces, 500, 2, 6)
    every = np.arange(len(weights["embedding"]))
    folded = cpu_leaves(ngrams, every, state["model.embedding"], state["model.ngram_vectors"])
    np.testing.assert_array_equal(weights["embedding"], folded)
    assert not np.array_equal(weights["embedding"], state["model.embedding"])
    card = (trained / "README.md").read_text(encoding="utf-8")
    assert f"{weights['embedding'].size:,} in the embedding" in card
    assert np.isfinite(Banyan.from_pretrained(trained).encode("The cat sees the dog.")).all()


def test_training_resumes_to_the_same_bits(trained, corpus, tmp_path):
    train(corpus, tmp_path / "again", epochs=1, ngrams=500, lr=5e-3, **SMALL)
    train(corpus, tmp_path / "again", epochs=2, resume=True, **SMALL)
    assert digest(tmp_path / "again") == digest(trained)


def test_a_run_that_starts_from_a_folded_model_begins_as_it_was(trained, corpus, tmp_path):
    train(corpus, tmp_path / "next", epochs=1, ngrams=300, init=trained, lr=1e-30, **SMALL)
    before, after = (load_file(folder / "model.safetensors") for folder in (trained, tmp_path / "next"))
    for name, weight in before.items():
        np.testing.assert_array_equal(after[name], weight, err_msg=name)
