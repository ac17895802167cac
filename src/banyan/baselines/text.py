"""Words: how a text is cut into them, which ones a corpus has, and the corpus as their numbers.

A word is what stands between white space, when punctuation and symbols (Unicode's classes P and S) count as white
space too: "don't" is two words, and the vowel signs of Hindi are part of one. Text is lower-cased unless told not to.
There is no cutting of Thai, Chinese or Japanese, which do not write spaces between words: cut such text beforehand.
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
    """For str.translate: a space for every mark of punctuation and symbol, looked up in Unicode's data once each."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = " " if unicodedata.category(character)[0] in "PS" else character
        return self[code]


_SPACES = _Spaces()


def words(text: str, lower: bool = True) -> list[str]:
    """The words of a text, in their order."""
    return (text.lower() if lower else text).translate(_SPACES).split()


@dataclass(frozen=True)
class Vocabulary:
    """The words of a corpus, the most frequent first (of equals, by their spelling), and how often each occurs."""

    words: list[str]
    counts: np.ndarray  # int64 [V]
    lower: bool = True

    def __len__(self) -> int:
        return len(self.words)

    def to_text(self) -> str:
        return "".join(f"{word} {count}\n" for word, count in zip(self.words, self.counts.tolist(), strict=True))

    @classmethod
    def from_text(cls, path: Path, lower: bool) -> Vocabulary:
        """Of a file that holds what `to_text` gave."""
        rows = [line.split(" ") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        try:
            return cls([row[0] for row in rows], np.array([int(row[1]) for row in rows], np.int64), lower)
        except (ValueError, IndexError):
            raise BanyanError(f"{path} is damaged: each of its lines should be a word, a space and a count") from None


@dataclass(frozen=True)
class Coded:
    """A corpus as numbers of words; those that are too rare are left out, and their neighbours move together."""

    vocabulary: Vocabulary
    tokens: np.ndarray  # int32
    offsets: np.ndarray  # int64: sentence i is tokens[offsets[i] : offsets[i + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def sentences(corpus_paths: Sequence[str | Path], display: Display) -> Iterator[str]:
    """Of a corpus, behind a bar."""
    corpus = Corpus(list(corpus_paths))
    display.note(corpus.layout_reason)
    with display.bar("reading", corpus.bytes_total, "bytes") as meter:
        for number, sentence in enumerate(corpus):
            if number % _BETWEEN_NOTES == 0:
                meter(corpus.bytes_read)
            yield sentence


def coded(texts: Iterable[str], min_count: int, lower: bool) -> Coded:
    """Reads the texts once. Words that occur less often than `min_count` are no words of the vocabulary."""
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
            f"the text has {len(numbers):,} different words, of which {len(kept)} occur {min_count} times or more: "
            "give more text, or a smaller --set min_count=N"
        )
    renamed = np.full(len(numbers), -1, np.int32)
    renamed[kept] = np.arange(len(kept), dtype=np.int32)
    named = renamed[seen]
    there = named >= 0
    before = np.concatenate([[0], np.cumsum(there)])
    vocabulary = Vocabulary([spelt[number] for number in kept], counts[kept].astype(np.int64), lower)
    return Coded(vocabulary, named[there], before[np.frombuffer(ends, np.int64)])


def coded_as(texts: Iterable[str], spelt: Sequence[str], lower: bool) -> Coded:
    """With the words of someone else's vocabulary, in its order; other words are left out."""
    numbers = {word: number for number, word in enumerate(spelt)}
    tokens, ends = array("i"), array("q", [0])
    for text in texts:
        tokens.extend(numbers[word] for word in words(text, lower) if word in numbers)
        ends.append(len(tokens))
    seen = np.frombuffer(tokens, np.int32) if tokens else np.empty(0, np.int32)
    if not len(seen):
        raise BanyanError("no word of the text is among the vectors: are they of this language, and is lower right?")
    counts = np.bincount(seen, minlength=len(spelt))
    return Coded(Vocabulary(list(spelt), counts, lower), seen, np.frombuffer(ends, np.int64))


def check_finite(loss: float) -> None:
    if not np.isfinite(loss):
        raise BanyanError("the loss is no longer finite: the steps are too long; --set a smaller learning_rate")


def check(**least: tuple[float, float]) -> None:
    """check(dim=(dim, 1)): an error for a setting below what it can be."""
    for name, (value, lowest) in least.items():
        if not value >= lowest:
            raise BanyanError(f"{name} must be at least {lowest:g}, not {value:g}")
