"""What the head of a classifier sees.

A text gives a dense row, its embedding with every part scaled to length 1, and the n-grams of its pieces, hashed to
buckets and weighted as in TF-IDF. A pair gives |u - v| and u * v of both embeddings, figures of how much the texts
overlap, and the pieces that both texts have, that only one has, and that only the second has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from banyan.encoder import Banyan
from banyan.model.dropout import mix
from banyan.model.graph import runs_of_tokens
from banyan.support.rows import normalize_rows, slices

U = np.uint64
LONGEST = 3  # pieces in an n-gram
OVERLAPS = 17  # figures of a pair
LEAST_DEVIATION = 1e-6  # of such a figure
_MOST_WEIGHTS = 1 << 24  # of the table of n-grams: fewer buckets if there are many classes
_BITS = (12, 18)  # at least and at most, of the number of a bucket
_SHARED, _DIFFERENT, _ADDED = (U(kind) << U(56) for kind in (1, 2, 3))
_BLOCK = 8192  # texts whose features are computed at a time


class Ragged(NamedTuple):
    """Tokenised texts, one after another."""

    tokens: np.ndarray  # int32 [T]
    offsets: np.ndarray  # int64 [n + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def rows(self) -> np.ndarray:
        """The number of the text of each token."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def take(self, rows: np.ndarray) -> Ragged:
        return Ragged(*runs_of_tokens(self.tokens, self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]))

    def cut(self, most: int) -> Ragged:
        """At most this many tokens of each text."""
        return Ragged(*runs_of_tokens(self.tokens, self.offsets[:-1], np.minimum(np.diff(self.offsets), most)))


class Sparse(NamedTuple):
    """Features with a bucket: which text has which bucket, and its value there."""

    row: np.ndarray  # int64 [m]
    bucket: np.ndarray  # int64 [m]
    value: np.ndarray  # float32 [m]


def bits_for(classes: int) -> int:
    """The bits of the number of a bucket."""
    fewest, most = _BITS
    return int(np.clip(int(np.log2(_MOST_WEIGHTS / classes)), fewest, most))


@dataclass(frozen=True)
class Vocabulary:
    """The weights of n-grams and the scale of overlaps, as they are in the texts to learn from."""

    idf: np.ndarray  # float32 [buckets]; 0 for n-grams that at most one text has
    mean: np.ndarray  # float32 [OVERLAPS] of pairs, [0] of single texts
    deviation: np.ndarray
    frequency: np.ndarray  # float32 [V]: the IDF of pieces, for overlaps of pairs; [0] of single texts

    @classmethod
    def of(cls, texts: tuple[Ragged, ...], bits: int, digits: np.ndarray) -> Vocabulary:
        """texts: one column, or two."""
        row, hashes = _hashed(texts)
        n, bucket = len(texts[0]), _bucket(hashes, bits)
        having = np.bincount(np.unique(row << bits | bucket) & (1 << bits) - 1, minlength=1 << bits)
        idf = np.where(having > 1, np.log((n + 1) / (having + 1)) + 1, 0).astype(np.float32)
        if len(texts) == 1:
            none = np.empty(0, np.float32)
            return cls(idf, none, none, none)
        both = [_distinct(texts, len(digits)) for texts in texts]
        counts = sum(np.bincount(keys % len(digits), minlength=len(digits)) for keys in both)
        frequency = (np.log((2 * n + 1) / (counts + 1)) + 1).astype(np.float32)
        found = overlaps(texts, frequency, digits)
        return cls(idf, found.mean(0), found.std(0) + np.float32(LEAST_DEVIATION), frequency)

    @property
    def bits(self) -> int:
        return len(self.idf).bit_length() - 1

    @property
    def of_pairs(self) -> bool:
        return len(self.mean) > 0

    def sparse(self, texts: tuple[Ragged, ...]) -> Sparse:
        """The n-grams of texts, scaled so that those of a text have length 1 together."""
        row, hashes = _hashed(texts)
        return self.scaled(row, hashes, len(texts[0]))

    def scaled(self, row: np.ndarray, hashes: np.ndarray, n: int) -> Sparse:
        bucket = _bucket(hashes, self.bits)
        weight = self.idf[bucket]
        known = weight > 0
        row, bucket, weight = row[known], bucket[known], weight[known]
        norm = np.sqrt(np.bincount(row, weight.astype(np.float64) ** 2, minlength=n))
        return Sparse(row, bucket, (weight / norm[row]).astype(np.float32))

    def overlaps(self, texts: tuple[Ragged, ...], digits: np.ndarray) -> np.ndarray:
        return (overlaps(texts, self.frequency, digits) - self.mean) / self.deviation


def _bucket(hashes: np.ndarray, bits: int) -> np.ndarray:
    return (mix(hashes) >> U(64 - bits)).astype(np.int64)


