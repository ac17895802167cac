"""Splitting text into words, the vocabulary of a corpus, and the corpus as word indices.

Words are separated by white space, punctuation and symbols (Unicode categories P and S): "don't" is two words, and the
vowel signs of Hindi are part of a word. Text is lower-cased by default. Thai, Chinese and Japanese, which are written
without spaces, are not segmented: segment such text beforehand.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from banyan.corpus import Corpus
from banyan.errors import BanyanError
from banyan.support.display import Display

_BETWEEN_NOTES = 20_000  # sentences


class _Spaces(dict[int, str]):
    """A table for str.translate that maps punctuation and symbols to spaces. Each character is looked up once."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = " " if unicodedata.category(character)[0] in "PS" else character
        return self[code]


_SPACES = _Spaces()


def words(text: str, lower: bool = True) -> list[str]:
    """The words of a text, in order."""
    return (text.lower() if lower else text).translate(_SPACES).split()


@dataclass(frozen=True)
class Vocabulary:
    """The words of a corpus and their counts, most frequent first; words with equal counts are sorted."""

    words: list[str]
    counts: np.ndarray  # int64 [V]
    lower: bool = True

    def __len__(self) -> int:
        return len(self.words)

    def to_text(self) -> str:
        return "".join(f"{word} {count}\n" for word, count in zip(self.words, self.counts.tolist(), strict=True))

    @classmethod
    def from_text(cls, path: Path, lower: bool) -> Vocabulary:
        """Read a file written with `to_text`."""
        rows = [line.split(" ") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        try:
            return cls([row[0] for row in rows], np.array([int(row[1]) for row in rows], np.int64), lower)
        except (ValueError, IndexError):
            raise BanyanError(f"{path} is damaged: each of its lines should be a word, a space and a count") from None


@dataclass(frozen=True)
class Coded:
    """A corpus as word indices. Rare words are removed before training, so their neighbours become adjacent."""

    vocabulary: Vocabulary
    tokens: np.ndarray  # int32: indices into the vocabulary
    offsets: np.ndarray  # int64: sentence i is tokens[offsets[i] : offsets[i + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def sentences(corpus_paths: Sequence[str | Path], display: Display) -> Iterator[str]:
    """The sentences of a corpus, with a progress bar."""
    corpus = Corpus(list(corpus_paths))
    display.note(corpus.layout_reason)
    with display.bar("reading", corpus.bytes_total, "bytes") as meter:
        for number, sentence in enumerate(corpus):
            if number % _BETWEEN_NOTES == 0:
                meter(corpus.bytes_read)
            yield sentence


def coded(texts: Iterable[str], min_count: int, lower: bool) -> Coded:
    """Index the texts by their own vocabulary, which leaves out words with fewer than `min_count` occurrences."""
    numbers: dict[str, int] = {}
    tokens, ends = array("i"), array("q", [0])
    for text in texts:
        tokens.extend(numbers.setdefault(word, len(numbers)) for word in words(text, lower))
        ends.append(len(tokens))
    seen = np.frombuffer(tokens, np.int32) if tokens else np.empty(0, np.int32)
    counts = np.bincount(seen, minlength=len(numbers))
    spelt = list(numbers)
    kept = sorted(np.flatnonzero(counts >= min_count).tolist(), key=lambda number: (-counts[number], spelt[number]))
    if len(kept) < 2:
        raise BanyanError(
            f"the text has {len(numbers):,} distinct words, of which {len(kept)} occur {min_count} times or more: "
            "give more text, or lower --set min_count=N"
        )
    renamed = np.full(len(numbers), -1, np.int32)
    renamed[kept] = np.arange(len(kept), dtype=np.int32)
    named = renamed[seen]
    there = named >= 0
    before = np.concatenate([[0], np.cumsum(there)])
    vocabulary = Vocabulary([spelt[number] for number in kept], counts[kept].astype(np.int64), lower)
    return Coded(vocabulary, named[there], before[np.frombuffer(ends, np.int64)])


def coded_as(texts: Iterable[str], spelt: Sequence[str], lower: bool) -> Coded:
    """Index the texts by a given vocabulary; other words are left out."""
    numbers = {word: number for number, word in enumerate(spelt)}
    tokens, ends = array("i"), array("q", [0])
    for text in texts:
        tokens.extend(numbers[word] for word in words(text, lower) if word in numbers)
        ends.append(len(tokens))
    seen = np.frombuffer(tokens, np.int32) if tokens else np.empty(0, np.int32)
    if not len(seen):
        raise BanyanError("the vectors contain no word of the text: check their language, and --set lower")
    counts = np.bincount(seen, minlength=len(spelt))
    return Coded(Vocabulary(list(spelt), counts, lower), seen, np.frombuffer(ends, np.int64))


def check_finite(loss: float) -> None:
    if not np.isfinite(loss):
        raise BanyanError("the loss is no longer finite: use a smaller --set learning_rate")


def check(**least: tuple[float, float]) -> None:
    """check(dim=(dim, 1)) refuses a dim below 1."""
    for name, (value, lowest) in least.items():
        if not value >= lowest:
            raise BanyanError(f"{name} must be at least {lowest:g}, not {value:g}")
