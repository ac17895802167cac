"""Initial token vectors: character n-gram sketches and PPMI, each against its definition, and runs that use them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from banyan.config import Config
from banyan.corpus.store import Store
from banyan.errors import BanyanError
from banyan.model import BanyanModel, initial, lexical
from banyan.support import threads
from banyan.tokenizer.rules import BYTES
from banyan.tokenizer.tokenizer import Tokenizer
from banyan.training import train
from banyan.training.passages import parts
from tests.helpers.batches import random_batch
from tests.helpers.training import SMALL, digest, interrupted_at

CPU = torch.device("cpu")
PIECES = [*BYTES[:3], *"▁cat ▁cats s ▁scatter ▁dog ▁doghouse house ▁banana na ▁नमस्ते मस् ▁東京".split()]
NEW = {
    "init_sketch": 1.5, "init_ppmi": 0.5, "init_gate": 0.6,
    "lexical_dim": 8, "lexical_weight": 2.0, "lexical_ngrams": "pieces",
}  # fmt: skip


def text(seed: int = 0, sentences: int = 60, vocab: int = len(PIECES), longest: int = 30) -> tuple[np.ndarray, ...]:
    """Rare tokens and frequent ones, in sentences some of which are longer than company reaches."""
    rng = np.random.default_rng(seed)
    _, offsets = random_batch(rng, sentences, vocab, longest)
    return (vocab * rng.random(offsets[-1]) ** 2).astype(np.int32), offsets


def cosines(rows: np.ndarray) -> np.ndarray:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


# --- Spelling --------------------------------------------------------------------------------------------------------


def test_a_piece_has_ngrams_with_its_ends_marked_and_a_byte_has_only_its_name():
    found = initial.ngrams_of("▁cat")
    sizes = {len(ngram) for ngram in found}
    assert sizes == set(range(initial.SHORTEST, initial.LONGEST + 1))
    assert found == ["<▁cat>"[i : i + n] for n in sorted(sizes) for i in range(7 - n)]
    assert initial.ngrams_of("<0x0A>") == ["<0x0A>"]
    assert len(initial.ngrams_of("<0x0a>")) > 1  # as text spells it


def test_pieces_are_close_if_they_share_ngrams():
    near = cosines(initial.character_sketches(PIECES, *text(), 2048, 0))
    at = {piece: i for i, piece in enumerate(PIECES)}
    for one, like in (("▁cat", "▁cats"), ("▁doghouse", "▁dog"), ("▁doghouse", "house")):
        assert near[at[one], at[like]] > 0.2
    for one, unlike in (("▁cat", "▁dog"), ("▁banana", "▁नमस्ते"), ("▁東京", "▁cat")):
        assert abs(near[at[one], at[unlike]]) < 0.1


def test_bytes_are_like_nothing_else():
    near = cosines(initial.character_sketches(PIECES, *text(), 2048, 0))
    apart = near - np.eye(len(PIECES))
    assert np.abs(apart[:3]).max() < 0.1


def test_sketches_have_length_1_on_average_and_depend_on_the_seed_alone():
    sketches = initial.character_sketches(PIECES, *text(), 64, 3)
    assert np.linalg.norm(sketches, axis=1).mean() == pytest.approx(1, rel=1e-5)
    assert (np.linalg.norm(sketches, axis=1) > 0).all()
    np.testing.assert_array_equal(sketches, initial.character_sketches(PIECES, *text(), 64, 3))
    assert np.abs(sketches - initial.character_sketches(PIECES, *text(), 64, 4)).max() > 0.1


def test_sums_of_sketches_have_the_cosines_of_tf_idf_of_ngrams():
    tokens, offsets = text(longest=8)
    sentences = [tokens[a:b].tolist() for a, b in pairwise(offsets)]
    sketches = initial.character_sketches(PIECES, tokens, offsets, 8192, 0)
    sums = np.stack([sketches[sentence].sum(0) for sentence in sentences])

    counts = [Counter(ngram for token in s for ngram in initial.ngrams_of(PIECES[token])) for s in sentences]
    having = Counter(ngram for count in counts for ngram in count)
    weights = {ngram: np.log((1 + len(sentences)) / (1 + n)) + 1 for ngram, n in having.items()}
    tf_idf = np.array([[count[ngram] * weight for ngram, weight in weights.items()] for count in counts])
    np.testing.assert_allclose(cosines(sums), cosines(tf_idf), atol=0.06)


# --- Company ---------------------------------------------------------------------------------------------------------


def dense_association(tokens: np.ndarray, offsets: np.ndarray, vocab_size: int) -> np.ndarray:
    """Pair by pair."""
    near = np.zeros((vocab_size, vocab_size))
    for sentence in (tokens[a:b].tolist() for a, b in pairwise(offsets)):
        for i, one in enumerate(sentence):
            for j, other in enumerate(sentence):
                if 0 < abs(i - j) <= initial.NEAR:
                    near[one, other] += (initial.NEAR + 1 - abs(i - j)) / initial.NEAR
    smooth = near.sum(1) ** initial.SMOOTH
    by_chance = near.sum() * np.outer(smooth, smooth) / smooth.sum() ** 2
    more = near > by_chance
    return np.log(np.divide(near, by_chance, where=more, out=np.ones_like(near)))


@pytest.mark.parametrize(("near", "sentences", "longest"), [(None, 60, 30), (2, 60, 30), (3, 40, 4), (10, 1, 9)])
def test_association_is_that_of_all_pairs_within_reach(monkeypatch, near, sentences, longest):
    if near:
        monkeypatch.setattr(initial, "NEAR", near)
    batch = text(1, sentences, 20, longest)
    got = initial.ppmi_matrix(*batch, 25, CPU).to_dense().numpy()
    expected = dense_association(*batch, 25)
    assert (expected > 0).sum() > 10
    np.testing.assert_allclose(got, expected, atol=2e-5)
    np.testing.assert_allclose(got, got.T, atol=2e-5)


def test_tokens_of_two_sentences_are_no_company():
    tokens, offsets = np.array([0, 1, 2, 3] * 5, np.int32), np.arange(0, 21, 2)
    met = initial.ppmi_matrix(tokens, offsets, 4, CPU).to_dense().numpy() > 0
    np.testing.assert_array_equal(met, np.kron(np.eye(2), [[0, 1], [1, 0]]) > 0)


def test_any_number_of_threads_counts_the_same(monkeypatch):
    def counted(n: int) -> list[torch.Tensor]:
        monkeypatch.setattr(threads, "available", lambda: n)
        matrix = initial.ppmi_matrix(*text(2, 200, 300), 300, CPU)
        return [matrix.crow_indices(), matrix.col_indices(), matrix.values()]

    assert all(map(torch.equal, counted(1), counted(3)))


@pytest.mark.parametrize("block", [1, 7, 300, 1000])
def test_the_product_in_dense_blocks_is_that_of_the_sparse_matrix(monkeypatch, block):
    monkeypatch.setattr(initial, "BLOCK", block)
    matrix, basis = initial.ppmi_matrix(*text(2, 200, 290), 300, CPU), torch.randn(300, 5)
    assert (matrix.crow_indices().diff() == 0).any()  # an empty row
    torch.testing.assert_close(initial._in_blocks(matrix, basis), matrix.to_dense() @ basis)


@pytest.mark.gpu
def test_a_gpu_counts_the_same_bits_every_time():
    batch = text(2, 2000, 3000)
    first, *others = (initial.ppmi_vectors(*batch, 3000, 64, 0, torch.device("cuda")) for _ in range(5))
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize(("n", "k"), [(12, 12), (12, 5), (300, 6)])
def test_eigenvectors_are_those_of_lapack(n, k):
    rng = np.random.default_rng(n)
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    spectrum = 0.7 ** np.arange(n) * np.where(rng.random(n) < 0.5, 1, -1)
    matrix = ((q * spectrum) @ q.T).astype(np.float32)
    values, vectors = initial._eigen(torch.from_numpy(matrix), k, 0)
    true_values, true_vectors = np.linalg.eigh(matrix.astype(np.float64))
    order = np.argsort(-np.abs(true_values))[:k]
    np.testing.assert_allclose(values, true_values[order], atol=1e-4)
    np.testing.assert_allclose(np.abs(vectors.numpy().T @ true_vectors[:, order]), np.eye(k), atol=5e-3)


def test_tokens_of_the_same_company_are_close():
    """0 and 1 stand beside 2..5, 6 and 7 beside 8..11."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 2, 400)
    sentences = np.stack([6 * topic + rng.integers(0, 2, 400), *(6 * topic + rng.integers(2, 6, (3, 400)))], axis=1)
    tokens, offsets = sentences.ravel().astype(np.int32), np.arange(0, 1601, 4)
    near = cosines(initial.ppmi_vectors(tokens, offsets, 12, 4, 0, CPU))
    assert near[0, 1] > 0.8 < near[6, 7]
    assert abs(near[0, 6]) < 0.3


