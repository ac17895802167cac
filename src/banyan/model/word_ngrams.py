"""The character n-grams of whole words, found from tokens alone, and their sketches (lexical_ngrams = "words").

  word     what stands between white space, if it has a letter or a digit; it consists of runs of letters, runs of
           digits, and other characters
  n-gram   three or four characters: of each run between marks, <run>, and of the word between marks, <word>, if they
           reach from one run to the next. A word without letters, such as 7:30 or (1984), is a single n-gram
  weight   log((n + 1) / (df + 1)) + 1, if df of n sentences of the corpus have the n-gram, in steps of 1 / STEPS; half
           as much again for a word without letters
  sketch   an n-gram adds its weight to SPREAD columns, or subtracts it. Its hash chooses the columns and the signs
  repeats  with sublinear_tf, 1 + ln n of the n occurrences of a word in a text count

A text's sketch is the sum over its n-grams. It has only integers, so the sum is exact in any order.

The n-grams inside a piece are always the same. Their sum is the piece's row in a table of int8, computed in training.
If the piece begins a word, or has three characters, its row has the n-grams with the closing mark, too: mostly, the run
ends there. Only the others are hashed when a text is encoded: the n-grams that cross from one piece to the next, and
those with a mark that the rows lack, or have although the run goes on. `WordNgrams.contributions` defines the result;
the kernels are tested against it.
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
from banyan.support.needs import needs
from banyan.tokenizer.rules import BYTES, START

SPREAD = 4
STEPS = 4
BUCKETS_LOG2 = 18
BUCKETS = 1 << BUCKETS_LOG2  # weights; the first bits of an n-gram's hash find its own
SAMPLE = 30_000  # sentences in which document frequencies are counted

LETTERS, DIGITS, OTHER, EMPTY = range(4)  # kinds of pieces and words; EMPTY is a lone ▁, part of what follows it
FIRST, LAST = 0x110200, 0x110201  # the marks
_BYTE = 0x110000  # <0x00> .. <0xFF> count as characters
BITS = 21  # of a character; none is 0

U = np.uint64
THREE = U((1 << 3 * BITS) - 1)  # a window of three characters
OF_FOUR, OF_NUMBER = U(0x9E3779B97F4A7C15), U(0xD1B54A32D192ED03)  # tell 4-grams and numbers from 3-grams
COLUMNS = U(0x8CB92BA72F3D8DD7)  # turns a hash into columns and signs
BASE = U(0xD6E8FEB86659FD93)  # of the polynomials that tell words apart


# --- Pieces ----------------------------------------------------------------------------------------------------------


class Spelling(NamedTuple):
    """How the pieces of a vocabulary are spelt."""

    begins: np.ndarray  # bool [V]: whether a word begins with the piece
    kind: np.ndarray  # uint8 [V]
    characters: np.ndarray  # uint64: of all pieces
    start: np.ndarray  # int64 [V]: of each piece in `characters`
    size: np.ndarray  # int64 [V]
    tail: np.ndarray  # uint64 [V]: a window of the last three characters; FIRST precedes what begins a word
    closed: np.ndarray  # bool [V]: whether the piece's row has the n-grams with LAST
    value: np.ndarray  # uint64 [V]: a polynomial of the characters
    factor: np.ndarray  # uint64 [V]: BASE ** size


def spelling(pieces: Sequence[str]) -> Spelling:
    marked = _with_start(pieces)
    begins = np.fromiter((piece.startswith(START) for piece in marked), np.bool_, len(marked))
    byte = {piece: number for number, piece in enumerate(BYTES)}
    bare = ["\0" if piece in byte else piece.removeprefix(START) for piece in marked]
    size = np.fromiter(map(len, bare), np.int64, len(bare))
    start = np.cumsum(size) - size
    codes = np.frombuffer("".join(bare).encode("utf-32-le", "surrogatepass"), np.uint32).astype(U)
    for i, piece in enumerate(marked):
        if piece in byte:
            codes[start[i]] = _BYTE + byte[piece]
    kind = _kinds(codes, size)
    codes += U(1)
    tail, value, factor = (np.full(len(bare), fill, U) for fill in (0, 0, 1))
    for back in (3, 2, 1):
        there = size >= back
        tail = tail << U(BITS) | np.where(begins & (size == back - 1), U(FIRST), U(0))
        tail[there] |= codes[(start + size - back)[there]]
    for place in range(size.max(initial=0)):
        longer = size > place
        value[longer] = value[longer] * BASE + codes[start[longer] + place]
        factor[longer] *= BASE
    closed = (kind < OTHER) & (begins | (size >= 3))
    return Spelling(begins, kind, codes, start, size, tail, closed, value, factor)


def _with_start(pieces: Sequence[str]) -> list[str]:
    """The pieces with ▁ where a word begins, also for vocabularies that write it Ġ, or ## where none begins."""
    if any(piece.startswith("##") for piece in pieces) and not any(piece.startswith(START) for piece in pieces):
        return [piece[2:] if piece.startswith("##") else START + piece for piece in pieces]
    return [START + piece[1:] if piece.startswith("Ġ") else piece for piece in pieces]


