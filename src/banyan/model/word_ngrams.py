"""The character n-grams of whole words, found from tokens alone, and their sketches (lexical_ngrams = "words").

  word     what stands between white space, if it has a letter or a digit; it consists of runs of letters, runs of
           digits, and other characters
  n-gram   three or four characters: of each run between marks, <run>, and of the word between marks, <word>, if they
           reach from one run to the next. A word without letters, such as 7:30 or (1984), is a single n-gram
  weight   log((n + 1) / (df + 1)) + 1, if df of n sentences of the corpus have the n-gram, in steps of 1 / STEPS; half
           as much again for a word without letters
  sketch   an n-gram adds its weight to a column, or subtracts it; its hash chooses column and sign. The sum over the
           n-grams of a text is mostly zeros; a rotation (a Walsh-Hadamard transform of each block of columns) makes
           it dense, so that the signs alone, which binary vectors keep, say as much as they can
  repeats  with sublinear_tf, 1 + ln n of the n occurrences of a word in a text count

Cosines do not depend on the rotation. All sums are of integers, so they are exact in any order. N-grams are hashed when
a text is encoded: a model stores their weights and nothing else. `WordNgrams.contributions` defines the result; the
kernels are tested against it.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from banyan.model.dropout import mix
from banyan.model.graph import KEPT
from banyan.model.shapes import BUCKETS, BUCKETS_LOG2
from banyan.tokenizer.rules import BYTES, START

STEPS = 4
SAMPLE = 30_000  # sentences in which document frequencies are counted
LARGEST_BLOCK = 64  # columns that are rotated together

LETTERS, DIGITS, OTHER, EMPTY = range(4)  # kinds of pieces and words; EMPTY is a lone ▁, part of what follows it
FIRST, LAST = 0x110200, 0x110201  # the marks
_BYTE = 0x110000  # <0x00> .. <0xFF> count as characters
BITS = 21  # of a character; none is 0

U = np.uint64
THREE = U((1 << 3 * BITS) - 1)  # a window of three characters
OF_FOUR, OF_NUMBER = U(0x9E3779B97F4A7C15), U(0xD1B54A32D192ED03)  # tell 4-grams and numbers from 3-grams
COLUMNS = U(0x8CB92BA72F3D8DD7)  # turns a hash into a column and a sign
BASE = U(0xD6E8FEB86659FD93)  # of the polynomials that tell words apart


# --- Pieces ----------------------------------------------------------------------------------------------------------


class Spelling(NamedTuple):
    """How the pieces of a vocabulary are spelt."""

    begins: np.ndarray  # bool [V]: whether a word begins with the piece
    kind: np.ndarray  # uint8 [V]
    characters: np.ndarray  # uint32: of all pieces
    start: np.ndarray  # int64 [V + 1]: of each piece in `characters`, and the end
    value: np.ndarray  # uint64 [V]: a polynomial of the characters
    factor: np.ndarray  # uint64 [V]: BASE ** size

    @property
    def size(self) -> np.ndarray:
        """int64 [V]: the number of characters."""
        return np.diff(self.start)


def spelling(pieces: Sequence[str]) -> Spelling:
    pieces = _with_start(pieces)
    size = np.fromiter(map(len, pieces), np.int64, len(pieces))
    codes = np.frombuffer("".join(pieces).encode("utf-32-le", "surrogatepass"), np.uint32)
    head = np.cumsum(size) - size
    some = size > 0
    begins = np.zeros(len(pieces), np.bool_)
    begins[some] = codes[head[some]] == ord(START)
    byte = {piece: number for number, piece in enumerate(BYTES)}
    numbers = {i: byte[pieces[i]] for i in np.flatnonzero(size == len(BYTES[0])).tolist() if pieces[i] in byte}
    kept = np.ones(len(codes), np.bool_)
    kept[head[begins]] = False
    for i in numbers:  # one character
        kept[head[i] + 1 : head[i] + size[i]] = False
    codes = codes[kept]
    size -= begins
    size[[*numbers]] = 1
    start = np.append(0, np.cumsum(size))
    codes[start[[*numbers]]] = [_BYTE + number for number in numbers.values()]
    kind = _kinds(codes, size, start)
    codes += np.uint32(1)
    value, factor = (np.full(len(pieces), fill, U) for fill in (0, 1))
    longer, place = np.arange(len(pieces)), 0
    while len(longer := longer[size[longer] > place]):
        value[longer] = value[longer] * BASE + codes[start[longer] + place]
        factor[longer] *= BASE
        place += 1
    return Spelling(begins, kind, codes, start, value, factor)


def _with_start(pieces: Sequence[str]) -> Sequence[str]:
    """The pieces with ▁ where a word begins, also for vocabularies that write it Ġ, or ## where none begins."""
    heads = {piece[:1] for piece in pieces}
    if "#" in heads and START not in heads and any(piece.startswith("##") for piece in pieces):
        return [piece[2:] if piece.startswith("##") else START + piece for piece in pieces]
    if "Ġ" in heads:
        return [START + piece[1:] if piece.startswith("Ġ") else piece for piece in pieces]
    return pieces


