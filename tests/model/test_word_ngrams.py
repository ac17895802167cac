"""The n-grams of whole words, found from tokens."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from banyan import backends
from banyan.backends._numba.word_ngrams import WordSums
from banyan.model import word_ngrams as of_words
from banyan.model.word_ngrams import WordNgrams
from banyan.tokenizer.rules import BYTES

PIECES = [
    *("▁", "▁walk", "▁wal", "▁w", "▁walked", "walked", "walk", "ing", "ed", "a", "l", "k", "e", "d", "s", "▁a"),
    *("▁(", "(", ")", ".", "...", "▁-", "-", "'", "▁20", "▁2017", "20", "17", "1", "7", ":", "▁é", "क", "्"),
    *BYTES[195:200],
]
ID = {piece: token for token, piece in enumerate(PIECES)}
SPELT = of_words.spelling(PIECES)
DIM = 96


def some_weights() -> np.ndarray:
    return np.random.default_rng(0).integers(4, 46, of_words.BUCKETS).astype(np.uint8)


@pytest.fixture(scope="module")
def model() -> WordNgrams:
    return WordNgrams(SPELT, some_weights(), DIM, False)


def ids(text: str) -> np.ndarray:
    return np.array([ID[piece] for piece in text.split()], np.int32)


def sketch(model: WordNgrams, text: str) -> np.ndarray:
    return model.contributions(ids(text)).sum(0)


def hash_of(ngram: str) -> np.ndarray:
    """uint64 [1]"""
    marks = {"<": of_words.FIRST, ">": of_words.LAST}
    codes = [marks.get(character, ord(character) + 1) for character in ngram]
    window = codes[0] << 42 | codes[1] << 21 | codes[2]
    hashed = of_words.mix(window if len(codes) == 3 else (window * int(of_words.OF_FOUR) + codes[3]) % 2**64)
    return np.array([hashed], np.uint64)


def plain(word: str, weights: np.ndarray) -> np.ndarray:
    """The definition, for a word of ASCII letters and other characters, with loops over strings."""
    found = []
    runs = [match.group() for match in re.finditer(r"[a-z]+|[0-9]+|([^a-z0-9])\1*", word)]
    for run in runs:
        if run.isalnum():
            found += [f"<{run}>"[i : i + n] for n in (3, 4) for i in range(len(run) + 3 - n)]
    run_of = [0, *(number for number, run in enumerate(runs) for _ in run), len(runs) - 1]
    for n in (3, 4):
        for i in range(len(word) + 3 - n):
            if run_of[i] != run_of[i + n - 1]:
                found.append(f"<{word}>"[i : i + n])
    out = np.zeros(DIM, np.int64)
    for ngram in found:
        columns, signs = of_words.changes(hash_of(ngram), DIM)
        out[columns[0]] += signs[0] * int(weights[of_words.bucket(hash_of(ngram))[0]])
    return of_words.rotated(out[None])[0]


# --- What they are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    ["▁walked", "▁walk ed", "▁wal k e d", "▁w a l k ed", "▁ walk e d", "▁ walked", "▁w a l k e d"],
)
def test_a_word_has_the_same_sketch_however_it_is_cut_into_pieces(model, pieces):
    np.testing.assert_array_equal(sketch(model, pieces), plain("walked", model.weights))


@pytest.mark.parametrize(
    "pieces",
    [
        *("▁a", "▁walk .", "▁walk - ing", "▁( walk ed ) .", "▁( a )", "▁walk ' s", "▁- a", "▁ - a", "▁walk ... s"),
        *("▁walk 20 ed", "▁a - 17", "▁walk ' . s", "▁( a l )", "▁a . s . d ."),
    ],
)
def test_what_reaches_from_one_run_to_the_next_counts_too(model, pieces):
    word = pieces.replace(" ", "").replace("▁", "")
    np.testing.assert_array_equal(sketch(model, pieces), plain(word, model.weights))


def test_words_add_up(model):
    np.testing.assert_array_equal(
        sketch(model, "▁walk ed ▁a ▁walk ."), sketch(model, "▁walked") + sketch(model, "▁a") + sketch(model, "▁walk .")
    )


@pytest.mark.parametrize("pieces", ["▁( )", "▁- ...", "▁", "▁ ."])
def test_punctuation_by_itself_is_no_word(model, pieces):
    assert not sketch(model, pieces).any()


def test_a_word_without_letters_is_one_ngram(model):
    for pieces in ("▁20 17", "▁2017", "▁ 20 1 7", "▁( 20 )", "▁20 : 17"):
        assert np.count_nonzero(sketch(model, pieces)) == of_words.block_of(DIM)
    np.testing.assert_array_equal(sketch(model, "▁2017"), sketch(model, "▁20 17"))
    assert sketch(model, "▁2017") @ sketch(model, "▁20") == 0


def test_bytes_and_combining_marks_are_letters(model):
    assert sketch(model, "▁walk <0xC3> <0xC4> ed").any()
    assert SPELT.kind[ID["्"]] == SPELT.kind[ID["क"]] == SPELT.kind[ID["<0xC3>"]] == of_words.LETTERS
    assert sketch(model, "▁walk <0xC3>") @ sketch(model, "▁walk <0xC4>") > 0


def test_of_n_occurrences_of_a_word_some_count(model):
    thinned = WordNgrams(SPELT, model.weights, DIM, True)
    for n, kept in ((1, 1), (2, 1), (3, 2), (7, 2), (8, 3)):
        np.testing.assert_array_equal(sketch(thinned, "▁walk ed " * n), kept * sketch(model, "▁walked"))
    np.testing.assert_array_equal(  # the pieces are repeated, but not the words
        sketch(thinned, "▁walk ed ▁walk ing ▁wal k ed"), sketch(model, "▁walk ed ▁walk ing ▁wal k ed")
    )


@pytest.mark.parametrize(
    "written", [["Ġwalk", "ed", "(", "Ġ("], ["walk", "##ed", "##(", "("]], ids=["byte-level", "WordPiece"]
)
def test_vocabularies_that_write_the_beginning_of_words_otherwise_are_understood(written):
    ours, theirs = of_words.spelling(["▁walk", "ed", "(", "▁("]), of_words.spelling(written)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


# --- Weights ---------------------------------------------------------------------------------------------------------


def test_the_rarer_an_ngram_the_larger_its_weight():
    texts = ["▁walk ed ▁walked", "▁walk ing .", "▁walk", "▁20 17 ▁20 17", "▁2017 ▁a"]
    parts = [ids(text) for text in texts]
    offsets = np.cumsum([0, *map(len, parts)])
    weights = of_words.weights_of(np.concatenate(parts), offsets, SPELT)
    assert weights.dtype == np.uint8
    for ngram, frequency in (("<wal", 3), ("lked", 1), ("<a>", 1), ("ng.>", 1), ("alk>", 1), ("ing>", 1), ("xyz", 0)):
        expected = round(of_words.STEPS * (math.log(6 / (frequency + 1)) + 1))
        assert weights[of_words.bucket(hash_of(ngram))[0]] == expected, ngram
    number = of_words.number(of_words.words(ids("▁2017"), np.array([0, 1]), SPELT).value)
    assert weights[of_words.bucket(number)[0]] == round(of_words.STEPS * (math.log(6 / 3) + 1))


# --- The kernel ------------------------------------------------------------------------------------------------------


def random_texts(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, 0, *rng.integers(0, 40, n)])
    return rng.integers(0, len(PIECES), offsets[-1]).astype(np.int32), offsets


@pytest.mark.parametrize("backend", backends.NAMES)
@pytest.mark.parametrize("sublinear", [False, True])
def test_the_kernels_add_what_is_defined(model, backend, sublinear):
    if backend == "triton":
        pytest.importorskip("triton")
    ngrams = WordNgrams(SPELT, model.weights, DIM, sublinear)
    tokens, offsets = random_texts(1, 300)
    out = np.random.default_rng(2).normal(size=(len(offsets) - 1, 5 + DIM)).astype(np.float32)
    backends.named(backend).word_sums(ngrams, 0.7, "cpu").put(tokens, offsets, out)
    expected = np.array([ngrams.contributions(text).sum(0) for text in np.split(tokens, offsets[1:-1])])
    norms = np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1)
    np.testing.assert_allclose(out[:, 5:], 0.7 * expected / norms, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(out[:, :5], axis=1), 1, rtol=1e-6)


def test_a_text_has_the_same_bits_alone_in_any_batch_and_with_any_threads(model):
    sums = WordSums(WordNgrams(SPELT, model.weights, DIM, True), 1.0)
    tokens, offsets = random_texts(3, 1000)
    start = np.ones((len(offsets) - 1, 2 + DIM), np.float32)
    together = start.copy()
    sums.put(tokens, offsets, together, 2)
    for i in range(0, len(offsets) - 1, 97):
        alone = start[:1].copy()
        text = tokens[offsets[i] : offsets[i + 1]]
        sums.put(text, np.array([0, len(text)]), alone, 1)
        np.testing.assert_array_equal(alone[0], together[i])


@pytest.mark.parametrize("dim", [1, 2, 7, 512])
def test_columns_are_within_the_vector(dim):
    hashes = np.append(np.random.default_rng(0).integers(0, 2**64, 10_000, np.uint64), np.uint64(2**64 - 1))
    columns, signs = of_words.changes(hashes, dim)
    assert columns.min() >= 0
    assert columns.max() < dim
    assert abs(signs.mean()) < 0.05
    if dim <= 7:
        np.testing.assert_allclose(np.bincount(columns) / columns.size, 1 / dim, rtol=0.1)


@pytest.mark.parametrize("dim", [1, 6, 96, 768])
def test_the_rotation_keeps_cosines_and_leaves_no_zeros(dim):
    rng = np.random.default_rng(0)
    rows = rng.integers(-40, 40, (50, dim)) * (rng.random((50, dim)) < 0.1)
    found, block = of_words.rotated(rows), of_words.block_of(dim)
    np.testing.assert_array_equal(found @ found.T, block * (rows @ rows.T))
    if block >= 32:
        assert (found == 0).mean() < (rows == 0).mean() / 4
