"""From UTF-8 to pieces without the interpreter: the kernels behind our own BPE tokenizers.

A sentence is read code point by code point. A table of entries, one per code point and filled by asking `tokenizers`
itself, says what a code point becomes (a character's piece, white space, several characters) and of which kind it is.
The characters are cut into chunks as the tokenizer's pattern cuts them; a chunk that is one piece is found whole in
a hash table, any other is merged, lowest rank first and leftmost among equals. Where a code point's fate may depend on
its neighbours (canonical reordering or composition), the sentence is left to `tokenizers`: slower, never different.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# An entry, from the lowest bit: 32 bits value, 3 kind, 5 how many characters (MANY), 2 join, 1 whole, 1 starter,
# 8 combining class, 8 combining class at the end.
# The value of a character is the id of its piece, or -1 - code point if it has none (then it is spelt in bytes);
# that of MANY is where its characters' entries begin in `expansions`.
SPACE, LETTER, NUMBER, OTHER, MARK, MANY, ODD = range(7)  # ODD: leave the sentence to `tokenizers`
FREE, ORDERED, COMPOSING = range(3)  # join: how a code point may change with those before it
_KIND, _MANY, _JOIN, _WHOLE, _STARTER, _CLASS, _END = 32, 35, 40, 42, 43, 44, 52

LONGEST = 256  # characters in a chunk; merging is quadratic, so longer ones are left to `tokenizers`
_EMPTY = np.int64(-1)
_NEVER = np.int64(2**62)  # the rank of a pair that does not merge
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio


class Tables(NamedTuple):
    """All that the kernels read; never changed once made."""

    pages: Ints  # code point // 256 -> page of `entries`, or -1 for one not asked for yet; page 0 is always there
    entries: Longs
    expansions: Longs
    composites: Longs  # hash set of first << 32 | second, for the pairs of code points that compose
    words: Longs  # hash table [slots, 2]: hash, place in `spellings` << 32 | id
    spellings: Ints  # the characters of every word, -1 after each
    merges: Longs  # hash table [slots, 2]: left << 32 | right, rank << 32 | id of the merged piece
    bytes: Ints  # byte -> id
    mark: np.int32  # the character that starts a word


def entry(
    value: int, kind: int, *, many: int = 0, join: int = FREE, whole: bool = False, ccc: int = 0, end: int = 0
) -> int:
    bits = kind << _KIND | many << _MANY | join << _JOIN | whole << _WHOLE | (ccc == 0) << _STARTER
    return bits | ccc << _CLASS | end << _END | value & 0xFFFFFFFF


@njit(cache=True, nogil=True)
def _slot(key: np.int64, table: Longs) -> np.int64:
    """Where the search for a key begins in a table whose length is a power of two."""
    spread = np.uint64(key) * _SPREAD
    return np.int64((spread ^ (spread >> np.uint64(32))) & np.uint64(len(table) - 1))


@njit(cache=True, nogil=True)
def hash_set(keys: Longs, slots: int) -> Longs:
    table = np.full(slots, _EMPTY)
    for key in keys:
        slot = _slot(key, table)
        while table[slot] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot] = key
    return table


@njit(cache=True, nogil=True)
def hash_merges(left: Longs, right: Longs, merged: Longs, slots: int) -> Longs:
    table = np.full((slots, 2), _EMPTY)
    for rank in range(len(left)):
        key = left[rank] << 32 | right[rank]
        slot = _slot(key, table)
        while table[slot, 0] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot, 0] = key
        table[slot, 1] = np.int64(rank) << 32 | merged[rank]
    return table


@njit(cache=True, nogil=True)
def hash_words(spellings: Ints, bytes: Ints, merges: Longs, slots: int) -> Longs:
    """The pieces (spelt in characters, -1 after each, in the order of their ids) that their own characters merge to."""
    table = np.full((slots, 2), _EMPTY)
    symbols = np.empty(4 * LONGEST, np.int32)
    ranks = np.empty(4 * LONGEST, np.int64)
    start = 0
    piece = 0
    for stop in range(len(spellings)):
        if spellings[stop] != -1:
            continue
        if 0 < stop - start <= LONGEST:
            _spell(spellings[start:stop], bytes, symbols)
            size = _merge(symbols, stop - start, ranks, merges)
            if size == 1 and symbols[0] == piece:
                key = _EMPTY
                for at in range(start, stop):
                    key = _extend(key, spellings[at])
                slot = _slot(key, table)
                while table[slot, 1] != _EMPTY:
                    slot = (slot + 1) & (slots - 1)
                table[slot, 0] = key
                table[slot, 1] = np.int64(start) << 32 | np.int64(piece)
        start = stop + 1
        piece += 1
    return table


@njit(cache=True, nogil=True)
def _extend(key: np.int64, value: np.int32) -> np.int64:
    """The hash of a word that is one character longer."""
    return np.int64((np.uint64(key) ^ np.uint64(np.uint32(value))) * _SPREAD)


@njit(cache=True, nogil=True)
def _word(chunk: Ints, size: int, key: np.int64, words: Longs, spellings: Ints) -> np.int64:
    """The piece that is the whole chunk, or -1."""
    slot = _slot(key, words)
    while words[slot, 1] != _EMPTY:
        if words[slot, 0] == key:
            start = words[slot, 1] >> 32
            at = 0
            while at < size and spellings[start + at] == chunk[at]:
                at += 1
            if at == size and spellings[start + size] == -1:
                return words[slot, 1] & 0xFFFFFFFF
        slot = (slot + 1) & (len(words) - 1)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _spell(chunk: Ints, bytes: Ints, symbols: Ints) -> int:
    """Characters to the pieces merging starts from: a character without a piece becomes the bytes of its UTF-8."""
    size = 0
    for value in chunk:
        if value >= 0:
            symbols[size] = value
            size += 1
            continue
        code = -1 - value
        if code < 0x80:
            symbols[size] = bytes[code]
            size += 1
            continue
        following = 1 if code < 0x800 else 2 if code < 0x10000 else 3
        lead = (0xC0, 0xE0, 0xF0)[following - 1]
        symbols[size] = bytes[lead | code >> (6 * following)]
        for at in range(1, following + 1):
            symbols[size + at] = bytes[0x80 | (code >> (6 * (following - at)) & 0x3F)]
        size += following + 1
    return size


@njit(cache=True, nogil=True)
def _rank(left: np.int32, right: np.int32, merges: Longs) -> np.int64:
    key = np.int64(left) << 32 | np.int64(right)
    slot = _slot(key, merges)
    while merges[slot, 0] != _EMPTY:
        if merges[slot, 0] == key:
            return merges[slot, 1]
        slot = (slot + 1) & (len(merges) - 1)
    return _NEVER


@njit(cache=True, nogil=True)
def _merge(symbols: Ints, size: int, ranks: Longs, merges: Longs) -> int:
    """Byte-pair merges in place, lowest rank first, leftmost among equals; how many pieces are left."""
    for at in range(size - 1):
        ranks[at] = _rank(symbols[at], symbols[at + 1], merges)
    while size > 1:
        best = 0
        for at in range(1, size - 1):
            if ranks[at] < ranks[best]:
                best = at
        if ranks[best] == _NEVER:
            break
        symbols[best] = ranks[best] & 0xFFFFFFFF
        size -= 1
        for at in range(best + 1, size):
            symbols[at] = symbols[at + 1]
            ranks[at - 1] = ranks[at]
        if best > 0:
            ranks[best - 1] = _rank(symbols[best - 1], symbols[best], merges)
        if best < size - 1:
            ranks[best] = _rank(symbols[best], symbols[best + 1], merges)
    return size


@njit(cache=True, nogil=True)
def _may_change(here: np.int64, code: np.int64, before: np.int64, previous: np.int64, composites: Longs) -> bool:
    """Whether Unicode normalisation may reorder or compose a joining code point with what stands before it."""
    ccc = here >> _CLASS & 0xFF
    if ccc and before >> _END & 0xFF > ccc:
        return True
    if here >> _JOIN & 3 == ORDERED:
        return False
    if not before >> _STARTER & 1:  # a mark in between blocks the way to the starter, unless its class is lower
        return ccc != 0 and before >> _CLASS & 0xFF != ccc
    if not before >> _WHOLE & 1:
        return True
    key = previous << 32 | code
    slot = _slot(key, composites)
    while composites[slot] != _EMPTY:
        if composites[slot] == key:
            return True
        slot = (slot + 1) & (len(composites) - 1)
    return False


@njit(cache=True, nogil=True)
def _decode(data: NDArray[np.uint8], at: int) -> tuple[np.int64, int]:
    """The code point whose UTF-8 begins at `at` (above ASCII), and where the next one begins."""
    lead = np.int64(data[at])
    code = np.int64(data[at + 1]) & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | code, at + 2
    code = code << 6 | np.int64(data[at + 2]) & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | code, at + 3
    return (lead & 0x07) << 18 | code << 6 | np.int64(data[at + 3]) & 0x3F, at + 4


@njit(cache=True, nogil=True)
def encode(
    data: NDArray[np.uint8], lengths: Longs, tables: Tables, tokens: Ints, counts: Longs, missing: NDArray[np.bool_]
) -> int:
    """Pieces of sentences that lie one after another in `data`, `lengths` code points each.

    Fills `tokens` and `counts` (-1 for a sentence left to `tokenizers`), marks pages of the table that were wanted
    but are not there yet, and returns how many tokens were written.
    """
    chunk = np.empty(LONGEST, np.int32)
    symbols = np.empty(4 * LONGEST, np.int32)
    ranks = np.empty(4 * LONGEST, np.int64)
    blank = tables.entries[0x20]
    at = 0
    written = 0
    for sentence in range(len(lengths)):
        begin = written
        left = lengths[sentence]
        fine = True
        many = np.int64(0)
        place = np.int64(0)
        state = np.int64(SPACE)
        size = 0
        spaced = True
        last = np.int32(-1)
        key = _EMPTY
        code = np.int64(0x20)
        before = blank
        while True:
            if many:
                here = tables.expansions[place]
                place += 1
                many -= 1
                kind = here >> _KIND & 7
            elif left == 0:
                kind = np.int64(SPACE)
                here = blank
            else:
                left -= 1
                previous = code
                code = np.int64(data[at])
                if code < 0x80:
                    at += 1
                    here = tables.entries[code]
                else:
                    code, at = _decode(data, at)
                    page = tables.pages[code >> 8]
                    if page < 0:
                        missing[code >> 8] = True
                        fine = False
                        continue
                    here = tables.entries[np.int64(page) << 8 | code & 0xFF]
                    if here >> _JOIN & 3 and _may_change(here, code, before, previous, tables.composites):
                        fine = False
                before = here
                kind = here >> _KIND & 7
                if kind >= MANY:
                    if kind == ODD:
                        fine = False
                    else:
                        many = here >> _MANY & 31
                        place = here & 0xFFFFFFFF
                    continue
            value = np.int32(here)
            goes_on = kind == state or (kind == MARK and size > 0)
            if kind == OTHER and value != last:
                goes_on = False
            if not goes_on:
                if size:
                    piece = _word(chunk, size, key, tables.words, tables.spellings)
                    if written + 4 * size > len(tokens):
                        fine = False
                    elif piece >= 0:
                        tokens[written] = piece
                        written += 1
                    else:
                        n = _spell(chunk[:size], tables.bytes, symbols)
                        n = _merge(symbols, n, ranks, tables.merges)
                        for k in range(n):
                            tokens[written + k] = symbols[k]
                        written += n
                size = 0
                key = _EMPTY
                if kind == SPACE:
                    spaced = True
                    state = np.int64(SPACE)
                    if left == 0 and many == 0 and here == blank:
                        break
                    continue
                state = kind if kind != MARK else np.int64(LETTER)
                if spaced:
                    chunk[0] = tables.mark
                    key = _extend(key, tables.mark)
                    size = 1
                    spaced = False
            if size == LONGEST:
                fine = False
                size = 1
            chunk[size] = value
            key = _extend(key, value)
            size += 1
            last = value
        if fine:
            counts[sentence] = written - begin
        else:
            counts[sentence] = -1
            written = begin
    return written
