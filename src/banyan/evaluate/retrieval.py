"""Retrieval on data in BEIR's layout: does cosine similarity rank the relevant documents first?"""

from __future__ import annotations

import json
import lzma
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from banyan.errors import BanyanError, first_line
from banyan.evaluate.outcome import Outcome, percent
from banyan.evaluate.similarity import Comparer, Encode, NoVectors
from banyan.support.rows import slices, unit_rows

CUTS = (1, 10)
DEEPEST = max(CUTS)
DOCUMENTS = 4096  # encoded at a time; their vectors are not kept
QUERIES = 512  # compared with a block of documents at a time
SCORED = 64  # queries that a Comparer scores at a time against all documents
NOTHING = -2.0  # below every cosine


class Beir(NamedTuple):
    document_ids: list[str]
    documents: list[str]  # title, space, text: what is encoded
    bodies: list[str]  # the text without the title, compared with queries to find duplicates
    query_ids: list[str]  # only queries with judgements
    queries: list[str]
    judgements: dict[str, dict[str, int]]  # query id -> document id -> grade; above 0 is relevant
    missing: int  # judgements skipped because their query or document does not exist


def read_beir(path: str | Path, split: str = "test") -> Beir:
    """Read a folder with corpus.jsonl, queries.jsonl and qrels/<split>.tsv, or a .tar (.gz, .xz) of one.

    Judgements of queries or documents that do not exist are skipped and counted. A query that loses all its judgements
    this way is kept and scores 0, because BEIR's own figures include it in the mean (ArguAna has five)."""
    path = Path(path)
    try:
        with _opened(path) as opened:
            corpus = _texts(opened, path, "corpus.jsonl")
            queries = _texts(opened, path, "queries.jsonl")
            judgements, missing = _judgements(opened, path, f"qrels/{split}.tsv", corpus, queries)
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        reason = first_line(error)
        raise BanyanError(f"cannot read {path} as a folder in BEIR's layout or a .tar of one: {reason}") from None
    if not any(judgements.values()):
        raise BanyanError(f"{path}/qrels/{split}.tsv has no judgement of an existing query and document: check the ids")
    judged = [query for query in queries if query in judgements]
    return Beir(
        list(corpus),
        [f"{title} {text}".strip() for title, text in corpus.values()],
        [text for _, text in corpus.values()],
        judged,
        [queries[query][1] for query in judged],
        judgements,
        missing,
    )


Opened = Callable[[str], BinaryIO]  # opens a file of the folder by name


@contextmanager
def _opened(path: Path) -> Iterator[Opened]:
    if path.is_dir():
        yield lambda name: (path / name).open("rb")
        return
    with tarfile.open(path) as tar:
        found = [PurePosixPath(name) for name in tar.getnames() if PurePosixPath(name).name == "corpus.jsonl"]
        if len(found) != 1:
            raise BanyanError(f"{path} has {len(found)} files named corpus.jsonl; it must have one")
        members = {PurePosixPath(member.name): member for member in tar.getmembers()}

        def from_tar(name: str) -> BinaryIO:
            member = members.get(found[0].parent / name)
            file = tar.extractfile(member) if member else None
            if file is None:
                raise BanyanError(f"{path} has no file {found[0].parent / name}")
            return file  # type: ignore[return-value]

        yield from_tar


