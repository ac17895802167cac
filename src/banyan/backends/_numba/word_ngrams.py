"""The lexical dimensions of embeddings: sketches of the n-grams of whole words (banyan.model.word_ngrams)."""

from __future__ import annotations

import numpy as np

from banyan.backends._numba.compiling import inlined, kernel
from banyan.backends._numba.lexical import scale
from banyan.backends._numba.masks import mix
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
    SPREAD,
    THREE,
    Spelling,
    WordNgrams,
    closing,
)
from banyan.support import threads

U = np.uint64
_BITS, _FULL, _TO_BUCKET, _CHARACTER = U(BITS), U(2 * BITS), U(64 - BUCKETS_LOG2), U((1 << BITS) - 1)
_FIRST, _LAST = U(FIRST), U(LAST)
_0, _1, _2, _14, _15, _16, _32, _15_BITS = (U(x) for x in (0, 1, 2, 14, 15, 16, 32, 0x7FFF))

# What the kernels read of a piece. Its flags, from the lowest bit: two bits for the kind, and one each for `begins`,
# for `closed`, for a row that is not zero, and for more than three characters.
_KIND, _BEGINS, _CLOSED, _HAS_ROW, _LONG = (np.uint8(x) for x in (3, 4, 8, 16, 32))
_WHOLE = np.uint8(_BEGINS | _CLOSED)
# And in words of several pieces, the columns of a table with 64 bytes for each piece.
_HEAD, _TAIL, _VALUE, _FACTOR, _CLOSING_3, _CLOSING_4 = (U(column) for column in range(6))


def packed(spelt: Spelling) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [V], uint64 [V, 8]"""
    has_row = (spelt.kind < OTHER) & (spelt.begins | (spelt.size >= 3))
    bits = spelt.begins, spelt.closed, has_row, spelt.size > 3
    flags = spelt.kind + sum(4 * (bit.astype(np.uint8) << i) for i, bit in enumerate(bits))
    rows = np.zeros((len(spelt.kind), 8), U)
    for place in range(3):
        longer = spelt.size > place
        rows[longer, 0] |= spelt.characters[spelt.start[longer] + place] << U(place * BITS)
    rows[:, 1:4] = np.stack([spelt.tail, spelt.value, spelt.factor], 1)
    rows[:, 4:6] = np.stack(closing(spelt.tail), 1)
    return flags.astype(np.uint8), rows


@kernel
def _add_weight(hash, weight, sums):
    bits = hash * COLUMNS
    bits ^= bits >> _32
    for _ in range(SPREAD):
        column = (bits & _15_BITS) * U(len(sums)) >> _15
        sums[column] += weight * (np.int32(bits >> _14 & _2) - np.int32(1))
        bits >>= _16


@inlined
def _weight(hash, weights):
    return np.int32(weights[hash >> _TO_BUCKET])


@inlined
def _add_three(window, weights, sums):
    if window >> _FULL:
        hash = mix(window)
        _add_weight(hash, _weight(hash, weights), sums)


@inlined
def _add_four(window, character, weights, sums):
    if window >> _FULL:
        hash = mix(window * OF_FOUR + character)
        _add_weight(hash, _weight(hash, weights), sums)


@inlined
def _add_row(token, table, sums):
    for column in range(U(table.shape[1])):
        sums[column] += table[token, column]


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
    """Count an occurrence of a word in a sentence. seen [slots, 2]: key and count; where: the sentence they are of."""
    slot = (key ^ key >> _32) & U(len(where) - 1)
    while where[slot] == sentence and seen[slot, _0] != key:
        slot = (slot + _1) & U(len(where) - 1)
    if where[slot] != sentence:
        where[slot] = sentence
        seen[slot, _0], seen[slot, _1] = key, _0
    seen[slot, _1] += _1
    return np.int64(seen[slot, _1])


@kernel
def _add_number(tokens, first, end, pieces, weights, sums):
    value = _0
    for at in range(first, end):
        value = value * pieces[tokens[at], _FACTOR] + pieces[tokens[at], _VALUE]
    hash = mix(value ^ OF_NUMBER)
    weight = _weight(hash, weights)
    _add_weight(hash, weight + weight // np.int32(2), sums)


@kernel
def _add_word(tokens, first, end, flags, pieces, table, weights, sums):
    """Add the rows of a word's pieces, and the n-grams that they lack."""
    word, run = _FIRST, _FIRST  # the last three characters of each
    kind, closed, later, size = np.uint8(EMPTY), False, False, 0  # of the run: whether it is not the first; characters
    for at in range(first, end):
        token = tokens[at]
        piece = flags[token]
        if (piece & _KIND != kind or kind == OTHER) and kind != EMPTY:  # a new run
            if not closed and kind != OTHER:
                _close(run, weights, sums)
            run, later, size = _FIRST, True, 0
        elif closed:
            _reopen(pieces, tokens[at - 1], weights, sums)
        kind, closed = piece & _KIND, bool(piece & _CLOSED)
        if piece & _HAS_ROW:
            _add_row(token, table, sums)
        if piece & _BEGINS:  # always the first piece
            word = run = pieces[token, _TAIL]
            continue
        characters = pieces[token, _HEAD]
        for place in range(3):
            character = characters & _CHARACTER
            if character == 0:
                break
            size += 1
            if kind != OTHER:
                _add_four(run, character, weights, sums)
                run = (run << _BITS | character) & THREE
                if place < 2:
                    _add_three(run, weights, sums)
            if later and size < 4:
                _add_four(word, character, weights, sums)
            word = (word << _BITS | character) & THREE
            if later and size < 3:
                _add_three(word, weights, sums)
            characters >>= _BITS
        if piece & _LONG:
            word = run = pieces[token, _TAIL]
            size = 4
    if not closed and kind != OTHER:
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
def _reopen(pieces, token, weights, sums):
    """Subtract the n-grams with the closing mark that the row of a piece has."""
    for column in (_CLOSING_3, _CLOSING_4):
        hash = pieces[token, column]
        if hash:
            _add_weight(hash, -_weight(hash, weights), sums)


