"""Searcher: the best rows for a query, ranked by vectors, by words, or by both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from banyan.config import Config
from banyan.errors import BanyanError
from banyan.search.highlight import Highlight, highlights
from banyan.search.index import Encode, Index, Maker
from banyan.search.rows import OWN, WORDS
from banyan.support.rows import unit_rows

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.explanation import Explanation
    from banyan.search.memory import Memory

MODES = ("both", "vectors", "words")
DEPTH = 100  # rows of each ranking to fuse, at least


@dataclass(frozen=True)
class Hit:
    """A search result."""

    score: float  # results are ranked by this
    cosine: float
    words: float | None  # BM25; None if the row is not among the best by words
    text: str
    source: str
    row: int  # row number in the source, from 1
    columns: dict[str, Any]
    highlights: list[Highlight] = field(default_factory=list)
    id: int = -1  # of the row in the table, until rows are deleted


class Searcher:
    """Searches an index with the model that made it.

    encode: texts in, vectors out.
    explain: like Banyan.explain; without it, results have no highlights.
    share: of the vectors in a score by vectors and words."""

    def __init__(
        self,
        index: Index,
        encode: Encode,
        explain: Callable[[str, str], Explanation] | None = None,
        share: float = Config.vectors_share,
    ) -> None:
        self.index, self._encode, self._explain, self._share = index, encode, explain, share

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        where: str | None = None,
        by: str | None = None,
        exact: bool = False,
        mode: str | None = None,
    ) -> list[Hit]:
        """Return the k best rows.

        where: an SQL condition on source, row and the columns of tables.
        by: rank by "vectors", "words" or "both" (default: both).
        exact: compare every vector, even in a large index.
        mode: an earlier name of by."""
        hits = self.rank(query, k, where=where, by=by, exact=exact, mode=mode)
        if self._explain is None:
            return hits
        found = [highlights(self._explain(query, hit.text), hit.text) for hit in hits]
        return [replace(hit, highlights=words) for hit, words in zip(hits, found, strict=True)]

    def rank(
        self,
        query: str,
        k: int = 10,
        *,
        where: str | None = None,
        by: str | None = None,
        exact: bool = False,
        mode: str | None = None,
        vector: np.ndarray | None = None,
    ) -> list[Hit]:
        """Like `search`, without highlights. vector: of the query, if it is known."""
        if by is not None and mode not in (None, by):
            raise BanyanError(f"by={by!r} and mode={mode!r} differ: mode is an earlier name of by, so leave it out")
        mode = mode or ("both" if by is None else by)
        if k < 1:
            raise BanyanError(f"k must be at least 1, not {k}")
        if mode not in MODES:
            raise BanyanError(f"cannot rank by {mode!r}: choose one of {', '.join(MODES)}")
        if vector is None and not query.strip():
            raise BanyanError("the query is empty: write what to look for")
        depth = max(DEPTH, 2 * k) if mode == "both" else k
        vector = unit_rows(np.atleast_2d(self._encode([query]) if vector is None else vector))[0]
        found = self._candidates(query, vector, depth, where, mode, exact)
        both = fused(found.cosines, found.bm25, self._share)
        scores = {"vectors": found.cosines, "words": found.bm25, "both": both}[mode]
        order = sorted(scores, key=lambda key: -scores[key])
        least = scores[order[:k][-1]] if order else 0.0
        best = [key for key in order if scores[key] >= least]  # k, or more if the last are equal
        rows = dict(zip(best, found.take(best), strict=True))
        best = sorted(best, key=lambda key: (-scores[key], rows[key]["source"], rows[key]["row"]))[:k]
        hits = [_hit(rows[key], scores[key], found.cosines[key], found.bm25.get(key)) for key in best]
        return [replace(hit, id=found.id(key)) for hit, key in zip(hits, best, strict=True)]

    def _candidates(
        self, query: str, vector: np.ndarray, depth: int, where: str | None, mode: str, exact: bool
    ) -> _Candidates:
        """Return the best rows by vectors, by words or by both, with their scores."""
        memory = self._memory(where is not None, mode)
        if memory is None:
            return self._on_disk(query, vector, depth, where, mode, exact)
        among = None if where is None else np.isin(memory.ids, self.index.rows.ids(where))
        near, bm25 = np.empty(0, np.int64), {}
        if mode != "words":
            near = memory.nearest(vector, depth, among)
        if mode != "vectors" and memory.words is not None:
            bm25 = memory.matching(query, depth, among)
        elif mode != "vectors":
            matching = self.index.rows.matching(query, depth, where)
            places = np.searchsorted(memory.ids, np.array([row["_rowid"] for row in matching], np.uint64))
            bm25 = {int(place): row["_score"] for place, row in zip(places, matching, strict=True)}
        places = np.union1d(near, np.array(list(bm25), np.int64))
        cosines = dict(zip(places.tolist(), memory.cosines(places, vector).tolist(), strict=True))
        return _Candidates(cosines, bm25, memory.take, lambda place: int(memory.ids[place]))

    def _memory(self, filtered: bool, mode: str) -> Memory | None:
        """Return the arrays in memory, or None to search on disk. If the table is needed too, the versions agree."""
        memory = self.index.memory
        if memory is None or not (filtered or (mode != "vectors" and memory.words is None)):
            return memory
        if self.index.rows.version != memory.version:
            self.index.refresh()  # another process has changed the table
            memory = self.index.memory
        return memory if memory is not None and self.index.rows.version == memory.version else None

    def _on_disk(
        self, query: str, vector: np.ndarray, depth: int, where: str | None, mode: str, exact: bool
    ) -> _Candidates:
        table = self.index.rows
        near = table.nearest(vector, depth, where, exact) if mode != "words" else []
        matching = table.matching(query, depth, where) if mode != "vectors" else []
        found = {row["_rowid"]: row for row in near + matching}
        cosines = {key: float(np.dot(row["vector"], vector)) for key, row in found.items()}
        bm25 = {row["_rowid"]: row["_score"] for row in matching}
        return _Candidates(cosines, bm25, lambda keys: [found[key] for key in keys], int)


def searcher_of(index: Index | str, model: Banyan, path: str) -> Searcher:
    """Return the searcher of an index that the model made. path: the folder or Hub name of the model."""
    index = Index.open(index) if isinstance(index, str) else index
    index.check(Maker.of(model, path))
    return _searcher(index, model)


def _searcher(index: Index, model: Banyan) -> Searcher:
    share = model.config.vectors_share
    return Searcher(index, lambda texts: model.encode(texts, show_progress_bar=False), model.explain, share)


class _Beside(Index):
    """The rows of an index with the vectors of another model, in memory."""

    def refresh(self) -> None:
        raise BanyanError("the index has changed since it was opened: open it again")


def beside(index: Index, model: Banyan) -> Searcher:
    """Return a searcher of the same rows with another model, which encodes them now."""
    if index.memory is None:
        raise BanyanError(f"{index.folder} is too large for a second model beside its own: index fewer rows")
    other = _Beside(index.folder, index.record)
    other.memory = index.memory.with_vectors(unit_rows(model.encode(index.memory.texts())))
    return _searcher(other, model)


class _Candidates(NamedTuple):
    """Rows that may be results. Their keys are positions in memory, or row ids of the table."""

    cosines: dict[int, float]
    bm25: dict[int, float]  # of the best rows by words
    take: Callable[[list[int]], list[dict]]
    id: Callable[[int], int]  # of the row with this key


def fused(cosines: dict[int, float], bm25: dict[int, float], share: float) -> dict[int, float]:
    """Return the weighted mean of the cosine and of BM25 divided by the query's best; BM25 is 0 for rows not among its
    best. share: of the cosine.

    This works better than reciprocal rank fusion, which ignores by how much one row is better: docs/search.md."""
    most = max(bm25.values(), default=0.0) or 1.0
    return {key: share * cosine + (1 - share) * (bm25.get(key, 0.0) / most) for key, cosine in cosines.items()}


_NOT_COLUMNS = (*OWN, WORDS, "_rowid", "_score", "_distance", "_relevance_score")


def _hit(row: dict, score: float, cosine: float, words: float | None) -> Hit:
    columns = {name: value for name, value in row.items() if name not in _NOT_COLUMNS and value is not None}
    return Hit(float(score), cosine, words, row["text"], row["source"], row["row"], columns)