def _kinds(codes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The kind of each piece: LETTERS if it has a letter, else DIGITS if it has a digit."""
    used, where = np.unique(codes, return_inverse=True)
    kinds = np.array([_kind(code) for code in used.tolist()], np.uint8)[where]
    found = np.where(size > 0, OTHER, EMPTY).astype(np.uint8)
    np.minimum.at(found, np.repeat(np.arange(len(size)), size), kinds)
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
    in_row: np.ndarray  # bool [N]: whether the row of that token's piece has it


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

    in_words, size = _spell_out(pieces, opens, closes, spelt)
    hashes, first, last = _of(in_words, np.repeat(word, size))
    spans = np.repeat(run, size)[first] != np.repeat(run, size)[last]
    at = np.repeat(np.arange(len(token)), size)[last[spans]]
    between = Ngrams(hashes[spans], word[at], token[at], np.zeros(len(at), np.bool_))

    solid = np.flatnonzero(kind != OTHER)
    in_runs, size = _spell_out(pieces[solid], starts[solid], ends[solid], spelt)
    hashes, first, last = _of(in_runs, np.repeat(run[solid], size))
    at = np.repeat(solid, size)
    no_row = (in_runs == FIRST) & ~spelt.begins[pieces[at]] | (in_runs == LAST) & ~spelt.closed[pieces[at]]
    in_row = (at[first] == at[last]) & ~no_row[first] & ~no_row[last]
    inside = Ngrams(hashes, word[at[last]], token[at[last]], in_row)
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


def closing(tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of the 3-gram and the 4-gram with LAST of runs that end in these windows; 0 if there is none."""
    three = (tail << U(BITS) | U(LAST)) & THREE
    has_three, has_four = three >> U(2 * BITS) > 0, tail >> U(2 * BITS) > 0
    return mix(three) * has_three, mix(tail * OF_FOUR + U(LAST)) * has_four


def number(value: np.ndarray) -> np.ndarray:
    """The hash of a word without letters."""
    return mix(value ^ OF_NUMBER)


# --- Sketches --------------------------------------------------------------------------------------------------------


def changes(hashes: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that n-grams change, and the signs [n, SPREAD]: 15 bits choose a column, and one bit the sign."""
    bits = hashes * COLUMNS
    bits ^= bits >> U(32)
    parts = np.stack([bits >> U(16 * i) & U(0xFFFF) for i in range(SPREAD)], 1).astype(np.int64)
    return (parts & 0x7FFF) * dim >> 15, (parts >> 15) * 2 - 1


def bucket(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> U(64 - BUCKETS_LOG2)).astype(np.int64)


@dataclass(frozen=True)
class WordNgrams:
    """What computes the sketch of a text from its tokens."""

    spelling: Spelling
    table: np.ndarray  # int8 [V, D]: a row for each piece
    weights: np.ndarray  # uint8 [BUCKETS]
    sublinear_tf: bool

    def contributions(self, tokens: np.ndarray) -> np.ndarray:
        """The sketch of one text as a sum over its tokens, int64 [T, D]. An n-gram belongs to its last token."""
        out = np.zeros((len(tokens), self.table.shape[1]), np.int64)
        spelt, kind = self.spelling, self.spelling.kind[tokens]
        found = words(tokens, np.array([0, len(tokens)]), spelt)
        counts = self._counts(found)

        has_row = np.repeat(counts & (found.kind == LETTERS), found.end - found.first) & (kind != OTHER)
        out[has_row] = self.table[tokens[has_row]]
        goes_on = has_row[:-1] & (kind[1:] == kind[:-1]) & ~spelt.begins[tokens[1:]] & spelt.closed[tokens[:-1]]
        goes_on = np.flatnonzero(goes_on)
        for hashes in closing(spelt.tail[tokens[goes_on]]):
            self._add(out, goes_on[hashes > 0], hashes[hashes > 0], -1)

        these = ngrams(tokens, found, spelt)
        hashed = counts[these.word] & ~these.in_row
        self._add(out, these.token[hashed], these.hash[hashed], 1)

        numbers = counts & (found.kind == DIGITS)
        self._add(out, found.end[numbers] - 1, number(found.value[numbers]), 1.5)
        return out

    def _counts(self, found: Words) -> np.ndarray:
        """Which words count: the k-th occurrence of a word does if k is in KEPT."""
        times: Counter[int] = Counter()
        occurrence = []
        for key in found.key.tolist():
            times[key] += 1
            occurrence.append(times[key])
        return np.isin(occurrence, KEPT) if self.sublinear_tf else np.ones(len(found.key), np.bool_)

    def _add(self, out: np.ndarray, rows: np.ndarray, hashes: np.ndarray, times: float) -> None:
        columns, signs = changes(hashes, out.shape[1])
        weights = np.floor(self.weights[bucket(hashes)].astype(np.float64) * times).astype(np.int64)
        np.add.at(out, (rows[:, None], columns), signs * weights[:, None])


# --- From a corpus ---------------------------------------------------------------------------------------------------


def weights_of(tokens: np.ndarray, offsets: np.ndarray, spelt: Spelling) -> np.ndarray:
    """The weights of n-grams, from the first sentences of a corpus: uint8 [BUCKETS]."""
    with needs("Training", "train"):
        from scipy.sparse import csr_matrix

    n = min(SAMPLE, len(offsets) - 1)
    found = words(tokens[: offsets[n]], offsets[: n + 1], spelt)
    _, chosen, word = np.unique(found.key, return_index=True, return_inverse=True)
    distinct = Words(*(of_words[chosen] for of_words in found))
    these = ngrams(tokens, distinct, spelt)
    numbers = np.flatnonzero(distinct.kind == DIGITS)
    ids = np.append(these.word, numbers), bucket(np.append(these.hash, number(distinct.value[numbers])))
    having = csr_matrix((np.ones(len(ids[0]), np.float32), ids), (len(chosen), BUCKETS))
    ends = np.searchsorted(found.first, offsets[: n + 1])
    sentences = csr_matrix((np.ones(len(word), np.float32), word, ends), (n, len(chosen)))
    frequency = np.bincount((sentences @ having).indices, minlength=BUCKETS)
    return np.rint(STEPS * (np.log((n + 1) / (frequency + 1)) + 1)).astype(np.uint8)


def table_of(spelt: Spelling, weights: np.ndarray, dim: int) -> np.ndarray:
    """The rows of pieces, int8 [V, dim]. Values beyond ±127 are clipped."""
    pieces = np.flatnonzero(spelt.kind < OTHER)
    characters, size = _spell_out(pieces, spelt.begins[pieces], spelt.closed[pieces], spelt)
    piece = np.repeat(pieces, size)
    hashes, first, _ = _of(characters, piece)
    columns, signs = changes(hashes, dim)
    sums = np.zeros((len(spelt.kind), dim), np.int16)
    np.add.at(sums, (piece[first][:, None], columns), (signs * weights[bucket(hashes), None]).astype(np.int16))
    return sums.clip(-127, 127).astype(np.int8)
