"""The pieces of a word merge before anything else."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from banyan import Banyan, BanyanError, backends, reference
from banyan.backends import _numba
from banyan.config import SETTINGS, Config
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.model.graph import entangle, kept_occurrences
from banyan.model.leaves import LeafChoice
from banyan.model.whole_words import WordPieces, joined_tokens
from banyan.model.word_ngrams import spelling
from banyan.training import train
from tests.helpers.batches import canonical, random_functions
from tests.helpers.corpora import lines
from tests.helpers.training import SMALL

PIECES = ["▁per", "form", "▁(", "▁cat", "'", "s", ")", ".", "▁", "7", ",", "5", "▁—"]
STRUCTURES = SETTINGS["structure"].choices
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def tokens_of(*pieces: str) -> np.ndarray:
    return np.array([PIECES.index(piece) for piece in pieces], np.int32)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("▁per", "form", "▁per", "form"), "0101"),
        (("▁cat", "'", "s", "."), "0110"),  # the full stop is not part of the word
        (("▁(", "form", ")"), "000"),
        (("▁", "7", ",", "5", ")"), "01110"),
        (("▁", ")", "form", "▁", "▁cat"), "00000"),
        (("form", "form", "▁—", "form"), "0100"),  # a crop may begin inside a word
        ((".", ".", "."), "000"),
    ],
)
def test_a_word_reaches_from_its_first_letter_to_its_last(pieces, expected):
    tokens = tokens_of(*pieces)
    found = joined_tokens(tokens, np.array([0, len(tokens)]), WordPieces.of(spelling(PIECES)))
    assert "".join(map(str, found.astype(int))) == expected


@pytest.mark.parametrize(
    ("pieces", "left_out", "shown"),
    [
        (("▁per", "form", "▁cat", "form"), {3}, ["per", "form", "catform"]),
        (("▁per", "form", "▁per", "s"), {2}, ["per", "form", "pers"]),
        (("▁cat", "'", "s", ".", "▁cat"), {1, 3, 4}, ["cat'", "s"]),  # not the full stop, nor a word left out whole
        (("▁per", "form", "s", "▁cat"), {0, 1}, ["performs", "cat"]),
    ],
)
def test_a_word_is_shown_whole_even_if_a_piece_of_it_is_left_out(pieces, left_out, shown):
    ends = np.cumsum([len(piece.removeprefix("▁")) for piece in pieces]).tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    kept = np.array([i for i in range(len(pieces)) if i not in left_out])
    choice = LeafChoice(words=WordPieces.of(spelling(PIECES)))
    text = "".join(piece.removeprefix("▁") for piece in pieces)
    found = choice.spans(tokens_of(*pieces), spans, kept)
    assert [text[start:end] for start, end in found] == shown
    assert replace(choice, words=None).spans(tokens_of(*pieces), spans, kept) == [spans[i] for i in kept]


def test_words_end_with_their_text_and_what_is_left_out_does_not_join_others():
    words = WordPieces.of(spelling(PIECES))
    tokens = tokens_of("▁per", "form", "form", "s", "▁per", "form")
    found = LeafChoice(words=words).leaves(tokens, np.array([0, 2, 4, 6]))
    assert found.joined is not None
    assert found.joined.astype(int).tolist() == [0, 1, 0, 1, 0, 1]
    repeats = tokens_of("▁per", "form", "▁cat", "▁per", "s", "'", "'", "form")
    kept = kept_occurrences(repeats, np.array([0, 8]))
    found = LeafChoice(sublinear_tf=True, words=words).leaves(repeats, np.array([0, 8]))
    assert kept.astype(int).tolist() == [1, 1, 1, 0, 1, 1, 0, 0]
    assert found.joined is not None
    assert found.joined.astype(int).tolist() == [0, 1, 0, 0, 1]  # s begins its word now: ▁per is left out


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("seed", range(3))
def test_every_back_end_makes_the_trees_of_the_reference(structure, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 40, 12))])
    tokens, joined = rng.integers(0, 60, offsets[-1]).astype(np.int32), rng.random(offsets[-1]) < 0.5
    embedding, f = rng.normal(size=(60, 8)), random_functions(rng, 2)
    expected = reference.greedy(tokens, offsets, embedding, f, structure=structure, joined=joined)
    found, _ = _numba.induce(tokens, offsets, embedding, tokens, f, structure=structure, joined=joined)
    np.testing.assert_array_equal(found.children, expected.children)
    without = reference.greedy(tokens, offsets, embedding, f, structure=structure)
    assert not np.array_equal(without.children, expected.children)

    graph = reference.entangle(expected)
    roots = reference.up_pass(graph, embedding[graph.token], f)[graph.root]
    small = embedding.astype(np.float32)
    for backend in (backends.named("numba"), backends.on_cpu()):
        encoder, out = backend.encoder(small, f, structure, "cpu"), np.zeros((12, 8), np.float32)
        encoder.roots(tokens, offsets, out, joined=joined)
        np.testing.assert_allclose(out, roots, atol=1e-4)
        for b, (first, end) in enumerate(pairwise(offsets)):
            given = tokens[first:end], np.array([0, end - first]), embedding, f
            alone = reference.greedy(*given, structure=structure, joined=joined[first:end])
            np.testing.assert_array_equal(encoder.tree(tokens[first:end], joined[first:end]), alone.children, f"{b}")


def batch_of_words(seed: int, longest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, longest, 6))])
    return rng.integers(0, len(PIECES), offsets[-1]).astype(np.int32), offsets, rng.random(offsets[-1]) < 0.5


@pytest.mark.kernels
@pytest.mark.parametrize("backend", ["numba", "torch", "triton"])
def test_tuning_sees_the_same_trees_with_dropout(backend):
    if backend == "triton":
        pytest.importorskip("triton")
    tokens, offsets, joined = batch_of_words(1, 20)
    device = torch.device("cpu") if backend == "numba" else DEVICE
    model, dropout = BanyanModel(Config(dim=8, channels=4), len(PIECES), backend).to(device), Dropout(0.2, seed=3)
    weights = {name: parameter.detach().cpu().double().numpy() for name, parameter in model.named_parameters()}
    f = reference.Functions(*(weights[name] for name in reference.Functions._fields))
    expected = entangle(reference.greedy(tokens, offsets, weights["embedding"], f, dropout, joined=joined))
    found = model.structure(tokens, offsets, dropout, joined)
    assert canonical(found.to_numpy() if backend == "triton" else found) == canonical(expected)


@pytest.mark.kernels
@pytest.mark.parametrize("longest", [12, 40])  # a frontier in registers, and one in memory
def test_the_gpu_kernels_encode_the_trees_of_the_reference(longest, monkeypatch):
    trees = pytest.importorskip("banyan.backends._triton.trees", reason="needs Triton")
    monkeypatch.setattr(trees, "IN_REGISTERS", 16)
    rng = np.random.default_rng(2)
    tokens, offsets, joined = batch_of_words(2, longest)
    embedding, f = rng.normal(size=(len(PIECES), 8)).astype(np.float32), random_functions(rng, 2)
    graph = reference.entangle(reference.greedy(tokens, offsets, embedding.astype(float), f, joined=joined))
    roots = reference.up_pass(graph, embedding[graph.token], f)[graph.root]
    out = np.zeros((len(offsets) - 1, 8), np.float32)
    encoder = trees.Encoder(embedding, f, DEVICE)
    encoder.roots(tokens, offsets, out, joined=joined)
    np.testing.assert_allclose(out, roots, atol=1e-4)
    encoder.roots(tokens, offsets, out)
    assert not np.allclose(out, roots, atol=1e-2)
    with pytest.raises(BanyanError, match="words cannot merge first in random trees"):
        trees.Encoder(embedding, f, DEVICE, "random").roots(tokens, offsets, out, joined=joined)


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "model"
    small = {**SMALL, "vocab_size": 300}  # short pieces
    train(corpus, out, preset="light", epochs=2, whole_words=True, **small)
    return out


TEXTS = [*lines(20, 5), "(The king's well-known garden, 1984.)", "...", "", "word", "the the the of the the of a the"]


def cuts(model: Banyan) -> int:
    """How many nodes hold a part of a word and something outside it."""
    found = 0
    for text in TEXTS[:20]:
        words = [match.span() for match in re.finditer(r"\w(\S*\w)?", text)]
        for start, end in model.parse(text).spans.tolist():
            found += sum(start < first < end < last or first < start < last < end for first, last in words)
    return found


def test_no_tree_cuts_through_a_word(trained):
    model = Banyan.from_pretrained(trained)
    config = replace(model.config, sublinear_tf=False)  # else pieces are left out, and words have holes
    assert cuts(Banyan(config, model.tokenizer, model.weights)) == 0
    assert cuts(Banyan(replace(config, whole_words=False), model.tokenizer, model.weights)) > 20


def test_any_model_can_show_words_whole(trained, banyan):
    whole = Banyan.from_pretrained(trained)
    model = Banyan(replace(whole.config, whole_words=False), whole.tokenizer, whole.weights)
    for text in TEXTS:
        for one in (whole, model):
            assert one.parse(text, whole_words=True).to_json() == whole.parse(text).to_json()
            assert one.parse(text, whole_words=False).to_json() == model.parse(text).to_json()
    model.save_pretrained(trained.parent / "not whole")
    text = next(text for text in TEXTS if str(whole.parse(text)) != str(model.parse(text)))
    assert banyan("tree", trained.parent / "not whole", text, "--whole-words") == banyan("tree", trained, text)
    assert banyan("tree", trained.parent / "not whole", text) != banyan("tree", trained, text)


def test_the_model_has_the_setting_and_encodes_the_same_by_every_way(trained, monkeypatch):
    model = Banyan.from_pretrained(trained)
    assert model.config.whole_words
    vectors = model.encode(TEXTS)
    np.testing.assert_array_equal(model.encode_tokens(*model.tokenizer.encode(TEXTS)), vectors)
    for text, vector in zip(TEXTS, vectors, strict=True):
        tree = model.parse(text)
        np.testing.assert_allclose(tree.embeddings[-1] if len(tree.pieces) else 0 * vector, vector, atol=1e-5)
        np.testing.assert_array_equal(model.encode(text), vector)
    monkeypatch.setenv("BANYAN_KERNELS", "numba")
    np.testing.assert_allclose(Banyan.from_pretrained(trained).encode(TEXTS), vectors, atol=1e-5)
    explained = model.explain(TEXTS[0], TEXTS[1])
    assert explained.matrix.sum() == pytest.approx(model.similarity(TEXTS[0], TEXTS[1]), abs=1e-5)


def test_training_does_not_depend_on_it_and_init_keeps_it(corpus, trained, tmp_path):
    train(corpus, tmp_path / "other", preset="light", epochs=2, **{**SMALL, "vocab_size": 300})
    found, other = (Banyan.from_pretrained(folder).weights for folder in (trained, tmp_path / "other"))
    for name, weight in found.items():
        np.testing.assert_array_equal(weight, other[name])
    train(corpus, tmp_path / "more", init=trained, epochs=1, batch_size=32, quiet=True, device="cpu")
    assert Config.from_file(tmp_path / "more/config.json").whole_words
    with pytest.raises(BanyanError, match="has whole_words = True, which cannot be changed"):
        train(corpus, tmp_path / "no", init=trained, whole_words=False, quiet=True, device="cpu")
