"""The lookup tables of one of our own tokenizers for the kernels, filled by calling `tokenizers`."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from threading import Lock

import numpy as np

from banyan.tokenizer.kernels import (
    COMPOSING,
    FREE,
    LONGEST,
    MANY,
    ODD,
    ORDERED,
    OTHER,
    PAGE,
    SPACE,
    WINDOW,
    Ints,
    Longs,
    Tables,
    encode,
    entry,
    hash_merges,
    hash_pairs,
    hash_words,
    slots_for,
    spell_out,
    stand_alone,
)

_UNKNOWN = -10.0  # `tokenizers` gives an unknown character the lowest score minus ten


class Fast:
    """The tables of one tokenizer; encodes blocks of sentences with them.

    `normalize` and `kinds` call `tokenizers`: the former returns what a code point becomes, the latter (for LETTER,
    NUMBER, MARK and SPACE) replace each character of that kind by "_". Pages of the table of code points are loaded
    when first needed. Loading makes new tables, so kernels in other threads keep using the old ones.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        normalize: Callable[[str], str],
        kinds: dict[int, Callable[[str], str]],
        merges: Sequence[tuple[str, str]] = (),
        scores: Sequence[float] = (),
    ) -> None:
        ids = self._ids = {piece: id for id, piece in enumerate(pieces)}
        self._normalize = normalize
        self._kinds = kinds
        self._lock = Lock()
        left = np.array([ids[left] for left, _ in merges], np.int64)
        right = np.array([ids[right] for _, right in merges], np.int64)
        spellings, starts, sizes = spell_out(pieces, self._value)
        slots = slots_for(len(pieces))
        none = np.empty(0, np.int64)
        tables = Tables(
            pages=np.full(0x110000 // PAGE, -1, np.int32),
            entries=none,
            expansions=none,
            composites=_composites()[0],
            words=np.empty((0, 2), np.int64),
            spellings=spellings,
            bytes=np.array([ids.get(f"<0x{byte:02X}>", 0) for byte in range(256)], np.int32),
            merges=hash_merges(left, right, slots_for(len(left))),
            merged=np.array([ids[left + right] for left, right in merges], np.int32),
            lexicon=hash_words(spellings, starts, sizes[: len(scores)], slots_for(len(scores))),
            scores=np.array(scores, np.float64),
            unknown=min(scores, default=0.0) + _UNKNOWN,
            reach=int(sizes.max(initial=0)),
        )
        alone = stand_alone(starts, sizes, tables)
        self._tables = tables._replace(words=hash_words(spellings, starts, np.where(alone, sizes, 0), slots))
        self._learn(range(0x80 // PAGE))

    def _value(self, character: str) -> int:
        return self._ids.get(character, -1 - ord(character))

    def _learn(self, pages: Iterable[int]) -> None:
        """Load pages of the table of code points, all at once because each call into `tokenizers` is expensive."""
        with self._lock:
            tables = self._tables
            index = tables.pages.copy()
            new = [page for page in pages if index[page] < 0]
            if not new:  # another thread was faster
                return
            index[new] = np.arange(len(new)) + len(tables.entries) // PAGE
            codes = [chr(code) for page in new for code in range(page * PAGE, (page + 1) * PAGE)]
            expansions = tables.expansions.tolist()
            entries = self._entries(codes, expansions)
            self._tables = tables._replace(
                pages=index,
                entries=np.concatenate([tables.entries, np.array(entries, np.int64)]),
                expansions=np.array(expansions, np.int64),
            )

    def _entries(self, codes: list[str], expansions: list[int]) -> list[int]:
        apart = "\ue000" if "\n" in codes else "\n"  # a separator that keeps its neighbours from composing
        becomes = self._normalize(apart.join(codes)).split(apart)
        characters = sorted(set("".join(becomes)))
        kind = dict.fromkeys(characters, OTHER)
        for number, replace in self._kinds.items():
            for character, replaced in zip(characters, replace("".join(characters)), strict=True):
                if character != "_" and replaced == "_":
                    kind[character] = number
        return [self._entry(code, text, kind, expansions) for code, text in zip(codes, becomes, strict=True)]

    def _entry(self, code: str, becomes: str, kind: dict[str, int], expansions: list[int]) -> int:
        parts = unicodedata.normalize("NFKD", code)
        ccc, last_ccc = unicodedata.combining(parts[0]), unicodedata.combining(parts[-1])
        join = COMPOSING if parts[0] in _composites()[1] else ORDERED if ccc else FREE
        jamo = "\u1161" <= parts[0] <= "\u1175" or "\u11a8" <= parts[0] <= "\u11c2"  # composed by rule, not by table
        if unicodedata.category(code) == "Cn" or jamo or (join != FREE and parts != code):
            return entry(0, ODD)
        whole = parts == code or unicodedata.normalize("NFKC", code) == code
        values = [self._value("▁" if kind[character] == SPACE else character) for character in becomes]
        if len(becomes) == 1:
            return entry(values[0], kind[becomes], 0, join, whole, ccc, last_ccc)
        place = len(expansions)
        expansions += [entry(value, kind[character]) for value, character in zip(values, becomes, strict=True)]
        return entry(place, MANY, len(becomes), join, whole, ccc, last_ccc)

    def encode(self, texts: Sequence[bytes], whole: bool = False) -> tuple[Ints, Longs]:
        """Return the tokens of UTF-8 texts, and their number per text: -1 for texts that are left to `tokenizers`."""
        data = np.frombuffer(b"".join(texts), np.uint8)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        tokens = np.empty((1 + whole) * (len(data) + len(texts)) + 4 * LONGEST + 4 * WINDOW, np.int32)
        counts = np.empty(len(texts), np.int64)
        missing = np.zeros(0x110000 // PAGE, np.bool_)
        written = encode(data, lengths, self._tables, whole, tokens, counts, missing)
        tokens = tokens[:written].copy()
        if missing.any():
            self._learn(np.flatnonzero(missing).tolist())
            again = np.flatnonzero(counts < 0)
            tokens = splice(tokens, counts, again, *self.encode([texts[text] for text in again.tolist()], whole))
        return tokens, counts


def splice(tokens: Ints, counts: Longs, where: Longs, more: Ints, more_counts: Longs) -> Ints:
    """Insert the tokens of the texts `where`, which had none, and fill in their counts."""
    places = np.cumsum(np.maximum(counts, 0))[where]
    counts[where] = more_counts
    return np.insert(tokens, np.repeat(places, np.maximum(more_counts, 0)), more)


@cache
def _composites() -> tuple[Longs, frozenset[str]]:
    """Return the pairs of code points that compose, as a hash set, and the set of their second code points."""
    pairs = []
    for code in range(0xC0, 0x20000):  # the planes above hold ideographs only
        parts = unicodedata.decomposition(chr(code))
        if parts and parts[0] != "<" and " " in parts and unicodedata.is_normalized("NFC", chr(code)):
            first, second = parts.split()
            pairs.append((int(first, 16), int(second, 16)))
    keys = np.array([first << 32 | second for first, second in pairs], np.int64)
    return hash_pairs(keys, slots_for(len(keys))), frozenset(chr(second) for _, second in pairs)
