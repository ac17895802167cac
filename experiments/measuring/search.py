"""nDCG@10 of an index on a BEIR data set: by vectors, by words, and by several ways to combine them.

    python -m experiments.measuring.search model/ $BANYAN_DATA/beir/arguana.tar.xz [--language English]

Documents with the id or the text of the query are left out, as in `banyan eval`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banyan import Banyan
from banyan.corpus.rows import SourceRow
from banyan.evaluate import retrieval
from banyan.evaluate.retrieval import Beir, read_beir
from banyan.search.columns import Columns
from banyan.search.index import Index, Maker
from banyan.search.searching import DEPTH
from banyan.support.rows import unit_rows

CUT = 10
RANK = 60  # the constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)
Ranking = list[tuple[str, float]]  # document ids and scores, best first


def build(folder: Path, model: Banyan, data: Beir, language: str | None) -> Index:
    with Index.writing(folder, Maker("model", "model", model.dim), language) as index:
        columns = Columns(None, {})
        documents = enumerate(zip(data.document_ids, data.documents, strict=True), 1)
        rows = [SourceRow(number, text, {"id": name}) for number, (name, text) in documents]
        index.rows.add_columns(columns.infer(rows, numbers_as_text=False))
        index.rows.append(columns.arrays(rows, "corpus"), unit_rows(model.encode(data.documents)))
        index.rows.settle()
    return index


class Found(NamedTuple):
    """The rankings for one query, without the query itself."""

    near: Ranking
    words: Ranking
    cosines: dict[str, float]  # of all documents in either ranking


def search(index: Index, model: Banyan, data: Beir) -> list[Found]:
    same: dict[str, set[str]] = {}
    for document, body in zip(data.document_ids, data.bodies, strict=True):
        same.setdefault(body.strip(), set()).add(document)
    vectors = unit_rows(model.encode(data.queries))
    results = []
    for query, text, vector in zip(data.query_ids, data.queries, vectors, strict=True):
        out = {query} | (same.get(text.strip(), set()) - set(data.judgements[query]))
        near = index.rows.nearest(vector, DEPTH + len(out), exact=True)
        words = index.rows.matching(text, DEPTH + len(out))
        near, words = ([row for row in rows if row["id"] not in out] for rows in (near, words))
        cosines = {row["id"]: float(np.dot(row["vector"], vector)) for row in near + words}
        by_words = [(row["id"], row["_score"]) for row in words]
        results.append(Found([(row["id"], cosines[row["id"]]) for row in near], by_words, cosines))
    return results


def reciprocal(found: Found) -> dict[str, float]:
    scores: dict[str, float] = {}
    for ranking in (found.near, found.words):
        for rank, (document, _) in enumerate(ranking, 1):
            scores[document] = scores.get(document, 0.0) + 1 / (RANK + rank)
    return scores


def stretched(found: Found) -> dict[str, float]:
    """Sum of the scores, each ranking scaled to 0..1."""
    scores: dict[str, float] = {}
    for ranking in (found.near, found.words):
        for document, score in ranking:
            low, high = ranking[-1][1], ranking[0][1]
            scores[document] = scores.get(document, 0.0) + (score - low) / ((high - low) or 1)
    return scores


def weighted(weight: float, found: Found) -> dict[str, float]:
    """Weighted mean of cosine and scaled BM25; banyan.search.searching.fused has weight 0.5."""
    bm25 = dict(found.words)
    most = max(bm25.values(), default=0.0) or 1.0
    return {name: weight * cosine + (1 - weight) * bm25.get(name, 0.0) / most for name, cosine in found.cosines.items()}


WAYS: dict[str, Callable[[Found], dict[str, float]]] = {
    "vectors": lambda found: dict(found.near),
    "words (BM25)": lambda found: dict(found.words),
    "both, reciprocal ranks": reciprocal,
    "both, scores scaled to 0..1": stretched,
    "both, cosine × 0.3 + share of best BM25 × 0.7": partial(weighted, 0.3),
    "both, cosine × 0.4 + share of best BM25 × 0.6": partial(weighted, 0.4),
    "both, the mean of the two (banyan search)": partial(weighted, 0.5),
    "both, cosine × 0.6 + share of best BM25 × 0.4": partial(weighted, 0.6),
    "both, cosine × 0.7 + share of best BM25 × 0.3": partial(weighted, 0.7),
}


def ndcg(data: Beir, scores: list[dict[str, float]]) -> float:
    items = []
    for query, scored in zip(data.query_ids, scores, strict=True):
        best = sorted(scored, key=lambda document: -scored[document])
        judged = data.judgements[query]
        items.append(retrieval.ndcg([judged.get(document, 0) for document in best], list(judged.values()), CUT))
    return 100 * float(np.mean(items))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("beir")
    parser.add_argument("--language", help="language of stems and stop words")
    parser.add_argument("--queries", type=int, help="use only the first N queries", metavar="N")
    options = parser.parse_args()
    model, data = Banyan.from_pretrained(options.model), read_beir(options.beir)
    if options.queries:
        data = data._replace(query_ids=data.query_ids[: options.queries], queries=data.queries[: options.queries])
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        index = build(Path(folder), model, data, options.language)
        print(f"{len(index.rows):,} documents indexed in {time.monotonic() - started:.1f} s")
        results = search(index, model, data)
    for name, scores in WAYS.items():
        print(f"{name:48} nDCG@{CUT} {ndcg(data, [scores(found) for found in results]):.2f}")


if __name__ == "__main__":
    main()
