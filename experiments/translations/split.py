"""Hold translations out of the parallel texts and of the monolingual corpora.

Two test sets per language: `verses`, 1,000 pairs from all sources but one, and `source`, up to 1,000 pairs of that one
source, which is held out whole. 500 more pairs like those of `verses` are for choosing settings (`dev`). Pairs are
chosen by a hash of their English text, so that a text that is held out in one language is held out in all.

Texts are compared by their letters, marks and digits alone. A training pair goes if its English is held out in any
language or its other side in its own. A line of a corpus goes if it equals a held-out text of its language, or one of
its sentences; for this, all of the held-out source counts.
"""

from __future__ import annotations

import hashlib
import lzma
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from banyan.corpus.sentences import split as sentences
from banyan.errors import BanyanError
from experiments.data import VARIABLE, corpus

SOURCES = {
    **dict.fromkeys(("am", "ar", "es", "ha", "hi", "id", "mr"), "tico19"),
    "af": "autshumato",
    "te": "wiki-turk",
}  # language -> the source that is held out whole
LANGUAGES = tuple(sorted(SOURCES))
TEST, DEV = 1000, 500  # pairs per language
SHORTEST = 20  # characters; a shorter sentence of a held-out text is too common to identify it


class Pair(NamedTuple):
    english: str
    other: str
    source: str


class Parts(NamedTuple):
    """The pairs of one language."""

    train: list[Pair]
    dev: list[Pair]
    verses: list[Pair]
    source: list[Pair]
    unused: list[Pair]  # held out, but in no set


class Split:
    """The pairs of all languages, divided."""

    def __init__(self, pairs: dict[str, list[Pair]]) -> None:
        """pairs: of each language."""
        pools = {language: _one_of_each(_others(language, found)) for language, found in pairs.items()}
        # From the two ends of one order: the sets of different languages overlap, so that little training text is lost.
        verses = {language: pool[:TEST] for language, pool in pools.items()}
        dev = {language: pool[TEST:][-DEV:] for language, pool in pools.items()}
        tested = _english(verses.values())
        dev = {language: [pair for pair in pairs if key(pair.english) not in tested] for language, pairs in dev.items()}
        whole = {language: _of_source(language, found) for language, found in pairs.items()}
        self.held_out_english = tested | _english(dev.values()) | _english(whole.values())
        self.parts = {
            language: self._divided(found, dev[language], verses[language], whole[language])
            for language, found in pairs.items()
        }

    def _divided(self, pairs: list[Pair], dev: list[Pair], verses: list[Pair], whole: list[Pair]) -> Parts:
        source = _one_of_each(whole)[:TEST]
        chosen = {*dev, *verses, *source}
        others = {key(pair.other) for pair in [*chosen, *whole]}
        train, unused = [], []
        for pair in pairs:
            if key(pair.english) not in self.held_out_english and key(pair.other) not in others:
                train.append(pair)
            elif pair not in chosen:
                unused.append(pair)
        return Parts(train, dev, verses, source, unused)

    def kept(self, language: str, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines of a corpus of this language, or of English, that are not held out."""
        held_out = self.held_out_texts(language)
        return (line for line in lines if key(line) not in held_out)

    def held_out_texts(self, language: str) -> set[str]:
        """The keys of the held-out texts of a language, and of their sentences. Of English: those of all languages."""
        if language == "en":
            texts = [pair.english for name in self.parts for pair in self._held_out(name)]
        else:
            texts = [pair.other for pair in self._held_out(language)]
        whole = {key(text) for text in texts}
        return whole | {short for text in texts for short in map(key, sentences(text)) if len(short) >= SHORTEST}

    def _held_out(self, language: str) -> Iterator[Pair]:
        """The pairs of the three sets, and the rest of the held-out source."""
        _, dev, verses, source, unused = self.parts[language]
        yield from [*dev, *verses, *source]
        yield from _of_source(language, unused)


def read_split(data: Path) -> Split:
    """Divide the pairs of the data folder. All languages are read: what one holds out, the others leave out."""
    return Split({language: read_pairs(data / "parallel" / f"{language}.tsv.xz") for language in LANGUAGES})


def read_pairs(path: Path) -> list[Pair]:
    """Read English, the other language and the source, separated by tabs."""
    if not path.is_file():
        raise BanyanError(f"there is no parallel text {path}: pass --data, or set {VARIABLE}")
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [Pair(*line.rstrip("\n").split("\t")) for line in file]


def corpus_text(data: Path, language: str) -> Iterator[str]:
    """Yield the lines of the training corpus of a language."""
    path = corpus(data, language, "train")
    if not path.is_file():
        raise BanyanError(f"there is no corpus {path}: pass --data, or set {VARIABLE}")
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        yield from (line.rstrip("\n") for line in file)


# --- Texts as they are compared --------------------------------------------------------------------------------------


class _Kept(dict[int, str | None]):
    """A table for str.translate that keeps letters, marks and digits. Each character is looked up once."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        self[code] = character if unicodedata.category(character)[0] in "LMN" else None
        return self[code]


# Arabic vowel marks and the tatweel go too: the parallel texts have none, but the corpora do.
_KEPT = _Kept(dict.fromkeys([0x640, 0x670, *range(0x64B, 0x660)]))


def key(text: str) -> str:
    """Return the text without case, punctuation, white space and Arabic vowel marks."""
    return unicodedata.normalize("NFC", text).casefold().translate(_KEPT)


def _rank(pair: Pair) -> tuple[bytes, str]:
    return hashlib.sha256(key(pair.english).encode()).digest(), pair.other


def _one_of_each(pairs: Iterable[Pair]) -> list[Pair]:
    """Return one pair for each English text, in the order of their hashes."""
    found: dict[str, Pair] = {}
    for pair in sorted(pairs, key=_rank):
        found.setdefault(key(pair.english), pair)
    return list(found.values())


def _of_source(language: str, pairs: Iterable[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.source == SOURCES[language]]


def _others(language: str, pairs: Iterable[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.source != SOURCES[language]]


def _english(sets: Iterable[Sequence[Pair]]) -> set[str]:
    return {key(pair.english) for pairs in sets for pair in pairs}
