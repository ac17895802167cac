"""Embeddings that end in the sum of sketches of their tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import random_batch
from safetensors.numpy import load_file, save_file
from test_training import SMALL, corpus  # noqa: F401

from banyan import lexical
from banyan.config import Config
from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.training import train

DIM, LEXICAL = 16, 8
TEXTS = ["the cat sees the dog", "", "a bird", "the cat sees the dog and the old tree near the river"]


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):  # noqa: F811
    out = tmp_path_factory.mktemp("lexical") / "out"
    train(corpus, out, preset="paper", epochs=1, lexical=LEXICAL, lexical_weight=0.7, **SMALL)
    return out


@pytest.fixture(scope="module")
def model(folder) -> Banyan:
    return Banyan.from_pretrained(folder)


@pytest.fixture(scope="module")
def learnt(model) -> Banyan:
    """The same without those dimensions."""
    weights = {name: array for name, array in model.weights.items() if name != "lexical"}
    return Banyan(replace(model.config, lexical=0), model.tokenizer, weights)


def plain(model: Banyan, text: str) -> np.ndarray:
    tokens, _ = model.tokenizer.encode([text])
    return model.weights["lexical"][tokens].astype(np.float64).sum(0) * 0.7 / (8 * np.sqrt(LEXICAL))


def test_what_is_learnt_stands_first_and_then_the_sum_of_sketches(model, learnt):
    found = model.encode(TEXTS)
    assert model.dim == found.shape[1] == DIM + LEXICAL
    np.testing.assert_array_equal(found[:, :DIM], learnt.encode(TEXTS))
    np.testing.assert_allclose(found[:, DIM:], [plain(model, text) for text in TEXTS], rtol=1e-5, atol=1e-6)
    lengths = [np.linalg.norm(plain(model, piece)) for piece in ("cat", "dog", "river", "sees", "the")]
    assert 0.3 < np.mean(lengths) < 1.5
    np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=DIM), learnt.encode(TEXTS))


def test_a_text_has_the_same_bits_alone_and_on_any_number_of_threads(model, monkeypatch):
    together = model.encode(TEXTS * 50)
    for text, row in zip(TEXTS, together, strict=False):
        np.testing.assert_array_equal(model.encode(text), row)
    monkeypatch.setenv("BANYAN_THREADS", "1")
    np.testing.assert_array_equal(model.encode(TEXTS * 50), together)


def test_every_phrase_of_a_tree_has_them(model, learnt):
    text = TEXTS[-1]
    tree, without = model.parse(text), learnt.parse(text)
    np.testing.assert_array_equal(tree.embeddings[-1], model.encode(text))
    np.testing.assert_array_equal(tree.embeddings[:, :DIM], without.embeddings)
    np.testing.assert_array_equal(tree.children, without.children)
    np.testing.assert_array_equal(tree.similarity, without.similarity)
    for node, (left, right) in enumerate(tree.children, len(tree.pieces)):
        sums = tree.embeddings[[left, right], DIM:].sum(0)
        np.testing.assert_allclose(tree.embeddings[node, DIM:], sums, rtol=1e-5, atol=1e-6)
    assert model.parse("").embeddings.shape == (0, DIM + LEXICAL)


def test_an_explanation_has_them_too(model):
    a, b = TEXTS[0], TEXTS[-1]
    assert model.explain(a, b).similarity == pytest.approx(model.similarity(a, b), abs=1e-5)
    assert model.explain(a, "").similarity == 0


def test_brackets_have_them(model):
    (tree,) = model.parse_brackets("(S (NP the cat) (VP sees (NP the dog)))")
    np.testing.assert_allclose(tree.embeddings[-1, DIM:], plain(model, "the cat sees the dog"), rtol=1e-5, atol=1e-6)


def test_torch_adds_up_the_same(model):
    tokens, offsets = random_batch(np.random.default_rng(0), 20, model.tokenizer.vocab_size, 30)
    offsets = np.insert(offsets, 3, offsets[3])  # one is empty
    table = model.weights["lexical"]
    found, expected = (np.zeros((len(offsets) - 1, DIM + LEXICAL), np.float32) for _ in range(2))
    lexical.SumsOnGpu(table, model.config, torch.device("cpu")).put(tokens, offsets, found)
    lexical.Sums(table, model.config).put(tokens, offsets, expected)
    assert expected[:, DIM:].any()
    assert not expected[:, :DIM].any()
    np.testing.assert_array_equal(found, expected)


def test_sketches_in_int8_have_the_cosines_of_the_others():
    sketches = np.random.default_rng(0).standard_normal((50, 256)).astype(np.float32) * np.linspace(0.2, 2, 50)[:, None]
    sketches /= np.linalg.norm(sketches, axis=1).mean()
    kept = lexical.rounded(sketches)
    assert kept.dtype == np.int8
    back = kept * lexical.scale(Config(lexical=256, lexical_weight=1.0))
    cosines = (back * sketches).sum(1) / np.linalg.norm(back, axis=1) / np.linalg.norm(sketches, axis=1)
    assert cosines.min() > 0.98
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), np.linalg.norm(sketches, axis=1), rtol=0.05)


def test_a_file_that_lacks_them_is_refused(folder, model, tmp_path):
    model.save_pretrained(tmp_path)
    np.testing.assert_array_equal(Banyan.from_pretrained(tmp_path).encode(TEXTS), model.encode(TEXTS))
    weights = load_file(tmp_path / "model.safetensors")
    del weights["lexical"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(BanyanError, match="lexical is missing"):
        Banyan.from_pretrained(tmp_path)


def test_a_model_to_start_from_brings_them(folder, model, corpus, tmp_path):  # noqa: F811
    next_one = train(corpus, tmp_path / "next", init=folder, epochs=1, quiet=True, device="cpu")
    np.testing.assert_array_equal(next_one.weights["lexical"], model.weights["lexical"])
    with pytest.raises(BanyanError, match="has lexical = 8, which cannot be changed"):
        train(corpus, tmp_path / "other", init=folder, lexical=4, quiet=True)
