"""Fewer dimensions, int8 and bits: what `encode` gives, what is written, and what is measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from banyan.compact import PRECISIONS, Form, comparable, expanded
from banyan.encoding import encode_file
from banyan.errors import BanyanError
from banyan.evaluate import suites
from banyan.evaluate.similarity import read_pairs
from tests.helpers.corpora import LINES
from tests.helpers.sets import write_beir, write_pairs

TEXTS = [line for line in LINES if line.strip()]


def cosines(vectors: np.ndarray) -> np.ndarray:
    vectors = vectors.astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def hamming(bits: np.ndarray) -> np.ndarray:
    """Between all pairs of rows, in plain Python."""
    return np.array([[sum(bin(x ^ y).count("1") for x, y in zip(a, b, strict=True)) for b in bits.tolist()]
                     for a in bits.tolist()])  # fmt: skip


# --- Vectors ---------------------------------------------------------------------------------------------------------


def test_default_is_the_whole_vector_in_float32(model):
    vectors = model.encode(TEXTS)
    assert (vectors.dtype, vectors.shape) == (np.float32, (len(TEXTS), model.dim))
    np.testing.assert_array_equal(vectors, model.encode(TEXTS, truncate_dim=model.dim, precision="float32"))


def test_int8_keeps_cosines(model):
    small = model.encode(TEXTS, precision="int8")
    assert (small.dtype, small.shape) == (np.int8, (len(TEXTS), model.dim))
    np.testing.assert_array_equal(np.abs(small).max(axis=1), 127)
    np.testing.assert_allclose(cosines(small), cosines(model.encode(TEXTS)), atol=0.01)
    np.testing.assert_allclose(model.similarity(small, small), model.similarity(TEXTS, TEXTS), atol=0.01)


_FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)


@settings(deadline=None, max_examples=60)
@given(arrays(np.float32, (2, 48), elements=_FLOATS))
def test_int8_of_any_vector_is_within_half_a_step_of_it(vectors):
    small = Form(48, "int8").keep(vectors)
    assert small.min() >= -127
    scale = np.abs(vectors.astype(np.float64)).max(axis=1, keepdims=True) / 127
    assert (np.abs(small * scale - vectors) <= scale * 0.50001).all()


@pytest.mark.parametrize("dim", [16, 11, 8, 1])
def test_binary_is_the_packed_signs(model, dim):
    bits = model.encode(TEXTS, precision="binary", truncate_dim=dim)
    whole = model.encode(TEXTS)[:, :dim]
    assert (bits.dtype, bits.shape) == (np.uint8, (len(TEXTS), -(-dim // 8)))
    for row, vector in zip(bits, whole, strict=True):
        signs = "".join("1" if value > 0 else "0" for value in vector).ljust(8 * len(row), "0")
        assert row.tolist() == [int(signs[i : i + 8], 2) for i in range(0, len(signs), 8)]


@pytest.mark.parametrize("dim", [16, 11])
def test_cosine_of_expanded_bits_is_what_hamming_distance_says(model, dim):
    bits = model.encode(TEXTS, precision="binary", truncate_dim=dim)
    np.testing.assert_allclose(cosines(expanded(bits, dim)), 1 - 2 * hamming(bits) / dim, atol=1e-12)
    np.testing.assert_allclose(cosines(expanded(bits, dim)), cosines(np.where(model.encode(TEXTS) > 0, 1, -1)[:, :dim]))


@pytest.mark.parametrize("dim", [16, 7, 1])
def test_truncation_takes_the_first_dimensions_and_then_normalises(model, dim):
    first = model.encode(TEXTS)[:, :dim]
    np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=dim), first)
    unit = model.encode(TEXTS, truncate_dim=dim, normalize=True)
    np.testing.assert_allclose(unit, first / np.linalg.norm(first, axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_same_bits_in_any_batch_and_alone(model, precision, monkeypatch):
    options = {"precision": precision, "truncate_dim": 11}
    expected = model.encode(LINES, **options)
    np.testing.assert_array_equal(model.encode(LINES, batch_size=1, **options), expected)
    np.testing.assert_array_equal(np.stack([model.encode(line, **options) for line in LINES]), expected)
    monkeypatch.setattr(model, "_on_device", True)  # the blocks that a GPU gets
    np.testing.assert_array_equal(model.encode(LINES, **options), expected)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_no_texts_and_texts_without_tokens(model, precision):
    form = Form(11, precision)
    nothing = model.encode([], precision=precision, truncate_dim=11)
    assert (nothing.shape, nothing.dtype) == ((0, form.width), form.dtype)
    blank = model.encode(["", "   "], precision=precision, truncate_dim=11)
    np.testing.assert_array_equal(blank, np.zeros((2, form.width), form.dtype))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int4"}, "there is no precision 'int4': choose one of float32, int8, binary"),
        ({"truncate_dim": 0}, "cannot truncate to 0 dimensions: keep at least 1"),
        ({"truncate_dim": 17}, "cannot truncate to 17 dimensions: the model has 16"),
        ({"precision": "int8", "normalize": True}, "normalize needs float32, because int8 does not preserve lengths"),
        ({"precision": "binary", "normalize": True}, "because binary does not preserve lengths: leave it out"),
    ],
)
def test_what_cannot_be_had_is_refused(model, tmp_path, options, message):
    for texts in (TEXTS, "one"):
        with pytest.raises(BanyanError, match=message):
            model.encode(texts, **options)
    (tmp_path / "in.txt").write_text("one\n")
    with pytest.raises(BanyanError, match=message):
        encode_file(model, tmp_path / "in.txt", tmp_path / "out.npy", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("precision", ["int8", "binary"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused(precision, bad):
    with pytest.raises(BanyanError, match=f"not finite, which {precision} cannot hold"):
        Form(2, precision).keep(np.array([[1, 1, 1], [1, bad, 1]], np.float32))


def test_packed_bits_are_not_compared_by_cosine(model):
    bits = model.encode(TEXTS, precision="binary")
    with pytest.raises(BanyanError, match=r"banyan\.compact\.expanded"):
        model.similarity(bits, bits)
    vectors = expanded(bits, model.dim)
    np.testing.assert_allclose(model.similarity(vectors, vectors), 1 - 2 * hamming(bits) / model.dim, atol=1e-6)


# --- Measured --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_measured_is_the_similarity_that_is_meant(model, tmp_path, precision):
    pairs = read_pairs(write_pairs(tmp_path / "pairs.tsv", 30))
    (row,) = suites.measure(comparable(model, Form(11, precision)), suites.own([tmp_path / "pairs.tsv"])[0])
    a, b = (model.encode(texts)[:, :11].astype(np.float64) for texts in (pairs.first, pairs.second))
    if precision == "binary":
        expected = 1 - 2 * ((a > 0) != (b > 0)).sum(axis=1) / 11
    else:
        expected = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(row.outcome.items[:, 1], expected, atol=0.01 if precision == "int8" else 1e-6)


def test_equal_hamming_distances_tie_in_retrieval(model, tmp_path):
    """Few bits give many equals: the greatest id first, whatever the rounding of a product."""
    encode = comparable(model, Form(3, "binary"))
    beir = write_beir(tmp_path / "beir")
    documents, queries = (
        {row["_id"]: row["text"] for row in map(json.loads, (beir / name).read_text().splitlines())}
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    signs = {one: (model.encode(text)[:3] > 0) for one, text in (documents | queries).items()}
    hits = [
        max(documents, key=lambda one, query=query: (-(signs[one] != signs[query]).sum(), one)) == f"d{query[1:]}"
        for query in queries
    ]
    first = suites.measure(encode, suites.own(beir=[beir])[0])[0].outcome
    assert first is not None
    assert first.metric == "nDCG@1"
    np.testing.assert_array_equal(first.items, hits)


def test_eval_tells_what_smaller_vectors_cost(banyan, model_folder, model, tmp_path):
    pairs, beir = write_pairs(tmp_path / "pairs.tsv", 30), write_beir(tmp_path / "beir")
    sets = ["--pairs", pairs, "--beir", beir, "--words", pairs]
    options = ["--precision", "binary", "--truncate-dim", "8", "--against", model_folder]
    assert banyan("eval", model_folder, *options, *sets, "-o", tmp_path / "out.json")[0] == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert (report["model"], report["against"]) == (f"{model_folder} (8 dimensions as binary)", str(model_folder))
    spearman = report["results"][0]
    (small,) = suites.measure(comparable(model, Form(8, "binary")), suites.own([pairs])[0])
    (whole,) = suites.measure(model.encode, suites.own([pairs])[0])
    assert (spearman["value"], spearman["against"]["value"]) == (small.outcome.value, whole.outcome.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--precision", "bits"], "there is no precision 'bits'"),
        (["--truncate-dim", "17"], "cannot truncate to 17 dimensions: the model has 16"),
    ],
)
def test_eval_refuses_what_cannot_be_had(banyan, model_folder, tmp_path, arguments, message):
    code, out, err = banyan("eval", model_folder, "--pairs", write_pairs(tmp_path / "pairs.tsv"), *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"banyan: {message}")
