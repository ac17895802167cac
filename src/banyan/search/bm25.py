"""BM25 over arrays: the words of a text, as Lance's full-text index splits them, and the weight of each in each row."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.search.compounds import with_parts
from banyan.support.needs import needs

if TYPE_CHECKING:
    import pyarrow

K1, B = 1.2, 0.75  # as in Lance
LONGEST = 40  # bytes; Lance drops longer words
_BREAK = "qzbreakqz"  # between two chunks that ICU splits in one call
# ICU's rules (Unicode Standard Annex 29) for ASCII: a letter, a digit or _ continues a word; so do . and ' between two
# letters, and . ' , ; between two digits.
_ASCII = re.compile(r"\w+(?:(?:(?<=[A-Za-z])[.'](?=[A-Za-z])|(?<=[0-9])[.',;](?=[0-9]))\w+)*", re.ASCII)


class Splitter:
    """Splits texts into words like a full-text index of Lance without a language. Remembers chunks between spaces."""

    def __init__(self) -> None:
        self._known: dict[str, list[str]] = {}

    def words(self, texts: Sequence[str]) -> Iterable[list[str]]:
        """Yield the words of each text, including the parts of compound names."""
        chunks = [with_parts(text).split() for text in texts]
        new = {chunk for some in chunks for chunk in some} - self._known.keys()
        self._known |= {chunk: _ascii_words(chunk) for chunk in new if chunk.isascii()}
        if others := sorted(chunk for chunk in new if not chunk.isascii()):
            self._known |= dict(zip(others, _icu_words(others), strict=True))
        for some in chunks:
            yield [word for chunk in some for word in self._known[chunk]]


def _ascii_words(chunk: str) -> list[str]:
    return [word for word in _ASCII.findall(chunk.lower()) if len(word) < LONGEST and word.strip("_")]


def _icu_words(chunks: list[str]) -> list[list[str]]:
    with needs("An index", "search"):
        from lancedb import tokenize
    joined = f"\n{_BREAK}\n".join(chunks)
    found: list[list[str]] = [[]]
    for token in tokenize(joined, base_tokenizer="icu", stem=False, remove_stop_words=False):
        if token.text == _BREAK:
            found.append([])
        else:
            found[-1].append(token.text)
    return found


def word_index(texts: Sequence[str]) -> dict[str, Any]:
    """Return the sorted words, where the entries of each begin and end, and for each entry its row and its BM25 weight.

    The BM25 score of a row is the sum of the weights of the query's words."""
    numbers: dict[str, int] = {}
    word, row, count = array("i"), array("i"), array("i")
    lengths = np.zeros(len(texts))
    splitter = Splitter()
    for i, said in enumerate(splitter.words(texts)):
        lengths[i] = len(said)
        for name, count_here in Counter(said).items():
            word.append(numbers.setdefault(name, len(numbers)))
            row.append(i)
            count.append(count_here)
    names = sorted(numbers)
    place = np.empty(len(names), np.int64)
    place[[numbers[name] for name in names]] = np.arange(len(names))
    of_word = place[np.frombuffer(word, np.int32)] if len(word) else np.empty(0, np.int64)
    order = np.argsort(of_word, kind="stable")
    found_in = np.bincount(of_word, minlength=len(names))
    idf = np.log(1 + (len(texts) - found_in + 0.5) / (found_in + 0.5))
    rows, times = (np.frombuffer(values, np.int32) if len(values) else np.empty(0, np.int32) for values in (row, count))
    length = lengths[rows] / max(lengths.mean() if len(texts) else 0, 1e-9)
    weights = idf[of_word] * (K1 + 1) * times / (times + K1 * (1 - B + B * length))
    begins = np.concatenate([[0], np.cumsum(found_in)])
    return {"word": names, "begins": begins, "row": rows[order], "weight": weights[order].astype(np.float32)}


class Words:
    """A word index in memory. names: sorted."""

    def __init__(self, names: pyarrow.Array, begins: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> None:
        self._names, self._begins, self._rows, self._weights = names, begins, rows, weights
        self._splitter = Splitter()

    def scores(self, query: str, n: int) -> np.ndarray:
        """Return the BM25 score of each of the n rows."""
        scores = np.zeros(n, np.float32)
        (said,) = self._splitter.words([query])
        for word in said:
            place = bisect_left(self._names, word, key=lambda name: name.as_py())
            if place < len(self._names) and self._names[place].as_py() == word:
                entries = slice(self._begins[place], self._begins[place + 1])
                scores[self._rows[entries]] += self._weights[entries]
        return scores
