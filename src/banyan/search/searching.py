"""A query in, the best rows out: by vectors, by words, or by both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.errors import BanyanError
from banyan.search.highlight import Highlight, highlights
from banyan.search.index import Encode, Index, unit
from banyan.search.rows import OWN

if TYPE_CHECKING:
    from banyan.explanation import Explanation

MODES = ("both", "vectors", "words")
DEPTH = 100  # rows of each ranking that are fused, at least


@dataclass(frozen=True)
class Hit:
    """A row that was found."""

    score: float  # what it is ranked by
    cosine: float
    words: float | None  # BM25; None where it was not among the best by words
    text: str
    source: str
    row: int  # in its source, from 1
    columns: dict[str, Any]
    highlights: list[Highlight] = field(default_factory=list)


class Searcher:
    """An index, and the model that made it.

    encode: texts in, vectors out. explain: as Banyan.explain; without it results have no highlights."""

    def __init__(
        self, index: Index, encode: Encode, explain: Callable[[str, str], Explanation] | None = None
    ) -> None:
        self.index, self._encode, self._explain = index, encode, explain

    def search(
        self, query: str, k: int = 10, *, where: str | None = None, mode: str = "both", exact: bool = False
    ) -> list[Hit]:
        """The k best rows. where: a condition in SQL on source, row and the columns of tables. exact: every vector is
        looked at, in a large index too."""
        hits = self.rank(query, k, where=where, mode=mode, exact=exact)
        if self._explain is None:
            return hits
        found = [highlights(self._explain(query, hit.text), hit.text) for hit in hits]
        return [replace(hit, highlights=words) for hit, words in zip(hits, found, strict=True)]

    def rank(
        self, query: str, k: int = 10, *, where: str | None = None, mode: str = "both", exact: bool = False
    ) -> list[Hit]:
        """As `search`, without highlights."""
        if k < 1:
            raise BanyanError(f"k must be at least 1, not {k}")
        if mode not in MODES:
            raise BanyanError(f"there is no way {mode!r} to search among {', '.join(MODES)}")
        depth = max(DEPTH, 2 * k) if mode == "both" else k
        vector = unit(np.atleast_2d(self._encode([query])))[0]
        rows = self.index.rows
        near = rows.nearest(vector, depth, where, exact) if mode != "words" else []
        matching = rows.matching(query, depth, where) if mode != "vectors" else []
        bm25 = {row["_rowid"]: row["_score"] for row in matching}
        found = {row["_rowid"]: row for row in near + matching}
        cosines = {key: float(np.dot(row["vector"], vector)) for key, row in found.items()}
        scores = {"vectors": cosines, "words": bm25, "both": fused(cosines, bm25)}[mode]
        best = sorted(scores, key=lambda key: (-scores[key], found[key]["source"], found[key]["row"]))[:k]
        return [_hit(found[key], scores[key], cosines[key], bm25.get(key)) for key in best]


def fused(cosines: dict[int, float], bm25: dict[int, float]) -> dict[int, float]:
    """The mean of the cosine and of BM25 as a share of the query's best; 0 for a row that is not among the best by
    words. Better than reciprocal rank fusion, which forgets by how much a row is better: docs/search.md."""
    most = max(bm25.values(), default=0.0) or 1.0
    return {key: (cosine + bm25.get(key, 0.0) / most) / 2 for key, cosine in cosines.items()}


_NOT_COLUMNS = (*OWN, "_rowid", "_score", "_distance", "_relevance_score")


def _hit(row: dict, score: float, cosine: float, words: float | None) -> Hit:
    columns = {name: value for name, value in row.items() if name not in _NOT_COLUMNS and value is not None}
    return Hit(float(score), cosine, words, row["text"], row["source"], row["row"], columns)