def _kinds(codes: np.ndarray, size: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The kind of each piece: LETTERS if it has a letter, else DIGITS if it has a digit."""
    of_code = np.zeros(int(codes.max(initial=0)) + 1, np.uint8)
    of_code[codes] = 1
    used = np.flatnonzero(of_code)
    of_code[used] = [_kind(code) for code in used.tolist()]
    found = np.full(len(size), EMPTY, np.uint8)
    if len(codes):
        found[size > 0] = np.minimum.reduceat(of_code[codes], start[:-1][size > 0])
    return found


def _kind(code: int) -> int:
    """Combining marks, joiners and bytes count as letters."""
    if code >= _BYTE or chr(code) in "\u200c\u200d":
        return LETTERS
    return {"L": LETTERS, "M": LETTERS, "N": DIGITS}.get(unicodedata.category(chr(code))[0], OTHER)


# --- Words -----------------------------------------------------------------------------------------------------------


class Words(NamedTuple):
    """The words of tokenised texts, and what else stands between white space, with the kind OTHER."""

    first: np.ndarray  # int64 [W]: the first token
    end: np.ndarray  # int64 [W]: the token after the last
    kind: np.ndarray  # uint8 [W]: LETTERS if it has any, else DIGITS if it has any
    key: np.ndarray  # uint64 [W]: equal if the pieces are
    value: np.ndarray  # uint64 [W]: equal if the characters are


def words(tokens: np.ndarray, offsets: np.ndarray, spelt: Spelling) -> Words:
    begins = spelt.begins[tokens]
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    first = np.flatnonzero(begins)
    end = np.append(first[1:], len(tokens))[: len(first)]
    kind = np.minimum.reduceat(spelt.kind[tokens], first) if len(first) else np.empty(0, np.uint8)
    key, value = np.zeros((2, len(first)), U)
    for place in range((end - first).max(initial=0)):
        longer = end - first > place
        piece = tokens[first[longer] + place]
        key[longer] = (key[longer] + (piece + 1).astype(U)) * BASE
        value[longer] = value[longer] * spelt.factor[piece] + spelt.value[piece]
    return Words(first, end, kind, key, value)


class Ngrams(NamedTuple):
    hash: np.ndarray  # uint64 [N]
    word: np.ndarray  # int64 [N]: the number of the word
    token: np.ndarray  # int64 [N]: the token with the last character


def ngrams(tokens: np.ndarray, found: Words, spelt: Spelling) -> Ngrams:
    """The n-grams of words with letters."""
    chosen = np.flatnonzero(found.kind == LETTERS)
    sizes = found.end[chosen] - found.first[chosen]
    token = np.repeat(found.first[chosen] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    word, pieces = np.repeat(chosen, sizes), tokens[token]
    opens, closes = token == found.first[word], token == found.end[word] - 1
    kind = spelt.kind[pieces]
    starts = opens.copy()  # where runs start; an OTHER piece is always a run of its own
    starts[1:] |= ((kind[1:] != kind[:-1]) | (kind[1:] == OTHER)) & (kind[:-1] != EMPTY)
    run, ends = np.cumsum(starts), np.append(starts[1:], True)[: len(starts)]

    characters, size = _spell_out(pieces, opens, closes, spelt)
    hashes, first, last = _of(characters, np.repeat(word, size))
    spans = np.repeat(run, size)[first] != np.repeat(run, size)[last]
    at = np.repeat(np.arange(len(token)), size)[last[spans]]
    between = Ngrams(hashes[spans], word[at], token[at])

    solid = np.flatnonzero(kind != OTHER)
    characters, size = _spell_out(pieces[solid], starts[solid], ends[solid], spelt)
    hashes, _, last = _of(characters, np.repeat(run[solid], size))
    at = np.repeat(solid, size)[last]
    inside = Ngrams(hashes, word[at], token[at])
    return Ngrams(*map(np.concatenate, zip(inside, between, strict=True)))


def _spell_out(
    pieces: np.ndarray, opens: np.ndarray, closes: np.ndarray, spelt: Spelling
) -> tuple[np.ndarray, np.ndarray]:
    """The characters of pieces one after another, with FIRST before those that open and LAST after those that close.
    And the number of characters of each piece, with marks."""
    size = spelt.size[pieces]
    lengths = size + opens + closes
    at = np.cumsum(lengths) - lengths
    characters = np.empty(lengths.sum(), U)
    characters[at[opens]] = FIRST
    characters[(at + lengths - 1)[closes]] = LAST
    within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    characters[np.repeat(at + opens, size) + within] = spelt.characters[np.repeat(spelt.start[pieces], size) + within]
    return characters, lengths


def _of(characters: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The hashes of the n-grams whose characters are all `of` the same, and where their first and last characters
    are."""
    hashes, first, last = [], [], []
    for n in (3, 4):
        start = np.arange(max(len(characters) - n + 1, 0))
        start = start[of[start] == of[start + n - 1]]
        window = characters[start] << U(2 * BITS) | characters[start + 1] << U(BITS) | characters[start + 2]
        hashes.append(mix(window if n == 3 else window * OF_FOUR + characters[start + 3]))
        first.append(start)
        last.append(start + n - 1)
    return np.concatenate(hashes), np.concatenate(first), np.concatenate(last)


def number(value: np.ndarray) -> np.ndarray:
    """The hash of a word without letters."""
    return mix(value ^ OF_NUMBER)


# --- Sketches --------------------------------------------------------------------------------------------------------


def changes(hashes: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The column that each n-gram changes, and the sign: the first 31 bits choose a column, and the next one the
    sign."""
    bits = hashes * COLUMNS
    return ((bits >> U(33)) * U(dim) >> U(31)).astype(np.int64), (bits >> U(32) & U(1)).astype(np.int64) * 2 - 1


def bucket(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> U(64 - BUCKETS_LOG2)).astype(np.int64)


def block_of(dim: int) -> int:
    """The number of columns that are rotated together: the largest power of two that divides `dim`, within limits."""
    return min(dim & -dim, LARGEST_BLOCK)


def rotated(rows: np.ndarray) -> np.ndarray:
    """The Walsh-Hadamard transform of each block of columns [n, D]. A block has every (D / block)-th column."""
    n, dim = rows.shape
    size = dim // block_of(dim)
    while size < dim:
        pairs = rows.reshape(n, dim // (2 * size), 2, size)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(n, dim)
        size *= 2
    return rows


@dataclass(frozen=True)
class WordNgrams:
    """What computes the sketch of a text from its tokens."""

    spelling: Spelling
    weights: np.ndarray  # uint8 [BUCKETS]
    dim: int
    sublinear_tf: bool

    def contributions(self, tokens: np.ndarray, offsets: np.ndarray | None = None) -> np.ndarray:
        """The sketches of texts as sums over their tokens, int64 [T, D]. An n-gram belongs to its last token. The norms
        are those before the rotation, times the square root of the size of a block.

        offsets: of the texts in `tokens` (default: they are one text)."""
        offsets = np.array([0, len(tokens)]) if offsets is None else offsets
        found = words(tokens, offsets, self.spelling)
        counts = self._counts(found, offsets)
        out = np.zeros((len(tokens), self.dim), np.int64)
        these = ngrams(tokens, found, self.spelling)
        counted = counts[these.word]
        self._add(out, these.token[counted], these.hash[counted], 1)
        numbers = counts & (found.kind == DIGITS)
        self._add(out, found.end[numbers] - 1, number(found.value[numbers]), 1.5)
        return rotated(out)

    def _counts(self, found: Words, offsets: np.ndarray) -> np.ndarray:
        """Which words count: the k-th occurrence of a word in a text does if k is in KEPT."""
        if not self.sublinear_tf:
            return np.ones(len(found.key), np.bool_)
        times: Counter[tuple[int, int]] = Counter()
        occurrence = []
        for word in zip(np.searchsorted(offsets, found.first, "right").tolist(), found.key.tolist(), strict=True):
            times[word] += 1
            occurrence.append(times[word])
        return np.isin(occurrence, KEPT)

    def _add(self, out: np.ndarray, rows: np.ndarray, hashes: np.ndarray, times: float) -> None:
        columns, signs = changes(hashes, self.dim)
        weights = np.floor(self.weights[bucket(hashes)].astype(np.float64) * times).astype(np.int64)
        np.add.at(out, (rows, columns), signs * weights)


# --- From a corpus ---------------------------------------------------------------------------------------------------


def weights_of(tokens: np.ndarray, offsets: np.ndarray, spelt: Spelling) -> np.ndarray:
    """The weights of n-grams, from the first sentences of a corpus: uint8 [BUCKETS]."""
    from banyan.backends._numba.word_ngrams import frequencies

    n = min(SAMPLE, len(offsets) - 1)
    frequency = frequencies(tokens[: offsets[n]], offsets[: n + 1], spelt, BUCKETS)
    return np.rint(STEPS * (np.log((n + 1) / (frequency + 1)) + 1)).astype(np.uint8)