@pytest.mark.parametrize("dim", [8, 64, 400])  # fewer than the rank of what is counted, more, more than tokens
def test_a_token_that_never_occurs_has_no_company(dim):
    tokens, offsets = text(3, 100, 30)
    rows = initial.ppmi_vectors(tokens + 256, offsets, 300, dim, 0, CPU)
    assert rows.shape == (300, dim)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(np.delete(lengths, np.unique(tokens) + 256), 0, atol=1e-3)
    assert (lengths[np.unique(tokens) + 256] > 0).all()


def test_the_more_frequent_a_token_the_shorter_its_vector():
    tokens, offsets = text(4, 300, 15)
    lengths = np.linalg.norm(initial.ppmi_vectors(tokens, offsets, 15, 8, 0, CPU), axis=1)
    assert (lengths <= 1 + 1e-5).all()
    order = np.argsort(np.bincount(tokens))
    assert (np.diff(lengths[order]) <= 1e-6).all()


def test_sentences_of_one_token_tell_nothing_of_company():
    rows = initial.ppmi_vectors(np.arange(5, dtype=np.int32), np.arange(6), 8, 4, 0, CPU)
    np.testing.assert_allclose(rows, 0, atol=1e-6)


# --- Training --------------------------------------------------------------------------------------------------------