def _lines(opened: Opened, path: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield each line that is not blank, preceded by its location for error messages."""
    with opened(name) as file:
        for number, line in enumerate(file, 1):
            where = f"{path}/{name}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
            except UnicodeDecodeError as error:
                raise BanyanError(f"{where}: not UTF-8 ({error.reason}); save the file as UTF-8") from None
            if text.strip():
                yield where, text


def _texts(opened: Opened, path: Path, name: str) -> dict[str, tuple[str, str]]:
    """Return id -> (title, text)."""
    texts: dict[str, tuple[str, str]] = {}
    for where, line in _lines(opened, path, name):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise BanyanError(f"{where}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise BanyanError(f'{where}: expected an object with "_id" and "text", but found {type(row).__name__}')
        identity, title, text = row.get("_id"), row.get("title") or "", row.get("text")
        if not (isinstance(identity, str) and isinstance(title, str) and isinstance(text, str)):
            raise BanyanError(f'{where}: expected "_id", "text" and, if present, "title" to be strings')
        if identity in texts:
            raise BanyanError(f'{where}: the id "{identity}" also occurs on an earlier line; ids must be unique')
        texts[identity] = title, text
    if not texts:
        raise BanyanError(f"{path}/{name} is empty")
    return texts


def _judgements(
    opened: Opened, path: Path, name: str, corpus: dict[str, tuple[str, str]], queries: dict[str, tuple[str, str]]
) -> tuple[dict[str, dict[str, int]], int]:
    """Return the judgements and how many were skipped. A first line without an integer in column 3 is a header."""
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    missing = 0
    for i, (where, line) in enumerate(_lines(opened, path, name)):
        columns = line.split("\t")
        try:
            query, document, grade = columns[0], columns[1], int(columns[2])
            if len(columns) > 3:
                raise ValueError
        except (ValueError, IndexError):
            if i == 0 and len(columns) == 3:
                continue
            wanted = "query id, document id and a whole number, separated by tabs"
            raise BanyanError(f"{where}: expected {wanted}, found {len(columns)} columns: {line[:80]!r}") from None
        missing += query not in queries or document not in corpus
        if query in queries:
            judged = judgements[query]
            if document in corpus:
                judged[document] = grade
    return dict(judgements), missing


def retrieval(encode: Encode | Comparer, data: Beir, task: str, leave_out_same_text: bool = True) -> list[Outcome]:
    """Return nDCG@1, nDCG@10, R@1 and R@10, × 100, as defined by trec_eval (hence by pytrec_eval, BEIR and mteb).

    The gain is the grade itself. The ideal ranking is that of all judged documents. The mean includes every query with
    judgements; a query without a relevant document scores 0. Documents with equal cosines in float32 are ordered by
    id, largest first, as in trec_eval.

    The document with the query's own id is excluded from its results (BEIR's `ignore_identical_ids`). Unless
    `leave_out_same_text=False`, so are documents with the same text as the query. BEIR does not do this: 108 of
    ArguAna's queries are in its corpus under another id and would find themselves first. A document that is judged for
    the query is never excluded."""
    found = _ranked(encode, data, leave_out_same_text)
    judged = [data.judgements[query] for query in data.query_ids]
    grades = [[judgement.get(document, 0) for document in best] for best, judgement in zip(found, judged, strict=True)]
    outcomes = []
    for name, measure in ("nDCG", ndcg), ("R", _recall):
        for cut in CUTS:
            items = [measure(g, list(j.values()), cut) for g, j in zip(grades, judged, strict=True)]
            outcomes.append(Outcome(task, f"{name}@{cut}", np.array(items), percent))
    return outcomes


def ndcg(found: list[int], judged: list[int], cut: int) -> float:
    ideal = _dcg(sorted(judged, reverse=True)[:cut])
    return _dcg(found[:cut]) / ideal if ideal else 0.0


def _dcg(grades: list[int]) -> float:
    gains = np.maximum(grades, 0)  # a negative grade counts like an unjudged document
    return float((gains / np.log2(np.arange(len(gains)) + 2)).sum())


def _recall(found: list[int], judged: list[int], cut: int) -> float:
    relevant = sum(grade > 0 for grade in judged)
    return sum(grade > 0 for grade in found[:cut]) / relevant if relevant else 0.0


def _ranked(encode: Encode | Comparer, data: Beir, leave_out_same_text: bool) -> list[list[str]]:
    """Return the ids of each query's best documents, best first."""
    ids = data.document_ids
    order = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)  # so that ties are as in trec_eval
    of_query, of_document = _left_out(data, order, leave_out_same_text)
    if callable(encode):
        places = _by_vectors(encode, data, order, of_query, of_document)
    else:
        places = _by_scores(encode, data, order, of_query, of_document)
    return [[ids[order[place]] for place in best if place >= 0] for best in places]


