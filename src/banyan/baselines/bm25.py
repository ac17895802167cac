"""BM25 (Robertson and Zaragoza 2009), in Lucene's form:

    score(q, d) = Σ over the words of q:  idf · tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))
    idf = log(1 + (N - n + ½) / (n + ½)),   where n of N texts contain the word

In retrieval, N, n and the mean length are those of the documents searched. For pairs they are those of the training
text. The score is neither symmetric nor between 0 and 1, so the similarity of a pair (a, b) is
(score(a, b) + score(b, a)) / (score(a, a) + score(b, b)).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banyan.baselines import folder as folders
from banyan.baselines.text import Vocabulary, check, sentences, words
from banyan.baselines.vectors import WORDS
from banyan.errors import BanyanError
from banyan.support import files
from banyan.support.display import Display
from banyan.support.needs import needs


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    k1: float = 1.2,
    b: float = 0.75,
    lower: bool = True,
) -> None:
    """Count the words of the text, for the IDF of pairs. Retrieval counts the words of the documents it searches.

    k1: saturation of the term frequency. b: length normalisation, 0 (none) to 1. lower: lower-case the text.
    """
    check(k1=(k1, 0), b=(b, 0))
    folders.check_new(out)
    counted = Collection.of(words(text, lower) for text in sentences(corpus_paths, Display(quiet)))
    order = sorted(counted.having, key=lambda word: (-counted.having[word], word))
    listed = Vocabulary(order, np.array([counted.having[word] for word in order], np.int64), lower)
    about = {"texts": counted.texts, "length": counted.length}
    with folders.made(out, folders.Manifest("bm25", {"k1": k1, "b": b, "lower": lower}, about=about)) as building:
        files.write_text(building / WORDS, listed.to_text())


def load(folder: str | Path) -> Bm25:
    manifest = folders.read(folder)
    listed = Vocabulary.from_text(Path(folder) / WORDS, manifest.settings["lower"])
    having = dict(zip(listed.words, listed.counts.tolist(), strict=True))
    return Bm25(Collection(manifest.about["texts"], manifest.about["length"], having), **manifest.settings)


class Collection:
    """Counts of a collection: the number of texts, their mean length, and how many contain each word."""

    def __init__(self, texts: int, length: float, having: dict[str, int]) -> None:
        self.texts, self.length, self.having = texts, length, having

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> Collection:
        having: Counter[str] = Counter()
        n = total = 0
        for text in texts:
            having.update(set(text))
            n, total = n + 1, total + len(text)
        if not total:
            raise BanyanError("the texts contain no words")
        return cls(n, total / n, dict(having))

    def idf(self, word: str) -> float:
        having = self.having.get(word, 0)
        return float(np.log1p((self.texts - having + 0.5) / (having + 0.5)))


class Bm25:
    """A Comparer: it has no vectors."""

    def __init__(self, collection: Collection, k1: float = 1.2, b: float = 0.75, lower: bool = True) -> None:
        self.collection, self.k1, self.b, self.lower = collection, k1, b, lower

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        return np.array([self._similarity(a, b) for a, b in zip(first, second, strict=True)])

    def _similarity(self, first: str, second: str) -> float:
        a, b = (Counter(words(text, self.lower)) for text in (first, second))
        own = self.score(a, a) + self.score(b, b)
        return (self.score(a, b) + self.score(b, a)) / own if own else 0.0

    def score(self, query: Counter[str], document: Counter[str]) -> float:
        """The score of a document for a query, both as word counts."""
        normaliser = self._normaliser(document.total(), self.collection.length)
        shared = (word for word in query if word in document)
        return sum(query[w] * self.collection.idf(w) * self._saturated(document[w], normaliser) for w in shared)

    def _normaliser(self, length: Any, mean: float) -> Any:
        return self.k1 * (1 - self.b + self.b * length / mean)

    def _saturated(self, count: Any, normaliser: Any) -> Any:
        return count * (self.k1 + 1) / (count + normaliser)

    def index(self, documents: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
        """A function from queries to their scores for all of these documents, as one sparse product."""
        with needs("BM25 retrieval", "baselines"):
            from scipy import sparse

        cut = [words(document, self.lower) for document in documents]
        collection = Collection.of(cut)
        numbers = {word: number for number, word in enumerate(collection.having)}

        def counted(texts: Sequence[Sequence[str]]) -> Any:
            rows = [Counter(numbers[word] for word in text if word in numbers) for text in texts]
            ends = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
            columns = [number for row in rows for number in row]
            values = np.array([count for row in rows for count in row.values()], np.float64)
            return sparse.csr_matrix((values, columns, ends), (len(rows), len(numbers)))

        matrix = counted(cut)
        normaliser = self._normaliser(np.array([len(text) for text in cut]), collection.length)
        idf = np.array([collection.idf(word) for word in numbers])
        saturated = self._saturated(matrix.data, np.repeat(normaliser, np.diff(matrix.indptr)))
        matrix.data = saturated * idf[matrix.indices]
        of_documents = matrix.T.tocsr()
        return lambda queries: (counted([words(query, self.lower) for query in queries]) @ of_documents).toarray()