def before_any_step(corpus: Path, out: Path, **settings) -> dict[str, np.ndarray]:
    """The weights of a run that learns nothing."""
    train(corpus, out, epochs=1, lr=1e-30, **settings, **SMALL)
    state = load_file(out / "training/checkpoint.safetensors")
    return {name.removeprefix("model."): value for name, value in state.items() if name.startswith("model.")}


def test_a_run_begins_with_what_counting_tells(corpus, tmp_path):
    weights = before_any_step(corpus, tmp_path / "out", **NEW)
    config = Config.from_file(tmp_path / "out/config.json")
    pieces = Tokenizer.from_file(tmp_path / "out/tokenizer.json").pieces
    part, held_out = parts(Store.open(tmp_path / "out/training/store"), None, config, hold_out=True)
    assert held_out is not None
    text = part.batch()
    sketch = initial.character_sketches(pieces, *text, config.dim, config.seed)
    company = initial.ppmi_vectors(*text, len(pieces), config.dim, config.seed, CPU)
    np.testing.assert_allclose(weights["embedding"], 1.5 * sketch + 0.5 * company, rtol=1e-5, atol=1e-6)
    sketches = initial.character_sketches(pieces, *text, 8, config.seed + 1)
    np.testing.assert_array_equal(weights["lexical"], lexical.rounded(sketches))
    finished = load_file(tmp_path / "out/model.safetensors")
    np.testing.assert_array_equal(finished["lexical"], weights["lexical"])
    for name in ("comp_l", "comp_r", "decomp_l", "decomp_r"):
        np.testing.assert_allclose(1 / (1 + np.exp(-weights[name])), 0.6, rtol=1e-6, err_msg=name)


def test_lexical_dimensions_leave_the_beginning_of_the_others_at_random(corpus, tmp_path):
    weights = before_any_step(corpus, tmp_path / "out", preset="paper", lexical_dim=8)
    model = BanyanModel(Config.from_file(tmp_path / "out/config.json"), len(weights["embedding"]))
    np.testing.assert_allclose(weights["embedding"], model.embedding.detach(), rtol=0, atol=1e-25)
    assert weights["lexical"].any()


def test_without_these_settings_a_run_begins_at_random(corpus, tmp_path):
    weights = before_any_step(corpus, tmp_path / "out", preset="paper")
    model = BanyanModel(Config.from_file(tmp_path / "out/config.json"), len(weights["embedding"]))
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(weights[name], parameter.detach(), rtol=0, atol=1e-25, err_msg=name)


def test_a_model_without_an_output_layer_begins_so_too(corpus, tmp_path):
    weights = before_any_step(corpus, tmp_path / "out", objective="contrastive", **NEW)
    assert "out_weight" not in weights
    assert np.linalg.norm(weights["embedding"], axis=1).max() > 1


def test_a_finished_model_to_start_from_comes_first(corpus, tmp_path):
    train(corpus, tmp_path / "first", epochs=1, **SMALL)
    weights = before_any_step(corpus, tmp_path / "next", init=tmp_path / "first")
    with pytest.raises(BanyanError, match="init_sketch initialises a new model"):
        train(corpus, tmp_path / "other", init=tmp_path / "first", init_sketch=1.0, **SMALL)
    first, finished = (load_file(tmp_path / name / "model.safetensors")["embedding"] for name in ("first", "next"))
    np.testing.assert_array_equal(weights["embedding"], first)
    np.testing.assert_array_equal(finished, first)
    lexical = [load_file(tmp_path / name / "model.safetensors")["lexical_idf"] for name in ("first", "next")]
    np.testing.assert_array_equal(*lexical)


def test_an_interrupted_run_goes_on_to_the_same_bits(corpus, tmp_path):
    with interrupted_at(16):  # in the second epoch
        train(corpus, tmp_path / "out", epochs=2, **NEW, **SMALL)
    train(corpus, tmp_path / "out", resume=True, **SMALL)
    train(corpus, tmp_path / "whole", epochs=2, **NEW, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_processes_that_count_each_its_own_text_begin_alike(train_in_processes, corpus, tmp_path):
    ended = train_in_processes(corpus, tmp_path / "out", epochs=1, **NEW)
    assert [code for code, _ in ended] == [0, 0], ended
    assert len({Path(f"{tmp_path}/out.rank{rank}").read_text() for rank in range(2)}) == 1