@kernel
def _add(tokens, offsets, flags, pieces, table, weights, kept, weight, first, end, out):
    """Write the sketches of sentences first..end to the last columns of their rows, and scale both parts."""
    size = U(table.shape[1])
    beside = U(out.shape[1]) - size
    sums = np.zeros(table.shape[1], np.int32)
    slots = 2
    while slots < 2 * np.diff(offsets[first : end + 1]).max():
        slots *= 2
    seen, where = np.zeros((slots, 2), np.uint64), np.full(slots, -1, np.int64)
    for sentence in range(first, end):
        sums[:] = 0
        at, stop = offsets[sentence], offsets[sentence + 1]
        while at < stop:
            begin = at
            at, kind, key = _end_of_word(tokens, begin, stop, flags)
            if kind >= OTHER:
                continue
            if len(kept):
                times = _occurrence(key, sentence, seen, where)
                if times > 1:
                    place = np.searchsorted(kept, times)
                    if place == len(kept) or kept[place] != times:
                        continue
            if kind == DIGITS:
                _add_number(tokens, begin, at, pieces, weights, sums)
            elif at == begin + 1 and flags[tokens[begin]] & _WHOLE == _WHOLE:
                _add_row(tokens[begin], table, sums)  # as in most words
            else:
                _add_word(tokens, begin, at, flags, pieces, table, weights, sums)
        for column in range(size):
            out[sentence, beside + column] = sums[column]
        scale(out[sentence, :beside], 1.0)
        scale(out[sentence, beside:], weight)


class WordSums:
    """Adds the lexical dimensions to embeddings whose first columns are roots."""

    def __init__(self, ngrams: WordNgrams, weight: float) -> None:
        kept = KEPT if ngrams.sublinear_tf else KEPT[:0]
        self.fixed = *packed(ngrams.spelling), ngrams.table, ngrams.weights, kept, weight

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        runs = runs_of_sentences(offsets, 8192)
        threads.run(_add, [(tokens, offsets, *self.fixed, *run, out) for run in runs], n_threads)
