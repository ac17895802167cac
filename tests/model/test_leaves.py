"""Which tokens are leaves: marks that end a sentence may be left out when a text is encoded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.integrations import export
from banyan.model.leaves import LeafChoice, marks_among
from banyan.training import train
from tests.helpers.corpora import lines
from tests.helpers.training import SMALL

TEXTS = ["the cat sees the dog", '"The cat" sees (the dog), doesn\'t it?', "... !", "“the", "", "cat-dog 3.5 $7 & co."]


def test_end_marks_are_those_of_any_script():
    pieces = ["▁cat", ".", "▁(", "...", "▁?!", "$", "7", "।", "،", "▁", "<0x2E>", "'s", "-", "።", ".5", ","]
    found = [pieces[i] for i in np.flatnonzero(marks_among(pieces))]
    assert found == [".", "...", "▁?!", "।", "።"]


@given(st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=8), st.booleans())
@settings(deadline=None, max_examples=100)
def test_marks_are_left_out_unless_there_is_nothing_else(sentences, sublinear_tf):
    marks = np.array([False, True, False, True])
    tokens = np.array([token for sentence in sentences for token in sentence], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])]).astype(np.int64)
    left, ends, _ = LeafChoice(sublinear_tf, marks).leaves(tokens, offsets)
    for i, sentence in enumerate(sentences):
        words = [token for token in sentence if not marks[token]] or sentence
        expected = np.array(words, np.int32)
        if sublinear_tf:
            expected, _, _ = LeafChoice(sublinear_tf).leaves(expected, np.array([0, len(expected)]))
        np.testing.assert_array_equal(left[ends[i] : ends[i + 1]], expected)


@pytest.fixture(scope="module")
def punctuated(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("marks") / "corpus.txt"
    marks = ("{}.", '"{}," - (...)', "'{}'?", "$7 & {}!")
    path.write_text("".join(f"{marks[i % 4].format(line)}\n" for i, line in enumerate(lines(400))))
    return path


@pytest.fixture(scope="module", params=["pieces", "words"])
def with_marks(punctuated, tmp_path_factory, request) -> Banyan:
    out = tmp_path_factory.mktemp("with") / "out"
    train(punctuated, out, epochs=1, lexical_dim=8, lexical_ngrams=request.param, end_marks=True, **SMALL)
    return Banyan.from_pretrained(out)


@pytest.fixture
def without(with_marks) -> Banyan:
    """The same weights in a model that leaves end marks out."""
    return Banyan(replace(with_marks.config, end_marks=False), with_marks.tokenizer, with_marks.weights)


def test_the_learned_part_is_that_of_the_words(with_marks, without):
    E = without.config.dim
    marks = marks_among(without.tokenizer.pieces)
    found = without.encode(TEXTS)
    for text, row in zip(TEXTS, found, strict=True):
        tokens, _ = without.tokenizer.encode([text])
        words = tokens[~marks[tokens]] if not marks[tokens].all() else tokens
        expected = with_marks.encode_tokens(words, np.array([0, len(words)]))[0]
        np.testing.assert_array_equal(row[:E], expected[:E])
        np.testing.assert_array_equal(without.encode_tokens(tokens, np.array([0, len(tokens)]))[0], row)
    assert np.abs(found[1] - with_marks.encode(TEXTS[1])).max() > 1e-3
    np.testing.assert_array_equal(found[0], with_marks.encode(TEXTS[0]))
    assert found[2].any()  # nothing but end marks
    assert not found[4].any()
    if without.config.hashes_words:  # n-grams of words reach over marks
        np.testing.assert_array_equal(found[:, E:], with_marks.encode(TEXTS)[:, E:])


def test_trees_and_explanations_have_no_marks_and_stay_exact(without):
    for text in TEXTS:
        tree = without.parse(text)
        assert text == "... !" or not {".", "?", "..."} & {piece.lstrip("▁") for piece in tree.pieces}
        if text:
            np.testing.assert_array_equal(tree.embeddings[-1], without.encode(text))
        explained = without.explain(text, TEXTS[1])
        assert explained.similarity == pytest.approx(without.similarity(text, TEXTS[1]), abs=1e-5)


def test_a_bag_has_no_marks_either(without):
    table = export.token_table(without)
    marks = without.leaf_choice.marks
    assert marks is not None
    assert marks.any()
    assert not table[marks, : without.config.dim].any()
    assert table[~marks].any(1).all()


def test_the_onnx_graph_leaves_the_same_out(without, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    export.onnx(without, tmp_path / "onnx", lexical=not without.config.hashes_words)
    session = runtime.InferenceSession(tmp_path / "onnx/model.onnx")
    tokens, offsets = without.tokenizer.encode(TEXTS)
    (found,) = session.run(None, {"tokens": tokens.astype(np.int64), "offsets": offsets.astype(np.int64)})
    np.testing.assert_allclose(found, without.encode(TEXTS)[:, : found.shape[1]], rtol=1e-4, atol=1e-5)


def test_training_has_every_token_and_the_model_says_what_it_encodes(punctuated, tmp_path):
    for name, end_marks in (("without", False), ("with", True)):
        train(punctuated, tmp_path / name, epochs=1, end_marks=end_marks, **SMALL)
    a, b = (Banyan.from_pretrained(tmp_path / name) for name in ("without", "with"))
    for name, weights in a.weights.items():
        np.testing.assert_array_equal(weights, b.weights[name])
    assert a.fingerprint() != b.fingerprint()
    assert json.loads((tmp_path / "without/config.json").read_text())["end_marks"] is False
    with pytest.raises(BanyanError, match="has end_marks = False, which cannot be changed"):
        train(punctuated, tmp_path / "next", init=tmp_path / "without", end_marks=True, **SMALL)


def test_a_model_from_before_keeps_its_marks(with_marks, tmp_path):
    with_marks.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    before = json.loads(path.read_text())
    del before["end_marks"]
    path.write_text(json.dumps(before))
    (tmp_path / "SHA256SUMS").unlink()
    np.testing.assert_array_equal(Banyan.from_pretrained(tmp_path).encode(TEXTS), with_marks.encode(TEXTS))
