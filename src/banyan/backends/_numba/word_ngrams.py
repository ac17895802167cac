"""The lexical dimensions of embeddings: sketches of the n-grams of whole words (banyan.model.word_ngrams).

The same kernels add up the weights of n-grams, to encode, and list the n-grams, to learn their weights. Where `sums` is
a list [3, N + 1], Numba compiles the branch that lists.
"""

from __future__ import annotations

import numpy as np

from banyan.backends._numba.compiling import inlined, kernel
from banyan.backends._numba.lexical import scale
from banyan.backends._numba.masks import mix
from banyan.backends._numba.repeats import is_in
from banyan.model.graph import KEPT, runs_of_sentences
from banyan.model.word_ngrams import (
    BASE,
    BITS,
    BUCKETS_LOG2,
    COLUMNS,
    DIGITS,
    EMPTY,
    FIRST,
    LAST,
    OF_FOUR,
    OF_NUMBER,
    OTHER,
    THREE,
    Spelling,
    WordNgrams,
    block_of,
)
from banyan.support import threads

U = np.uint64
_BITS, _FULL, _TO_BUCKET = U(BITS), U(2 * BITS), U(64 - BUCKETS_LOG2)
_FIRST, _LAST = U(FIRST), U(LAST)
_0, _1, _2, _31, _32, _33 = (U(x) for x in (0, 1, 2, 31, 32, 33))
_KIND, _BEGINS = np.uint8(3), np.uint8(4)  # the flags of a piece: two bits for its kind, one for `begins`


@inlined
def _change(hash, dim):
    """The column that an n-gram changes, and the sign."""
    bits = hash * COLUMNS
    return (bits >> _33) * U(dim) >> _31, np.int32(bits >> _31 & _2) - np.int32(1)


@inlined
def _add_weight(hash, weight, sums):
    column, sign = _change(hash, len(sums))
    sums[column] += weight * sign


@inlined
def _list(hash, halves, found):
    """Append an n-gram to a list: its column, its bucket, and twice its share of a weight, with the sign. Before them,
    the list has its length, the number of columns, and what to add to all columns."""
    found[0, 0] += 1
    at = found[0, 0]
    column, sign = _change(hash, found[1, 0])
    found[0, at] = found[2, 0] + np.int32(column)
    found[1, at], found[2, at] = hash >> _TO_BUCKET, halves * sign


@inlined
def _add_hash(hash, weights, sums):
    if sums.ndim == 1:
        _add_weight(hash, np.int32(weights[hash >> _TO_BUCKET]), sums)
    else:
        _list(hash, np.int32(2), sums)


@inlined
def _add_three(window, weights, sums):
    if window >> _FULL:
        _add_hash(mix(window), weights, sums)


@inlined
def _add_four(window, character, weights, sums):
    if window >> _FULL:
        _add_hash(mix(window * OF_FOUR + character), weights, sums)


@inlined
def _end_of_word(tokens, at, end, flags):
    """Return the end of the word that begins at a token, its kind and its key."""
    kind = flags[tokens[at]] & _KIND
    key = U(tokens[at] + 1) * BASE
    at += 1
    while at < end and not flags[tokens[at]] & _BEGINS:
        kind = min(kind, flags[tokens[at]] & _KIND)
        key = (key + U(tokens[at] + 1)) * BASE
        at += 1
    return at, kind, key


@inlined
def _occurrence(key, sentence, seen, where):
    """Count an occurrence of a word in a sentence, numbered from 1. seen [slots, 2]: key and count; where: the sentence
    they are of."""
    slot = (key ^ key >> _32) & U(len(where) - 1)
    while where[slot] == sentence and seen[slot, _0] != key:
        slot = (slot + _1) & U(len(where) - 1)
    if where[slot] != sentence:
        where[slot] = sentence
        seen[slot, _0], seen[slot, _1] = key, _0
    seen[slot, _1] += _1
    return np.int64(seen[slot, _1])


