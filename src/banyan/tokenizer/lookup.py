"""The tables of one of our own tokenizers, filled by calling `tokenizers`, and the kernels that read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from banyan.tokenizer.rules import utf8
from banyan.tokenizer.tables import (
    COMPOSING,
    FREE,
    LETTER,
    LONGEST,
    MANY,
    ODD,
    ORDERED,
    OTHER,
    PAGE,
    PAGES,
    SPACE,
    WINDOW,
    Ints,
    Longs,
    entry,
    spell_out,
)

_UNKNOWN = -10.0  # `tokenizers` gives an unknown character the lowest score minus ten
_FIRST_JOINING = 0x300  # no code point below composes with the one before it
# Pages that are loaded together: Latin with punctuation; Chinese characters; Korean syllables.
_LATIN = frozenset((*range(0x80 // PAGE, 0x250 // PAGE), *range(0x2000 // PAGE, 0x2070 // PAGE)))
_PLAIN = tuple(frozenset(range(first // PAGE, end // PAGE)) for first, end in ((0x4E00, 0x9FA0), (0xAC00, 0xD7A0)))


class Fast(Protocol):
    """Splits texts as one of our own tokenizers does."""

    def encode(self, texts: Sequence[str], first: int = 0) -> tuple[Ints, Longs]:
        """Return the tokens of texts, and their number per text: -1 for texts that are left to `tokenizers`.

        first: the number of texts[0], for errors."""


# --- Characters ------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """The part of the table of code points that is loaded. Immutable."""

    pages: Ints  # code point // PAGE -> page of `entries`, or -1 if not loaded yet; ASCII comes first
    entries: Longs
    expansions: Longs
    composites: Longs  # first << 32 | second, for the pairs of code points that compose; empty if none can


class Characters:
    """What each code point becomes. Pages of the table are loaded when they are first needed.

    `normalize` and `kinds` call `tokenizers`: the former returns what a code point becomes, the latter (for LETTER,
    NUMBER, MARK and SPACE) replace each character of that kind by "_". Loading makes a new table, so kernels in other
    threads keep using the old one.
    """

    def __init__(
        self, ids: dict[str, int], normalize: Callable[[str], str], kinds: dict[int, Callable[[str], str]]
    ) -> None:
        self._ids, self._normalize, self._kinds = ids, normalize, kinds
        self._lock = Lock()
        none = np.empty(0, np.int64)
        self.known = Known(np.full(PAGES, -1, np.int32), none, none, none)
        self.learn(range(0x80 // PAGE))

    def value(self, character: str) -> int:
        return self._ids.get(character, -1 - ord(character))

    def learn(self, pages: Iterable[int]) -> None:
        """Load pages, all at once because each call into `tokenizers` is expensive."""
        with self._lock:
            known = self.known
            index = known.pages.copy()
            wanted = {page for page in pages if index[page] < 0}
            if not wanted:  # another thread was faster
                return
            for group in (_LATIN, *_PLAIN):
                wanted |= group if wanted & group else set()
            plain = sorted(wanted & (_PLAIN[0] | _PLAIN[1]))
            new = sorted(page for page in wanted - {*plain} if index[page] < 0)
            index[new + plain] = np.arange(len(new) + len(plain)) + len(known.entries) // PAGE
            codes = [chr(code) for page in new for code in range(page * PAGE, (page + 1) * PAGE)]
            expansions = known.expansions.tolist()
            entries = self._entries(codes, expansions) if codes else []
            joins = max(codes, default="") >= chr(_FIRST_JOINING)
            self.known = Known(
                pages=index,
                entries=np.concatenate([known.entries, np.array(entries, np.int64), self._plain(plain)]),
                expansions=np.array(expansions, np.int64),
                composites=composites()[0] if joins else known.composites,
            )

    def _plain(self, pages: list[int]) -> Longs:
        """The entries of letters that stay as they are and never join: what `_entries` returns for them."""
        codes = (np.array(pages, np.int64)[:, None] * PAGE + np.arange(PAGE)).ravel()
        values = np.array([self.value(chr(code)) for code in codes.tolist()], np.int64)
        return entry(0, LETTER, whole=True) | (values & 0xFFFFFFFF)

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
        seconds = composites()[1] if parts[0] >= chr(_FIRST_JOINING) else ()
        join = COMPOSING if parts[0] in seconds else ORDERED if ccc else FREE
        jamo = "\u1161" <= parts[0] <= "\u1175" or "\u11a8" <= parts[0] <= "\u11c2"  # composed by rule, not by table
        if unicodedata.category(code) == "Cn" or jamo or (join != FREE and parts != code):
            return entry(0, ODD)
        whole = parts == code or unicodedata.normalize("NFKC", code) == code
        values = [self.value("▁" if kind[character] == SPACE else character) for character in becomes]
        if len(becomes) == 1:
            return entry(values[0], kind[becomes], 0, join, whole, ccc, last_ccc)
        place = len(expansions)
        expansions += [entry(value, kind[character]) for value, character in zip(values, becomes, strict=True)]
        return entry(place, MANY, len(becomes), join, whole, ccc, last_ccc)


@cache
def composites() -> tuple[Longs, frozenset[str]]:
    """Return the pairs of code points that compose, and the set of their second code points."""
    pairs = []
    for code in range(0xC0, 0x20000):  # the planes above hold ideographs only
        parts = unicodedata.decomposition(chr(code))
        if parts and parts[0] != "<" and " " in parts and unicodedata.is_normalized("NFC", chr(code)):
            first, second = parts.split()
            pairs.append((int(first, 16), int(second, 16)))
    keys = np.array([first << 32 | second for first, second in pairs], np.int64)
    return keys, frozenset(chr(second) for _, second in pairs)


# --- Kernels ---------------------------------------------------------------------------------------------------------


class _Arrays(NamedTuple):
    """A vocabulary as arrays."""

    spellings: Ints
    starts: Longs
    sizes: Longs
    bytes: Ints
    left: Longs  # BPE: the merges
    right: Longs
    merged: Ints
    scores: np.ndarray  # unigram
    unknown: float
    reach: int

    @classmethod
    def of(
        cls,
        pieces: Sequence[str],
        ids: dict[str, int],
        value: Callable[[str], int],
        merges: Sequence[tuple[str, str]],
        scores: Sequence[float],
    ) -> _Arrays:
        spellings, starts, sizes = spell_out(pieces, value)
        return cls(
            *(spellings, starts, sizes),
            bytes=np.array([ids.get(f"<0x{byte:02X}>", 0) for byte in range(256)], np.int32),
            left=np.array([ids[left] for left, _ in merges], np.int64),
            right=np.array([ids[right] for _, right in merges], np.int64),
            merged=np.array([ids[left + right] for left, right in merges], np.int32),
            scores=np.array(scores, np.float64),
            unknown=min(scores, default=0.0) + _UNKNOWN,
            reach=int(sizes.max(initial=0)),
        )


class Native:
    """The native kernels and their tables."""

    def __init__(self, kernels: ModuleType, arrays: _Arrays, characters: Characters) -> None:
        self.kernels = kernels
        self.pieces = kernels.Pieces(*arrays)
        self._n_pieces = len(arrays.sizes)
        self._characters = characters
        self._checked: tuple[Known, Any] = (characters.known, self._check(characters.known))

    def _check(self, known: Known) -> Any:
        return self.kernels.Characters(*known, self._n_pieces)

    @property
    def characters(self) -> Any:
        known, checked = self._checked
        if known is not self._characters.known:
            known = self._characters.known
            checked = self._check(known)
            self._checked = known, checked
        return checked

    def learn(self, missing: np.ndarray) -> bool:
        """Load the pages of the table that were missing. Return whether there were any."""
        if not missing.any():
            return False
        self._characters.learn(np.flatnonzero(missing).tolist())
        missing[:] = 0
        return True

    def encode(self, texts: Sequence[str], first: int = 0) -> tuple[Ints, Longs]:
        missing = np.zeros(PAGES, np.uint8)
        tokens, counts = self._split(texts, missing)
        if self.learn(missing):
            again = np.flatnonzero(counts < 0)
            tokens = splice(tokens, counts, again, *self._split([texts[text] for text in again.tolist()], missing))
        return tokens, counts

    def _split(self, texts: Sequence[str], missing: np.ndarray) -> tuple[Ints, Longs]:
        tokens, counts = self.kernels.split(self.pieces, self.characters, texts, missing)
        return np.frombuffer(tokens, np.int32), np.frombuffer(counts, np.int64).copy()


class Numba:
    """The Numba kernels and their tables."""

    def __init__(self, arrays: _Arrays, characters: Characters) -> None:
        from banyan.tokenizer import kernels  # imported here because importing Numba is slow

        self._kernels, self._characters = kernels, characters
        a, none = arrays, np.empty(0, np.int64)
        tables = kernels.Tables(
            *(none.astype(np.int32), none, none, none, np.empty((0, 2), np.int64)),
            spellings=a.spellings,
            bytes=a.bytes,
            merges=kernels.hash_merges(a.left, a.right, kernels.slots_for(len(a.left))),
            merged=a.merged,
            lexicon=self._hashed(a, a.sizes[: len(a.scores)]),
            scores=a.scores,
            unknown=a.unknown,
            reach=a.reach,
        )
        alone = kernels.stand_alone(a.starts, a.sizes, tables)
        tables = tables._replace(words=self._hashed(a, np.where(alone, a.sizes, 0)))
        self._loaded: tuple[Known | None, Any] = None, tables  # one attribute, because threads share it

    def _hashed(self, arrays: _Arrays, sizes: Longs) -> Longs:
        return self._kernels.hash_words(arrays.spellings, arrays.starts, sizes, self._kernels.slots_for(len(sizes)))

    def _current(self) -> Any:
        """The tables, with all characters that are known."""
        known, tables = self._loaded
        if known is not self._characters.known:
            known = self._characters.known
            pairs = self._kernels.hash_pairs(known.composites, self._kernels.slots_for(len(known.composites)))
            tables = tables._replace(**known._replace(composites=pairs)._asdict())
            self._loaded = known, tables
        return tables

    def encode(self, texts: Sequence[str], first: int = 0, whole: bool = False) -> tuple[Ints, Longs]:
        """whole: return the code points of chunks, each with a line end, instead of pieces."""
        return self._encode(utf8(texts, first), whole)

    def _encode(self, texts: Sequence[bytes], whole: bool) -> tuple[Ints, Longs]:
        data = np.frombuffer(b"".join(texts), np.uint8)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        tokens = np.empty((1 + whole) * (len(data) + len(texts)) + 4 * LONGEST + 4 * WINDOW, np.int32)
        counts = np.empty(len(texts), np.int64)
        missing = np.zeros(PAGES, np.bool_)
        written = self._kernels.encode(data, lengths, self._current(), whole, tokens, counts, missing)
        tokens = tokens[:written].copy()
        if missing.any():
            self._characters.learn(np.flatnonzero(missing).tolist())
            again = np.flatnonzero(counts < 0)
            tokens = splice(tokens, counts, again, *self._encode([texts[text] for text in again.tolist()], whole))
        return tokens, counts


def native_or_numba(
    pieces: Sequence[str],
    normalize: Callable[[str], str],
    kinds: dict[int, Callable[[str], str]],
    merges: Sequence[tuple[str, str]] = (),
    scores: Sequence[float] = (),
) -> Native | Numba:
    """The kernels of a tokenizer. Only those in Numba take a vocabulary without pieces, to cut text into chunks."""
    from banyan.native import kernels

    ids = dict(zip(pieces, range(len(pieces)), strict=True))
    characters = Characters(ids, normalize, kinds)
    arrays = _Arrays.of(pieces, ids, characters.value, merges, scores)
    native = kernels() if pieces else None
    return Native(native, arrays, characters) if native else Numba(arrays, characters)


def splice(tokens: Ints, counts: Longs, where: Longs, more: Ints, more_counts: Longs) -> Ints:
    """Insert the tokens of the texts `where`, which had none, and fill in their counts."""
    places = np.cumsum(np.maximum(counts, 0))[where]
    counts[where] = more_counts
    return np.insert(tokens, np.repeat(places, np.maximum(more_counts, 0)), more)
