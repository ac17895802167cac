"""From UTF-8 to pieces without the interpreter: the kernels behind our own tokenizers.

A sentence is read code point by code point. A table of entries, one per code point and filled by asking `tokenizers`
itself, says what a code point becomes (a character, white space, several characters) and of which kind that is.
Characters are cut into chunks as the tokenizer's pattern cuts them; a chunk that is one piece is found whole in
a hash table, any other is merged, lowest rank first and leftmost among equals. Where a code point's fate may depend on
its neighbours (canonical reordering or composition), the sentence is left to `tokenizers`: slower, never different.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Shorts = NDArray[np.uint16]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

# An entry, from the lowest bit: 32 bits value, 3 kind, 5 how many characters (MANY), 2 join, 1 whole, 1 starter,
# 8 combining class, 8 combining class at the end.
# The value of a character is the id of its piece, or -1 - code point if it has none (then it is spelt in bytes);
# that of MANY is where the entries of its characters begin in `expansions`.
SPACE, LETTER, NUMBER, OTHER, MARK, MANY, ODD = range(7)  # ODD: leave the sentence to `tokenizers`
FREE, ORDERED, COMPOSING = range(3)  # join: how a code point may change with those before it
_KIND, _MANY, _JOIN, _WHOLE, _STARTER, _CLASS, _END = 32, 35, 40, 42, 43, 44, 52

LONGEST = 256  # characters in a chunk; merging is quadratic, so longer ones are left to `tokenizers`
UNKNOWN = 0xFFFF  # stands in a chunk for a character without a piece
_EMPTY = np.int64(-1)
_NEVER = np.int32(2**31 - 1)  # the rank of a pair that does not merge
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
_HALF = np.uint64(32)


class Tables(NamedTuple):
    """All that the kernels read; never changed once made."""

    pages: Ints  # code point // 256 -> page of `entries`, or -1 for one not asked for yet; page 0 is always there
    entries: Longs
    expansions: Longs
    composites: Longs  # hash set of first << 32 | second, for the pairs of code points that compose
    words: Longs  # hash table [slots, 2]: hash, place in `spellings` << 32 | id
    spellings: Words  # the characters of every word, four to a number, 0 after the last
    merges: Longs  # hash table: left id << 42 | right id << 21 | rank
    merged: Ints  # rank -> id
    bytes: Ints  # byte -> id
    mark: np.int64  # entry of the mark that starts a word


def entry(
    value: int, kind: int, *, many: int = 0, join: int = FREE, whole: bool = False, ccc: int = 0, end: int = 0
) -> int:
    bits = kind << _KIND | many << _MANY | join << _JOIN | whole << _WHOLE | (ccc == 0) << _STARTER
    return bits | ccc << _CLASS | end << _END | value & 0xFFFFFFFF


@njit(cache=True, nogil=True)
def _slot(key, slots):
    """Where the search for a key begins in a table whose length is a power of two."""
    spread = np.uint64(key) * _SPREAD
    return np.int64((spread ^ spread >> _HALF) & np.uint64(slots - 1))


@njit(cache=True, nogil=True)
def hash_set(keys, slots):
    table = np.full(slots, _EMPTY)
    for key in keys:
        slot = _slot(key, slots)
        while table[slot] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot] = key
    return table


@njit(cache=True, nogil=True)
def hash_merges(left, right, slots):
    table = np.full(slots, _EMPTY)
    for rank in range(len(left)):
        key = left[rank] << 21 | right[rank]
        slot = _slot(key, slots)
        while table[slot] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot] = key << 21 | rank
    return table


@njit(cache=True, nogil=True)
def _rank(left, right, merges):
    key = np.int64(left) << 21 | np.int64(right)
    slot = _slot(key, len(merges))
    while merges[slot] != _EMPTY:
        if merges[slot] >> 21 == key:
            return np.int32(merges[slot] & 0x1FFFFF)
        slot = (slot + 1) & (len(merges) - 1)
    return _NEVER


@njit(cache=True, nogil=True)
def _merge(symbols, size, ranks, merges, merged):
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
        symbols[best] = merged[ranks[best]]
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
def _spell(chunk, codes, size, bytes, symbols):
    """Characters to the pieces merging starts from: a character without a piece becomes the bytes of its UTF-8."""
    count = 0
    for at in range(size):
        code = codes[at]
        if chunk[at] != UNKNOWN:
            symbols[count] = chunk[at]
        elif code < 0x80:
            symbols[count] = bytes[code]
        else:
            more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
            symbols[count] = bytes[0xF80 >> more & 0xFF | code >> 6 * more]
            for back in range(more - 1, -1, -1):
                count += 1
                symbols[count] = bytes[0x80 | code >> 6 * back & 0x3F]
        count += 1
    return count


@njit(cache=True, nogil=True)
def _hash(numbers, start, stop):
    key = numbers[start] * _SPREAD
    for at in range(start + 1, stop):
        key = (key ^ key >> _HALF ^ numbers[at]) * _SPREAD
    return np.int64(key ^ key >> _HALF)


@njit(cache=True, nogil=True)
def _word(numbers, count, words, spellings):
    """The piece that is the whole chunk, given four characters to a number, or -1."""
    key = _hash(numbers, 0, count)
    slot = key & (len(words) - 1)
    while words[slot, 1] != _EMPTY:
        if words[slot, 0] == key:
            start = words[slot, 1] >> 32
            at = 0
            while at < count and spellings[start + at] == numbers[at]:
                at += 1
            if at == count:
                return words[slot, 1] & 0xFFFFFFFF
        slot = (slot + 1) & (len(words) - 1)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def hash_words(chars, sizes, spellings, starts, bytes, merges, merged, slots):
    """The pieces that their own characters merge to; piece i has sizes[i] characters, spelt from starts[i] on."""
    table = np.full((slots, 2), _EMPTY)
    symbols = np.empty(LONGEST, np.int32)
    ranks = np.empty(LONGEST, np.int32)
    for piece in range(len(sizes)):
        start, size = starts[piece], sizes[piece]
        symbols[:size] = chars[4 * start : 4 * start + size]
        if size == 0 or _merge(symbols, size, ranks, merges, merged) != 1 or symbols[0] != piece:
            continue
        key = _hash(spellings, start, start + (size + 3) // 4)
        slot = key & (slots - 1)
        while table[slot, 1] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot, 0] = key
        table[slot, 1] = start << 32 | piece
    return table


@njit(cache=True, nogil=True)
def _may_change(here, code, before, previous, composites):
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
    slot = _slot(key, len(composites))
    while composites[slot] != _EMPTY:
        if composites[slot] == key:
            return True
        slot = (slot + 1) & (len(composites) - 1)
    return False


@njit(cache=True, nogil=True)
def _decode(data, at):
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
def _put(here, chunk, codes, size):
    value = np.int32(here)
    if value >= 0:
        chunk[size] = value
    else:
        chunk[size] = UNKNOWN
        codes[size] = -1 - value
    return size + 1


@njit(cache=True, nogil=True)
def _finish(chunk, numbers, codes, size, symbols, ranks, tables, tokens, written):
    """Write the pieces of a chunk; how many tokens there are then."""
    for at in range(3):
        chunk[size + at] = 0
    piece = _word(numbers, (size + 3) >> 2, tables.words, tables.spellings)
    if piece >= 0:
        tokens[written] = piece
        return written + 1
    count = _spell(chunk, codes, size, tables.bytes, symbols)
    count = _merge(symbols, count, ranks, tables.merges, tables.merged)
    for at in range(count):
        tokens[written + at] = symbols[at]
    return written + count


@njit(cache=True, nogil=True)
def _sentence(data, at, stop, tables, chunk, numbers, codes, symbols, ranks, tokens, written, missing):
    """Write the pieces of the sentence data[at:stop]; how many tokens there are then, or -1 for an odd sentence."""
    fine = True
    many = place = np.int64(0)
    size = 0
    state = np.int64(SPACE)
    spaced = True
    code = np.int64(0x20)
    before = here = tables.entries[0x20]
    last = np.int32(0)
    while many or at < stop:
        if many:
            here = tables.expansions[place]
            place += 1
            many -= 1
        else:
            previous = code
            code = np.int64(data[at])
            if code < 0x80:
                at += 1
                here = tables.entries[code]
            else:
                code, at = _decode(data, at)
                page = np.int64(tables.pages[code >> 8])
                if page < 0:
                    missing[code >> 8] = True
                    fine = False
                    continue
                here = tables.entries[page << 8 | code & 0xFF]
                if here >> _JOIN & 3 and _may_change(here, code, before, previous, tables.composites):
                    fine = False
            before = here
        kind = here >> _KIND & 7
        if kind >= MANY:
            fine &= kind == MANY
            many = here >> _MANY & 31
            place = here & 0xFFFFFFFF
            continue
        value = np.int32(here)
        if not ((kind == state and (kind != OTHER or value == last)) or (kind == MARK and size)) or kind==SPACE:
            if size:
                if size > LONGEST or len(tokens) - written < 4 * LONGEST:
                    fine = False
                else:
                    written = _finish(chunk, numbers, codes, size, symbols, ranks, tables, tokens, written)
            size = 0
            state = kind
            if kind == SPACE:
                spaced = True
                continue
            if kind == MARK:
                state = np.int64(LETTER)
            if spaced:
                size = _put(tables.mark, chunk, codes, size)
                spaced = False
        last = value
        size = _put(here, chunk, codes, min(size, LONGEST))
    if size > LONGEST or len(tokens) - written < 4 * LONGEST:
        fine = False
    elif size:
        written = _finish(chunk, numbers, codes, size, symbols, ranks, tables, tokens, written)
    return written if fine else -1


@njit(cache=True, nogil=True)
def encode(data, lengths, tables, tokens, counts, missing):
    """Pieces of sentences that lie one after another in `data`, `lengths` bytes each.

    Fills `tokens` and `counts` (-1 for a sentence left to `tokenizers`), marks the pages of the table that were wanted
    but are not there yet, and returns how many tokens were written.
    """
    chunk = np.empty(LONGEST + 4, np.uint16)
    numbers = chunk.view(np.uint64)
    codes = np.empty(LONGEST + 4, np.int32)
    symbols = np.empty(4 * LONGEST, np.int32)
    ranks = np.empty(4 * LONGEST, np.int32)
    at = np.int64(0)
    written = np.int64(0)
    for sentence in range(len(lengths)):
        stop = at + lengths[sentence]
        end = _sentence(data, at, stop, tables, chunk, numbers, codes, symbols, ranks, tokens, written, missing)
        counts[sentence] = end - written if end >= 0 else -1
        written = max(written, end)
        at = stop
    return written


class Fast:
    """One tokenizer's tables, and the encoding of a block of sentences with them.

    `normalize` and `kinds` are calls into `tokenizers`: what a code point becomes, and (for LETTER, NUMBER, MARK and
    SPACE) a text with "_" for each character of that kind. Pages of the table of code points are filled when first
    seen; each filling makes new tables, so that kernels running in other threads go on with the old ones undisturbed.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        merges: Sequence[tuple[str, str]],
        normalize: Callable[[str], str],
        kinds: dict[int, Callable[[str], str]],
    ) -> None:
        ids = self._ids = {piece: id for id, piece in enumerate(pieces)}
        self._normalize = normalize
        self._kinds = kinds
        self._lock = Lock()
        left = np.array([ids[left] for left, _ in merges], np.int64)
        right = np.array([ids[right] for _, right in merges], np.int64)
        merged = np.array([ids[left + right] for left, right in merges], np.int32)
        ranks = hash_merges(left, right, _slots(len(merges)))
        bytes = np.array([ids.get(f"<0x{byte:02X}>", 0) for byte in range(256)], np.int32)
        chars, sizes, starts = self._spellings(pieces)
        spellings = chars.view(np.uint64)
        words = hash_words(chars, sizes, spellings, starts, bytes, ranks, merged, _slots(len(pieces)))
        none = np.empty(0, np.int64)
        pages = np.full(0x1100, -1, np.int32)
        mark = np.int64(entry(self._value("▁"), SPACE))
        self._tables = Tables(pages, none, none, _composites()[0], words, spellings, ranks, merged, bytes, mark)
        self._learn([0])

    def _value(self, character: str) -> int:
        return self._ids.get(character, -1 - ord(character))

    def _spellings(self, pieces: Sequence[str]) -> tuple[Shorts, Longs, Longs]:
        """The characters of all pieces, filled up to multiples of four; how many, and where (in fours).

        A piece that is not made of characters with pieces (a byte) counts none."""
        sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
        codes = np.frombuffer("".join(pieces).encode("utf-32-le"), np.int32)
        used, where = np.unique(codes, return_inverse=True)
        values = np.array([self._value(chr(code)) for code in used.tolist()], np.int64)[where]
        padded = (sizes + 3) // 4
        starts = np.cumsum(padded) - padded
        begins = np.cumsum(sizes) - sizes
        chars = np.zeros(4 * int(padded.sum()), np.uint16)
        chars[np.arange(len(codes)) + np.repeat(4 * starts - begins, sizes)] = np.where(values < 0, 0, values)
        spelt = np.logical_and.reduceat(values >= 0, begins) & (sizes <= LONGEST)
        return chars, np.where(spelt, sizes, 0), starts

    def _learn(self, pages: Iterable[int]) -> None:
        """Fill pages of the table of code points."""
        with self._lock:
            tables = self._tables
            index = tables.pages.copy()
            entries, expansions = tables.entries.tolist(), tables.expansions.tolist()
            for page in pages:
                if index[page] < 0:
                    index[page] = len(entries) >> 8
                    entries += self._page(page, expansions)
            self._tables = tables._replace(
                pages=index, entries=np.array(entries, np.int64), expansions=np.array(expansions, np.int64)
            )

    def _page(self, page: int, expansions: list[int]) -> list[int]:
        if 0xD8 <= page <= 0xDF:  # surrogates are not in UTF-8
            return [entry(0, ODD)] * 256
        codes = [chr(code) for code in range(page << 8, page + 1 << 8)]
        becomes = [self._normalize(code) for code in codes]
        characters = sorted(set("".join(becomes)))
        kind = dict.fromkeys(characters, OTHER)
        for number, replace in self._kinds.items():
            for character, replaced in zip(characters, replace("".join(characters)), strict=True):
                if character != "_" and replaced == "_":
                    kind[character] = number
        return [self._entry(code, text, kind, expansions) for code, text in zip(codes, becomes, strict=True)]

    def _entry(self, code: str, becomes: str, kind: dict[str, int], expansions: list[int]) -> int:
        parts = unicodedata.normalize("NFKD", code)
        ccc = unicodedata.combining(parts[0])
        whole = unicodedata.normalize("NFKC", code) == code
        composing = parts[0] in _composites()[1]
        join = FREE if ccc == 0 and not composing else COMPOSING if composing else ORDERED
        jamo = "\u1161" <= parts[0] <= "\u1175" or "\u11a8" <= parts[0] <= "\u11c2"  # compose by rule, not by table
        if unicodedata.category(code) == "Cn" or jamo or (join != FREE and parts != code) or not becomes:
            return entry(0, ODD)
        end = unicodedata.combining(parts[-1])
        if len(becomes) == 1:
            return entry(self._value(becomes), kind[becomes], join=join, whole=whole, ccc=ccc, end=end)
        place = len(expansions)
        expansions += [entry(self._value(character), kind[character]) for character in becomes]
        return entry(place, MANY, many=len(becomes), join=join, whole=whole, ccc=ccc, end=end)

    def encode(self, texts: Sequence[str]) -> tuple[Ints, Longs]:
        """Tokens of a block, and how many for each text: -1 for those that `tokenizers` has to do."""
        encoded = list(map(str.encode, texts))
        data = np.frombuffer(b"".join(encoded), np.uint8)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        tokens = np.empty(len(data) + len(texts) + 4 * LONGEST, np.int32)
        counts = np.empty(len(texts), np.int64)
        missing = np.zeros(0x1100, np.bool_)
        written = encode(data, lengths, self._tables, tokens, counts, missing)
        if missing.any():
            self._learn(np.flatnonzero(missing).tolist())
            written = encode(data, lengths, self._tables, tokens, counts, missing)
        return tokens[:written].copy(), counts


def _slots(entries: int) -> int:
    """The size of a hash table that is at most half full."""
    return 1 << (2 * entries + 1).bit_length()


@cache
def _composites() -> tuple[Longs, frozenset[str]]:
    """The pairs of code points that compose, as a hash set, and those that come second in one."""
    pairs = []
    for code in range(0xC0, 0x20000):  # the planes above hold ideographs only
        parts = unicodedata.decomposition(chr(code))
        if parts and parts[0] != "<" and " " in parts and unicodedata.is_normalized("NFC", chr(code)):
            first, second = parts.split()
            pairs.append((int(first, 16), int(second, 16)))
    keys = np.array([first << 32 | second for first, second in pairs], np.int64)
    return hash_set(keys, _slots(len(keys))), frozenset(chr(second) for _, second in pairs)