@kernel
def _add_number(tokens, first, end, values, factors, weights, sums):
    value = _0
    for at in range(first, end):
        value = value * factors[tokens[at]] + values[tokens[at]]
    hash = mix(value ^ OF_NUMBER)
    if sums.ndim == 1:
        weight = np.int32(weights[hash >> _TO_BUCKET])
        _add_weight(hash, np.int32(weight + weight // np.int32(2)), sums)
    else:
        _list(hash, np.int32(3), sums)


@kernel
def _add_word(tokens, first, end, flags, start, characters, weights, sums):
    word, run = _FIRST, _FIRST  # windows of the last three characters of each
    kind, later, size = np.uint8(EMPTY), False, 0  # of the run: whether it is not the first; its characters so far
    for at in range(first, end):
        token = tokens[at]
        of_piece = flags[token] & _KIND
        if (of_piece != kind or kind == OTHER) and kind != EMPTY:  # a new run
            if kind != OTHER:
                _close(run, weights, sums)
            run, later, size = _FIRST, True, 0
        kind = of_piece
        for place in range(start[token], start[token + 1]):
            character = U(characters[place])
            size += 1
            if kind != OTHER:
                _add_four(run, character, weights, sums)
                run = (run << _BITS | character) & THREE
                _add_three(run, weights, sums)
            if later and size < 4:
                _add_four(word, character, weights, sums)
            word = (word << _BITS | character) & THREE
            if later and size < 3:
                _add_three(word, weights, sums)
    if kind != OTHER:
        _close(run, weights, sums)
    if later and size < 3:
        _add_four(word, _LAST, weights, sums)
    if later and size < 2:
        _add_three((word << _BITS | _LAST) & THREE, weights, sums)


@kernel
def _close(run, weights, sums):
    """Add the n-grams with the closing mark."""
    _add_four(run, _LAST, weights, sums)
    _add_three((run << _BITS | _LAST) & THREE, weights, sums)


@kernel
def _rotate(row, block):
    """The Walsh-Hadamard transform of each block, in place. With unsigned indices, the inner loop is vectorised."""
    columns = U(len(row))
    size = columns // U(block)
    while size < columns:
        start = _0
        while start < columns:
            for i in range(start, start + size):
                a, b = row[i], row[i + size]
                row[i] = a + b
                row[i + size] = a - b
            start += _2 * size
        size *= _2


@kernel
def _room(offsets, first, end):
    """Room for the words of any of the sentences first..end: `seen` and `where` of _occurrence."""
    slots = 2
    for sentence in range(first, end):
        while slots < 2 * (offsets[sentence + 1] - offsets[sentence]):
            slots *= 2
    return np.zeros((slots, 2), np.uint64), np.zeros(slots, np.int64)


@kernel
def _add_sentence(
    tokens, offsets, sentence, flags, start, characters, values, factors, weights, kept, seen, where, sums
):
    at, stop = offsets[sentence], offsets[sentence + 1]
    while at < stop:
        begin = at
        at, kind, key = _end_of_word(tokens, begin, stop, flags)
        if kind >= OTHER:
            continue
        if len(kept) and not is_in(_occurrence(key, sentence + 1, seen, where), kept):
            continue
        if kind == DIGITS:
            _add_number(tokens, begin, at, values, factors, weights, sums)
        else:
            _add_word(tokens, begin, at, flags, start, characters, weights, sums)


@kernel
def _add(
    tokens, offsets, flags, start, characters, values, factors, weights, dim, block, root, kept, norm, first, end, out
):
    """Write the sketches of sentences first..end to the last columns of their rows, and scale both parts."""
    beside = U(out.shape[1] - dim)
    sums, row = np.zeros(dim, np.int32), np.zeros(dim, np.float32)
    seen, where = _room(offsets, first, end)
    for sentence in range(first, end):
        for column in range(U(dim)):
            sums[column] = 0
        _add_sentence(
            tokens, offsets, sentence, flags, start, characters, values, factors, weights, kept, seen, where, sums
        )
        for column in range(U(dim)):
            x = np.float32(sums[column])
            row[column] = np.copysign(np.sqrt(abs(x)), x) if root else x
        _rotate(row, block)
        scale(row, norm)
        for column in range(U(dim)):
            out[sentence, beside + column] = row[column]
        scale(out[sentence, :beside], 1.0)


@kernel
def _list_sentences(tokens, offsets, flags, start, characters, values, factors, kept, dim, first, end):
    """The n-grams of sentences first..end: `listed`."""
    most = 1
    for at in range(offsets[first], offsets[end]):  # a character ends four n-grams at most, and so does each mark
        most += 4 * (start[tokens[at] + 1] - start[tokens[at]] + 2)
    found = np.empty((3, most), np.int32)
    found[0, 0], found[1, 0] = 0, dim
    seen, where = _room(offsets, first, end)
    for sentence in range(first, end):
        found[2, 0] = sentence * dim
        _add_sentence(
            tokens, offsets, sentence, flags, start, characters, values, factors, flags, kept, seen, where, found
        )
    return found[:, 1 : found[0, 0] + 1]


def listed(tokens: np.ndarray, offsets: np.ndarray, spelt: Spelling, dim: int, sublinear_tf: bool) -> np.ndarray:
    """The n-grams of sentences, int32 [3, N]: sentence · dim + column, bucket, and twice the share of a weight that is
    added to the column, with the sign."""
    fixed = tokens, offsets, *_of_pieces(spelt), KEPT if sublinear_tf else KEPT[:0], dim
    return np.hstack(threads.run(_list_sentences, [(*fixed, *run) for run in runs_of_sentences(offsets, 8192)]))


@kernel
def _count_sentences(tokens, offsets, flags, start, characters, values, factors, kept, buckets, first, end):
    """In how many of the sentences first..end each bucket occurs."""
    found = _list_sentences(tokens, offsets, flags, start, characters, values, factors, kept, 1, first, end)
    counts, last = np.zeros(buckets, np.int64), np.full(buckets, -1, np.int32)
    for i in range(found.shape[1]):
        sentence, bucket = found[0, i], found[1, i]  # with one column, the place is the sentence
        if last[bucket] != sentence:
            last[bucket] = sentence
            counts[bucket] += 1
    return counts


def frequencies(tokens: np.ndarray, offsets: np.ndarray, spelt: Spelling, buckets: int) -> np.ndarray:
    """In how many sentences n-grams of each bucket occur, int64 [buckets]."""
    fixed = tokens, offsets, *_of_pieces(spelt), KEPT[:0], buckets
    parts = threads.run(_count_sentences, [(*fixed, *run) for run in runs_of_sentences(offsets, 1 << 16)])
    return np.array(parts, np.int64).reshape(-1, buckets).sum(0)


def _of_pieces(spelt: Spelling) -> tuple[np.ndarray, ...]:
    flags = spelt.kind + _BEGINS * spelt.begins.astype(np.uint8)
    return flags, spelt.start, spelt.characters, spelt.value, spelt.factor


class WordSums:
    """Adds the lexical dimensions to embeddings whose first columns are roots."""

    def __init__(self, ngrams: WordNgrams, norm: float) -> None:
        kept = KEPT if ngrams.sublinear_tf else KEPT[:0]
        rows = ngrams.dim, block_of(ngrams.dim), ngrams.root
        self.fixed = *_of_pieces(ngrams.spelling), ngrams.weights, *rows, kept, norm

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        runs = runs_of_sentences(offsets, 8192)
        threads.run(_add, [(tokens, offsets, *self.fixed, *run, out) for run in runs], n_threads)
