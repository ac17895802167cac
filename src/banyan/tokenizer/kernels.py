"""From UTF-8 to pieces in Numba: the kernels of our own tokenizers.

A sentence is read code point by code point. A table with an entry for each code point, filled by calling `tokenizers`,
says what a code point becomes (a character, white space, several characters) and of which kind that is. Characters are
cut into chunks as the tokenizer's pattern CUT does. A chunk that is a single piece is found in a hash table. Any other
chunk is merged (BPE: lowest rank first, leftmost if equal) or split in the most probable way (unigram). If the result
for a code point may depend on its neighbours (canonical reordering or composition), the sentence is left to
`tokenizers`, which is slower but gives the same pieces.

Indices are written U(...) where it matters for speed: for signed indices Numba adds a check for negative values, which
takes a sixth of the time. Numbers are written np.int64(...) where a function would otherwise be compiled once more for
another type. Kernels copy in loops: Numba needs seconds to compile the assignment of one slice to another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.support.compiling import njit
from banyan.tokenizer.tables import (
    CLASS_AT,
    END,
    JOIN_AT,
    KIND_AT,
    LAST_CLASS_AT,
    LETTER,
    LONGEST,
    MANY,
    MANY_AT,
    MARK,
    ORDERED,
    OTHER,
    PAGE,
    SPACE,
    STARTER_AT,
    WHOLE_AT,
    WINDOW,
    Floats,
    Ints,
    Longs,
)

U = np.uint64

# Bit state << 3 | kind: does a character of this kind begin a chunk, given the state after the characters before it?
# White space (now the mark ▁) begins a chunk that includes what follows. A combining MARK joins anything. OTHER after
# OTHER depends on the characters: they stay together if they are the same.
_BEGINS = sum(
    1 << (state << 3 | kind)
    for state in range(MARK)
    for kind in range(MANY)
    if kind == SPACE or (state != SPACE and kind not in (MARK, state))
)

_EMPTY = -1
_NEVER = 2**31 - 1  # the rank of a pair that does not merge
SEED, _SPREAD, _HALF = U(0x243F6A8885A308D3), U(0x9E3779B97F4A7C15), U(32)


class Tables(NamedTuple):
    """Everything the kernels read. Immutable."""

    pages: Ints  # code point // PAGE -> page of `entries`, or -1 if not loaded yet; ASCII comes first
    entries: Longs
    expansions: Longs
    composites: Longs  # hash set of first << 32 | second, for the pairs of code points that compose
    words: Longs  # hash table of the pieces that their own characters are encoded as: see `hash_words`
    spellings: Ints  # the characters of every piece, each terminated by END
    bytes: Ints  # byte -> id
    merges: Longs  # BPE: hash table of left id << 42 | right id << 21 | rank
    merged: Ints  # BPE: rank -> id
    lexicon: Longs  # unigram: hash table of all pieces
    scores: Floats  # unigram: id -> score
    unknown: float  # unigram: score of a character without a piece
    reach: int  # unigram: characters in the longest piece


# Hash tables: open addressing, a power of two of slots, at most half of them used.


@njit(cache=True, nogil=True)
def _fold(hash, slots):
    return np.int64((hash ^ hash >> _HALF) & U(slots - 1))


@njit(cache=True, nogil=True)
def _slot(key, slots):
    return _fold(U(key) * _SPREAD, slots)


@njit(cache=True, nogil=True)
def hash_pairs(keys, slots):
    table = np.full(slots, _EMPTY, np.int64)
    for key in keys:
        slot = _slot(key, slots)
        while table[slot] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot] = key
    return table


@njit(cache=True, nogil=True)
def hash_merges(left, right, slots):
    table = np.full(slots, _EMPTY, np.int64)
    for rank in range(len(left)):
        key = left[rank] << 21 | right[rank]
        slot = _slot(key, slots)
        while table[slot] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot] = key << 21 | rank
    return table


@njit(cache=True, nogil=True)
def hash_words(spellings, starts, sizes, slots):
    """Return [slots, 2]: the hash of a piece, and its position in `spellings` << 32 | id. Empty pieces are skipped."""
    table = np.full((slots, 2), _EMPTY, np.int64)
    for piece in range(len(sizes)):
        if sizes[piece] == 0:
            continue
        key = SEED
        for at in range(starts[piece], starts[piece] + sizes[piece]):
            key = extend(key, spellings[at])
        slot = _fold(key, slots)
        while table[slot, 1] != _EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot, 0] = np.int64(key)
        table[slot, 1] = starts[piece] << 32 | piece
    return table


@njit(cache=True, nogil=True)
def extend(key, value):
    """Return the hash of a chunk extended by one character."""
    return (key ^ U(np.uint32(value))) * _SPREAD


@njit(cache=True, nogil=True)
def find(values, start, stop, key, words, spellings):
    """Return the piece that equals values[start:stop], or -1."""
    size = stop - start
    slot = _fold(key, len(words))
    while words[U(slot), 1] != _EMPTY:
        if words[U(slot), 0] == np.int64(key):
            place = words[U(slot), 1] >> 32
            at = 0
            while at < size and spellings[U(place + at)] == values[U(start + at)]:
                at += 1
            if at == size and spellings[U(place + size)] == END:
                return words[U(slot), 1] & 0xFFFFFFFF
        slot = (slot + 1) & (len(words) - 1)
    return np.int64(-1)


def slots_for(entries: int) -> int:
    return 1 << (2 * entries + 1).bit_length()


# From characters to pieces.


@njit(cache=True, nogil=True)
def _spell(values, start, stop, bytes, symbols, count):
    """Append the pieces of single characters. A character without a piece becomes its UTF-8 bytes."""
    for at in range(start, stop):
        code = -1 - values[U(at)]
        if code < 0:
            symbols[U(count)] = values[U(at)]
        elif code < 0x80:
            symbols[U(count)] = bytes[code]
        else:
            more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
            symbols[U(count)] = bytes[0xF80 >> more & 0xFF | code >> 6 * more]
            for back in range(more - 1, -1, -1):
                count += 1
                symbols[U(count)] = bytes[0x80 | code >> 6 * back & 0x3F]
        count += 1
    return count


@njit(cache=True, nogil=True)
def _rank(left, right, merges):
    key = np.int64(left) << 21 | np.int64(right)
    slot = _slot(key, len(merges))
    while merges[U(slot)] != _EMPTY:
        if merges[U(slot)] >> 21 == key:
            return np.int32(merges[U(slot)] & 0x1FFFFF)
        slot = (slot + 1) & (len(merges) - 1)
    return np.int32(_NEVER)


@njit(cache=True, nogil=True)
def _merge(symbols, size, ranks, merges, merged):
    """Merge pairs in place, lowest rank first, leftmost if equal. Return how many pieces are left."""
    for at in range(size - 1):
        ranks[U(at)] = _rank(symbols[U(at)], symbols[U(at + 1)], merges)
    while size > 1:
        best = 0
        for at in range(1, size - 1):
            if ranks[U(at)] < ranks[U(best)]:
                best = at
        if ranks[U(best)] == _NEVER:
            break
        symbols[U(best)] = merged[U(ranks[U(best)])]
        size -= 1
        for at in range(best + 1, size):
            symbols[U(at)] = symbols[U(at + 1)]
            ranks[U(at - 1)] = ranks[U(at)]
        if best > 0:
            ranks[U(best - 1)] = _rank(symbols[U(best - 1)], symbols[U(best)], merges)
        if best < size - 1:
            ranks[U(best)] = _rank(symbols[U(best)], symbols[U(best + 1)], merges)
    return size


@njit(cache=True, nogil=True)
def _scratch():
    """Work space of _split: for each position in a chunk the best score, its piece and where that begins; ends."""
    places = LONGEST + 1
    return np.empty(places), np.empty(places, np.int32), np.empty(places, np.int32), np.empty(places, np.int32)


@njit(cache=True, nogil=True)
def _split(values, start, stop, tables, symbols, scratch):
    """Write the most probable pieces of a chunk, the first found if equal. Return how many."""
    size = stop - start
    lexicon, spellings, scores, reach = tables.lexicon, tables.spellings, tables.scores, tables.reach
    best, piece, origin, ends = scratch
    best[0] = 0.0
    for end in range(1, size + 1):  # start with single characters, so that every position has an origin
        best[U(end)], piece[U(end)], origin[U(end)] = -np.inf, -1, end - 1
    for at in range(size):
        key = SEED
        known = False
        here = best[U(at)]
        for end in range(at + 1, min(at + reach, size) + 1):
            key = extend(key, values[U(start + end - 1)])
            found = find(values, start + at, start + end, key, lexicon, spellings)
            if found >= 0:
                known |= end == at + 1
                if here + scores[U(found)] > best[U(end)]:
                    best[U(end)], piece[U(end)], origin[U(end)] = here + scores[U(found)], found, at
        if not known and here + tables.unknown > best[U(at + 1)]:
            best[U(at + 1)], piece[U(at + 1)], origin[U(at + 1)] = here + tables.unknown, -1, at
    steps = 0
    end = size
    while end > 0:
        ends[steps] = end
        steps += 1
        end = origin[end]
    count = np.int64(0)
    for end in ends[:steps][::-1]:
        if piece[end] >= 0:
            symbols[count] = piece[end]
            count += 1
        else:
            count = _spell(values, start + origin[end], start + end, tables.bytes, symbols, count)
    return count


@njit(cache=True, nogil=True)
def stand_alone(starts, sizes, tables):
    """Return which pieces their own characters are encoded as."""
    symbols = np.empty(4 * LONGEST, np.int32)
    scratch = _scratch()
    ranks = np.empty(4 * LONGEST, np.int32)
    alone = np.zeros(len(sizes), np.bool_)
    for piece in range(len(sizes)):
        if 0 < sizes[piece] <= LONGEST:
            start, stop = starts[piece], starts[piece] + sizes[piece]
            if len(tables.scores):
                count = _split(tables.spellings, start, stop, tables, symbols, scratch)
            else:
                count = _spell(tables.spellings, start, stop, tables.bytes, symbols, np.int64(0))
                count = _merge(symbols, count, ranks, tables.merges, tables.merged)
            alone[piece] = count == 1 and symbols[0] == piece
    return alone


# From UTF-8 to characters, and to chunks of them.


@njit(cache=True, nogil=True)
def _decode(data, at):
    """Return the code point (above ASCII) whose UTF-8 begins at `at`, and where the next one begins."""
    lead = np.int64(data[U(at)])
    code = np.int64(data[U(at + 1)]) & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | code, at + 2
    code = code << 6 | np.int64(data[U(at + 2)]) & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | code, at + 3
    return (lead & 0x07) << 18 | code << 6 | np.int64(data[U(at + 3)]) & 0x3F, at + 4


@njit(cache=True, nogil=True)
def _may_change(here, code, before, previous, composites):
    """Whether Unicode normalisation may reorder a joining code point, or compose it with the one before."""
    ccc = here >> CLASS_AT & 0xFF
    starter, whole = before >> STARTER_AT & 1, before >> WHOLE_AT & 1
    disorder = ccc != 0 and before >> LAST_CLASS_AT & 0xFF > ccc
    if here >> JOIN_AT & 3 == ORDERED:  # sorted in among the marks of a composed character, it keeps none from it
        return disorder and not (starter and whole)
    if not starter:  # a mark in between blocks the way to the starter, unless its class is lower
        return ccc != 0 and before >> CLASS_AT & 0xFF != ccc
    if disorder or not whole:
        return True
    key = previous << 32 | code
    slot = _slot(key, len(composites))
    while composites[slot] != _EMPTY:
        if composites[slot] == key:
            return True
        slot = (slot + 1) & (len(composites) - 1)
    return False


@njit(cache=True, nogil=True)
def _take(here, values, keys, starts, size, chunks, state, last, key):
    """Append a character without branching. White space after white space is overwritten by what follows."""
    kind = here >> KIND_AT & 7
    value = np.int32(here)
    begins = (_BEGINS >> (state << 3 | kind) & 1) | np.int64((kind == OTHER) & (state == OTHER) & (value != last))
    kept = np.int64((kind | state) != SPACE)
    key = extend(SEED if begins else key, value)
    values[U(size)] = value
    keys[U(size)] = key
    starts[U(chunks)] = size
    return size + kept, chunks + (begins & kept), max(state, LETTER) if kind == MARK else kind, value, key


@njit(cache=True, nogil=True)
def _read(data, at, stop, code, before, tables, window, missing):
    """Normalise and cut until `stop`, or until there are WINDOW characters and a word ends.

    `code` and `before` are the last code point and its entry. Chunk i is values[starts[i] : starts[i + 1]], and keys[j]
    is the hash of its chunk up to character j. Return where reading stopped, the last code point and its entry, the
    number of chunks, and whether the kernels can handle the text.
    """
    values, keys, starts = window
    pages, entries, expansions, composites = tables.pages, tables.entries, tables.expansions, tables.composites
    size, chunks, state, last, key = np.int64(0), np.int64(0), np.int64(OTHER), np.int32(0), SEED
    here = entries[0x20]
    fine = True
    size, chunks, state, last, key = _take(here, values, keys, starts, size, chunks, state, last, key)
    while at < stop and (size < WINDOW or state != SPACE):
        if size > len(values) - 32:  # a word longer than the window; no code point becomes 32 characters
            size = chunks = np.int64(0)
            fine = False
        previous = code
        code = np.int64(data[U(at)])
        if code < 0x80:
            at += 1
            here = entries[U(code)]
        else:
            code, at = _decode(data, at)
            page = np.int64(pages[U(code // PAGE)])
            if page < 0:
                missing[code // PAGE] = True
                fine = False
                continue
            here = entries[U(page * PAGE + code % PAGE)]
            if here >> JOIN_AT & 3 and _may_change(here, code, before, previous, composites):
                fine = False
            if here >> KIND_AT & 7 >= MANY:
                fine &= here >> KIND_AT & 7 == MANY
                before = here
                place = here & 0xFFFFFFFF
                for each in expansions[place : place + (here >> MANY_AT & 31)]:
                    size, chunks, state, last, key = _take(each, values, keys, starts, size, chunks, state, last, key)
                continue
        before = here
        size, chunks, state, last, key = _take(here, values, keys, starts, size, chunks, state, last, key)
    if state == SPACE:
        size -= 1
        chunks -= 1
    starts[chunks] = size
    return at, code, before, chunks, fine


@njit(cache=True, nogil=True)
def _write_merged(window, chunks, tables, symbols, ranks, tokens, written):
    """Append the pieces of the chunks (BPE). Return the number of tokens, or -1 if a chunk or the text is too long."""
    values, keys, starts = window
    words, spellings, bytes = tables.words, tables.spellings, tables.bytes
    merges, merged = tables.merges, tables.merged
    if len(tokens) - written < chunks:
        return -1
    for chunk in range(chunks):
        start, stop = np.int64(starts[U(chunk)]), np.int64(starts[U(chunk + 1)])
        piece = find(values, start, stop, keys[U(stop - 1)], words, spellings)
        if piece >= 0:
            tokens[U(written)] = piece
            written += 1
        elif stop - start > LONGEST or len(tokens) - written < 4 * LONGEST + chunks:
            return -1
        else:
            count = _spell(values, start, stop, bytes, symbols, np.int64(0))
            count = _merge(symbols, count, ranks, merges, merged)
            for at in range(count):
                tokens[U(written + at)] = symbols[U(at)]
            written += count
    return written


@njit(cache=True, nogil=True)
def _write_split(window, chunks, tables, symbols, scratch, tokens, written):
    """The same for unigram. One function for both would be slower for each."""
    values, keys, starts = window
    words, spellings = tables.words, tables.spellings
    if len(tokens) - written < chunks:
        return -1
    for chunk in range(chunks):
        start, stop = np.int64(starts[U(chunk)]), np.int64(starts[U(chunk + 1)])
        piece = find(values, start, stop, keys[U(stop - 1)], words, spellings)
        if piece >= 0:
            tokens[U(written)] = piece
            written += 1
        elif stop - start > LONGEST or len(tokens) - written < 4 * LONGEST + chunks:
            return -1
        else:
            count = _split(values, start, stop, tables, symbols, scratch)
            for at in range(count):
                tokens[U(written + at)] = symbols[U(at)]
            written += count
    return written


@njit(cache=True, nogil=True)
def _copy(window, chunks, tokens, written):
    """Append the code points of each chunk and a line end, for tables without pieces."""
    values, _, starts = window
    if len(tokens) - written < 2 * starts[chunks]:
        return -1
    for chunk in range(chunks):
        for at in range(starts[chunk], starts[chunk + 1]):
            tokens[written] = -1 - values[at]
            written += 1
        tokens[written] = 10
        written += 1
    return written


@njit(cache=True, nogil=True)
def encode(data, lengths, tables, whole, tokens, counts, missing):
    """Encode sentences, stored one after another in `data`, `lengths` bytes each, as pieces (or whole chunks).

    Fill `tokens` and `counts` (-1 for a sentence left to `tokenizers`), mark the pages of the table that are needed but
    not loaded yet, and return how many tokens were written.
    """
    window = np.empty(2 * WINDOW, np.int32), np.empty(2 * WINDOW, np.uint64), np.empty(2 * WINDOW, np.int32)
    symbols = np.empty(4 * LONGEST, np.int32)
    ranks = np.empty(4 * LONGEST, np.int32)
    scratch = _scratch()
    at = np.int64(0)
    written = np.int64(0)
    for sentence in range(len(lengths)):
        stop = at + lengths[sentence]
        begin = written
        code = np.int64(0x20)
        before = tables.entries[0x20]
        fine = True
        while at < stop:
            at, code, before, chunks, read = _read(data, at, stop, code, before, tables, window, missing)
            fine &= read
            if fine and whole:
                written = _copy(window, chunks, tokens, written)
            elif fine and len(tables.scores):
                written = _write_split(window, chunks, tables, symbols, scratch, tokens, written)
            elif fine:
                written = _write_merged(window, chunks, tables, symbols, ranks, tokens, written)
            fine &= written >= 0
        counts[sentence] = written - begin if fine else -1
        written = written if fine else begin
    return written


@njit(cache=True, nogil=True)
def tally(chunks):
    """Return the distinct chunks (code points, each with a line end) in order of first occurrence, and their counts."""
    slots = 1
    while slots < 2 * np.sum(chunks == 10) + 2:
        slots *= 2
    table = np.full(slots, _EMPTY, np.int64)
    distinct = np.empty(len(chunks), np.int32)
    begins = np.empty(slots, np.int64)
    counts = np.zeros(slots, np.int64)
    used = number = start = np.int64(0)
    for stop in np.flatnonzero(chunks == 10):
        key = SEED
        for at in range(start, stop):
            key = extend(key, chunks[at])
        slot = _fold(key, slots)
        while table[slot] != _EMPTY:
            begin = begins[table[slot]]
            at = 0
            while distinct[begin + at] == chunks[start + at] and start + at < stop:
                at += 1
            if distinct[begin + at] == chunks[start + at]:
                break
            slot = (slot + 1) & (slots - 1)
        if table[slot] == _EMPTY:
            table[slot] = number
            begins[number] = used
            distinct[used : used + stop + 1 - start] = chunks[start : stop + 1]
            used += stop + 1 - start
            number += 1
        counts[table[slot]] += 1
        start = stop + 1
    return distinct[:used].copy(), counts[:number].copy()