def _by_scores(encode: Any, data: Beir, order: list[int], of_query: np.ndarray, of_document: np.ndarray) -> np.ndarray:
    """Return the positions in `order` of each query's best documents by a Comparer's scores, -1 for none."""
    if not hasattr(encode, "index"):
        raise NoVectors("it compares texts pair by pair, which is too slow for all queries and documents")
    scores_of = encode.index([data.documents[i] for i in order])
    places = np.full((len(data.queries), DEEPEST), -1)
    for some in slices(len(data.queries), SCORED):
        scores = np.asarray(scores_of(data.queries[some]), np.float32)
        here = (of_query >= some.start) & (of_query < some.stop)
        scores[of_query[here] - some.start, of_document[here]] = -np.inf
        for query, row in enumerate(scores, some.start):
            depth = min(DEEPEST, len(row))
            near = np.flatnonzero((row >= np.partition(row, -depth)[-depth]) & (row > -np.inf))
            best = near[np.argsort(-row[near], kind="stable")[:DEEPEST]]
            places[query, : len(best)] = best
    return places


def _by_vectors(
    encode: Encode, data: Beir, order: list[int], of_query: np.ndarray, of_document: np.ndarray
) -> np.ndarray:
    """Return the positions in `order` of each query's best documents by cosine, -1 for none."""
    parts = slices(len(data.queries), DOCUMENTS)
    queries = np.concatenate([unit_vectors(encode, data.queries[part]) for part in parts])
    scores = np.full((len(queries), DEEPEST), NOTHING, np.float32)
    places = np.full((len(queries), DEEPEST), -1)
    for some in slices(len(order), DOCUMENTS):
        documents = unit_vectors(encode, [data.documents[i] for i in order[some]])
        for block in slices(len(queries), QUERIES):
            cosines = queries[block] @ documents.T
            row, column = of_query - block.start, of_document - some.start
            here = (row >= 0) & (row < len(cosines)) & (column >= 0) & (column < len(documents))
            cosines[row[here], column[here]] = -np.inf
            _keep_best(scores[block], places[block], cosines, queries[block], documents, some.start)
    return places


def _keep_best(
    scores: np.ndarray, places: np.ndarray, cosines: np.ndarray, queries: np.ndarray, documents: np.ndarray, start: int
) -> None:
    """Merge these documents into the best so far.

    The rounding of a matrix product depends on the shape of its block and would break ties at random, so candidates for
    the best are computed again, each pair separately."""
    slack = 2 * queries.shape[1] * np.finfo(np.float32).eps  # twice the largest rounding error for two unit vectors
    depth = min(DEEPEST, len(documents))
    floor = np.maximum(np.partition(cosines, -depth, axis=1)[:, -depth], scores[:, -1]) - slack
    for row in np.flatnonzero(cosines.max(axis=1) >= floor):
        near = np.flatnonzero(cosines[row] >= floor[row])
        exact = (documents[near].astype(np.float64) * queries[row]).sum(axis=1).astype(np.float32)
        both, where = np.concatenate([scores[row], exact]), np.concatenate([places[row], near + start])
        best = np.argsort(-both, kind="stable")[:DEEPEST]
        scores[row], places[row] = both[best], where[best]


def _left_out(data: Beir, order: list[int], same_text: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of a query and the position in `order` of a document to exclude from its results."""
    by_id = {data.document_ids[document]: place for place, document in enumerate(order)}
    by_text: dict[str, list[int]] = defaultdict(list)
    if same_text:
        for place, document in enumerate(order):
            by_text[data.bodies[document].strip()].append(place)
    pairs: list[tuple[int, int]] = []
    for i, (query, text) in enumerate(zip(data.query_ids, data.queries, strict=True)):
        if query in by_id:
            pairs.append((i, by_id[query]))
        twins = by_text.get(text.strip(), ())
        pairs += [(i, place) for place in twins if data.document_ids[order[place]] not in data.judgements[query]]
    of_query, of_document = np.array(pairs, np.int64).reshape(-1, 2).T
    return of_query, of_document


def unit_vectors(encode: Encode, texts: list[str]) -> np.ndarray:
    """Return float32 vectors of length 1. A zero vector stays zero, so its cosines are 0."""
    vectors = np.asarray(encode(texts), np.float64)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise BanyanError(f"encode returned an array of shape {vectors.shape} for {len(texts)} texts, not one row each")
    if not np.isfinite(vectors).all():
        raise BanyanError(f"encode returned a vector that is not finite for: {_first_bad(texts, vectors)!r}")
    return unit_rows(vectors)


def _first_bad(texts: list[str], vectors: np.ndarray) -> str:
    return texts[int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])][:80]
