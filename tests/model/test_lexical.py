"""Embeddings that end in a sketch of the text: the sum of sketches of its tokens, or of the n-grams of its words."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.model import lexical
from banyan.model.graph import kept_occurrences
from banyan.model.word_ngrams import BUCKETS, WordNgrams, spelling
from banyan.training import train
from tests.helpers.training import SMALL

DIM, LEXICAL = 16, 8
TEXTS = ["the cat sees the dog", "", "a bird", "the cat sees the dog (1984) and the old tree's shade, near the river."]


@pytest.fixture(scope="module", params=["pieces", "words", "words, sublinear_tf", "words, lexical_root"])
def folder(request, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("lexical") / "out"
    kind, sublinear = request.param.split(",")[0], "sublinear" in request.param
    how = {"lexical_dim": LEXICAL, "lexical_weight": 0.7, "lexical_ngrams": kind, "sublinear_tf": sublinear}
    how["lexical_root"] = "root" in request.param
    train(corpus, out, preset="paper", epochs=1, **how, **SMALL)
    return out


@pytest.fixture(scope="module")
def model(folder) -> Banyan:
    return Banyan.from_pretrained(folder)


@pytest.fixture(scope="module")
def learnt(model) -> Banyan:
    """The same without those dimensions."""
    weights = {name: array for name, array in model.weights.items() if not name.startswith("lexical")}
    return Banyan(replace(model.config, lexical_dim=0), model.tokenizer, weights)


def plain(model: Banyan, text: str) -> np.ndarray:
    return of_tokens(model, model.tokenizer.encode([text])[0])


def of_tokens(model: Banyan, tokens: np.ndarray) -> np.ndarray:
    if model.config.lexical_ngrams == "words":
        weights = model.weights["lexical_idf"]
        how = LEXICAL, model.config.sublinear_tf, model.config.lexical_root
        ngrams = WordNgrams(spelling(model.tokenizer.pieces), weights, *how)
        sums = ngrams.contributions(tokens).sum(0)
    else:
        sums = model.weights["lexical"][tokens].astype(np.float64).sum(0)
    return 0.7 * sums / (np.linalg.norm(sums) or 1)


def unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths, lengths, 1)


def test_what_is_learnt_stands_first_and_then_the_sum_of_sketches(model, learnt):
    found = model.encode(TEXTS)
    assert model.dim == found.shape[1] == DIM + LEXICAL
    np.testing.assert_allclose(found[:, :DIM], unit(learnt.encode(TEXTS)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[:, DIM:], [plain(model, text) for text in TEXTS], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=DIM), found[:, :DIM])


def test_a_cosine_is_the_weighted_mean_of_two(model, learnt):
    a, b = TEXTS[0], TEXTS[-1]
    by_spelling = plain(model, a) @ plain(model, b) / 0.7**2
    expected = (learnt.similarity(a, b) + 0.7**2 * by_spelling) / (1 + 0.7**2)
    assert model.similarity(a, b) == pytest.approx(expected, abs=1e-5)


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
    np.testing.assert_allclose(tree.embeddings[:, :DIM], unit(without.embeddings), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(tree.children, without.children)
    np.testing.assert_array_equal(tree.similarity, without.similarity)
    tokens = model.tokenizer.encode([text])[0]
    kept = np.arange(len(tokens))
    if model.config.sublinear_tf:
        kept = np.flatnonzero(kept_occurrences(tokens, np.array([0, len(tokens)])))
        assert len(kept) < len(tokens)
    spans = [(place, place + 1) for place in kept]
    spans[-1] = (kept[-1], len(tokens))
    for left, right in tree.children:
        spans.append((spans[left][0], spans[right][1]))
    expected = [of_tokens(model, tokens[start:end]) for start, end in spans]
    np.testing.assert_allclose(tree.embeddings[:, DIM:], expected, rtol=1e-5, atol=1e-6)
    assert model.parse("").embeddings.shape == (0, DIM + LEXICAL)


def test_an_explanation_has_them_too(model):
    a, b = TEXTS[0], TEXTS[-1]
    explained = model.explain(a, b)
    assert explained.similarity == pytest.approx(model.similarity(a, b), abs=1e-5)
    assert explained.matrix.sum() == explained.similarity
    assert model.explain(a, "").similarity == 0


def test_brackets_have_them(model):
    (tree,) = model.parse_brackets("(S (NP the cat) (VP sees (NP the dog)))")
    np.testing.assert_allclose(tree.embeddings[-1, DIM:], plain(model, "the cat sees the dog"), rtol=1e-5, atol=1e-6)


def test_sketches_in_int8_have_the_cosines_of_the_others():
    sketches = np.random.default_rng(0).standard_normal((50, 256)).astype(np.float32) * np.linspace(0.2, 2, 50)[:, None]
    sketches /= np.linalg.norm(sketches, axis=1).mean()
    kept = lexical.rounded(sketches)
    assert kept.dtype == np.int8
    back = kept / (8 * np.sqrt(256))
    cosines = (back * sketches).sum(1) / np.linalg.norm(back, axis=1) / np.linalg.norm(sketches, axis=1)
    assert cosines.min() > 0.98
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), np.linalg.norm(sketches, axis=1), rtol=0.05)


def test_a_file_that_lacks_them_is_refused(folder, model, tmp_path):
    model.save_pretrained(tmp_path)
    np.testing.assert_array_equal(Banyan.from_pretrained(tmp_path).encode(TEXTS), model.encode(TEXTS))
    weights = load_file(tmp_path / "model.safetensors")
    (name,) = (name for name in weights if name.startswith("lexical"))
    del weights[name]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(BanyanError, match=f"{name} is missing"):
        Banyan.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("lexical_idf", None, "lexical_idf is missing"),
        ("lexical_idf", np.zeros(100, np.uint8), r"lexical_idf has shape \(100,\)"),
        ("lexical_idf", np.zeros(BUCKETS, np.int64), "lexical_idf has the type int64, not uint8"),
        ("lexical", np.float32, "lexical has the type float32, not int8"),
    ],
)
def test_tables_of_another_shape_or_type_are_refused(model, tmp_path, name, wrong, says):
    if name not in model.weights:
        pytest.skip("a model without them")
    weights = {**model.weights, name: model.weights[name].astype(wrong) if wrong is np.float32 else wrong}
    Banyan(model.config, model.tokenizer, model.weights).save_pretrained(tmp_path)
    save_file({key: value for key, value in weights.items() if value is not None}, tmp_path / "model.safetensors")
    with pytest.raises(BanyanError, match=says):
        Banyan.from_pretrained(tmp_path)


def test_a_folder_that_does_not_say_which_ngrams_has_those_of_pieces(model, tmp_path):
    if model.config.lexical_ngrams == "words":
        pytest.skip("folders that do not say are older than these")
    model.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    del settings["lexical_ngrams"]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "SHA256SUMS").unlink()
    loaded = Banyan.from_pretrained(tmp_path)
    assert loaded.config.lexical_ngrams == "pieces"
    assert loaded.fingerprint() == model.fingerprint()
    np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))


def test_a_model_to_start_from_brings_them(folder, model, corpus, tmp_path):
    next_one = train(corpus, tmp_path / "next", init=folder, epochs=1, quiet=True, device="cpu")
    for name in {"lexical", "lexical_idf"} & {*model.weights}:
        np.testing.assert_array_equal(next_one.weights[name], model.weights[name])
    assert next_one.config.lexical_ngrams == model.config.lexical_ngrams
    with pytest.raises(BanyanError, match="has lexical_dim = 8, which cannot be changed"):
        train(corpus, tmp_path / "other", init=folder, lexical_dim=4, quiet=True)