def _hashed(texts: tuple[Ragged, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Every n-gram of single texts, or every distinct piece of pairs: the text and the hash."""
    if len(texts) == 1:
        row, _, hashes = ngrams(texts[0])
        return row, hashes
    return of_pairs(texts)


def ngrams(texts: Ragged, longest: int = LONGEST) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The n-grams of texts up to a length: the text of each, its first token, and its hash. Ordered by length."""
    own = texts.tokens.astype(U) + U(1)
    text, hashes = texts.rows, own
    found = []
    for n in range(1, longest + 1):
        if n > 1:
            hashes = hashes[:-1] * U(0x9E3779B97F4A7C15) + own[n - 1 :]
        first = np.flatnonzero(text[: len(hashes)] == text[n - 1 :])
        found.append((text[first], first, hashes[first] * U(8) + U(n)))
    row, first, value = (np.concatenate(column) for column in zip(*found, strict=True))
    return row, first, value


def _distinct(texts: Ragged, vocabulary: int) -> np.ndarray:
    """The distinct pieces of each text, as sorted numbers text * vocabulary + piece."""
    return np.unique(texts.rows * vocabulary + texts.tokens)


def of_pairs(texts: tuple[Ragged, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Which pieces both texts of a pair have, only one has, and only the second has."""
    size = int(max(part.tokens.max(initial=0) for part in texts)) + 1
    a, b = (_distinct(part, size) for part in texts)
    kinds = [
        (np.intersect1d(a, b, assume_unique=True), _SHARED),
        (np.setxor1d(a, b, assume_unique=True), _DIFFERENT),
        (np.setdiff1d(b, a, assume_unique=True), _ADDED),
    ]
    keys = np.concatenate([keys for keys, _ in kinds])
    return keys // size, np.concatenate([(keys % size).astype(U) + kind for keys, kind in kinds])


def overlaps(texts: tuple[Ragged, ...], frequency: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """How much the texts of each pair overlap, float32 [n, OVERLAPS]. frequency: the IDF of pieces. digits: which
    pieces are numbers, bool [V]."""
    n, V = len(texts[0]), len(digits)
    columns: list[np.ndarray] = []

    def shares(a: np.ndarray, b: np.ndarray, both: np.ndarray) -> None:
        of_a, of_b = both / np.maximum(a, 1e-9), both / np.maximum(b, 1e-9)
        columns.extend([np.minimum(of_a, of_b), np.maximum(of_a, of_b), of_b - of_a])

    for length in range(1, LONGEST + 1):
        keys = []
        for part in texts:
            row, _, hashes = ngrams(part, length)
            last = hashes % U(8) == U(length)
            keys.append(np.unique(mix(mix(hashes[last]) + row[last].astype(U)) >> U(24) | row[last].astype(U) << U(40)))
        common = np.intersect1d(keys[0], keys[1], assume_unique=True)
        shares(*(np.bincount((part >> U(40)).astype(np.int64), minlength=n) for part in (*keys, common)))
    a, b = (_distinct(part, V) for part in texts)
    different = np.setxor1d(a, b, assume_unique=True)

    def total(keys: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.bincount(keys // V, weight[keys % V], minlength=n)

    shares(*(total(keys, frequency) for keys in (a, b, np.intersect1d(a, b, assume_unique=True))))
    rarest = np.zeros(n)
    np.maximum.at(rarest, different // V, frequency[different % V])
    numbers, of_both = total(different, digits), np.minimum(total(a, digits), total(b, digits))
    sizes = [np.diff(part.offsets) for part in texts]
    columns += [rarest, numbers > 0, np.log1p(numbers), (of_both > 0) & (numbers == 0)]
    columns.append(np.minimum(*sizes) / np.maximum(np.maximum(*sizes), 1))
    return np.stack(columns, 1).astype(np.float32)


@dataclass(frozen=True)
class Features:
    """Computes the features of texts with a model."""

    model: Banyan
    vocabulary: Vocabulary

    @cached_property
    def digits(self) -> np.ndarray:
        return digits_of(self.model)

    @property
    def dense_width(self) -> int:
        return width(self.model, self.vocabulary.of_pairs)

    def tokenised(self, columns: tuple[list[str], ...]) -> tuple[Ragged, ...]:
        return tuple(Ragged(*self.model.tokenizer.encode(texts)) for texts in columns)

    def dense(self, texts: tuple[Ragged, ...]) -> np.ndarray:
        """float32 [n, width]."""
        units = [scaled_parts(self.model, self.model.encode_tokens(*part)) for part in texts]
        if not self.vocabulary.of_pairs:
            return units[0]
        return np.hstack([compared(*units), self.vocabulary.overlaps(texts, self.digits)])

    def blocks(self, texts: tuple[Ragged, ...]) -> list[np.ndarray]:
        return [np.arange(len(texts[0]))[rows] for rows in slices(len(texts[0]), _BLOCK)]


def digits_of(model: Banyan) -> np.ndarray:
    """Which pieces of the vocabulary are numbers, bool [V]."""
    return np.array([any(character.isdigit() for character in piece) for piece in model.tokenizer.pieces], bool)


def width(model: Banyan, of_pairs: bool) -> int:
    return 2 * model.dim + OVERLAPS if of_pairs else model.dim


def scaled_parts(model: Banyan, rows: np.ndarray) -> np.ndarray:
    """Scale each part of embeddings to length 1, in place."""
    for first, end, _ in model.config.parts:
        rows[:, first:end] = normalize_rows(np.ascontiguousarray(rows[:, first:end]))
    return rows


def compared(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.hstack([np.abs(u - v), u * v])
