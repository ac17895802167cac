"""The four Latin sets, and the methods that score pairs or rank documents on them.

Figures and intervals come from banyan.evaluate.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banyan import Banyan
from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome
from banyan.evaluate.similarity import Pairs, Tabs
from banyan.search.index import Index, Maker
from banyan.search.searching import Searcher
from banyan.support.files import write_text
from banyan.support.rows import unit_rows
from experiments.measuring.baselines import Score, TfIdf

DEPTH = 10  # documents of a ranking; those after them count as not found
WAYS = {"Banyan": "Banyan", "TF-IDF": "TF-IDF of characters", "words": "words (BM25)", "both": "Banyan and words"}
CHOICES = ("answer", "d1", "d2", "d3")
Rankings = list[list[int]]  # for each query, the indices of documents, best first


# --- Files -----------------------------------------------------------------------------------------------------------


def read_table(path: Path, columns: Sequence[str], quotes: bool = False) -> list[dict[str, str]]:
    """The rows of a tab-separated file with a header."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, dialect=csv.excel_tab if quotes else Tabs))
    except (OSError, UnicodeError, csv.Error) as error:
        raise BanyanError(f"cannot read {path}: {error}") from None
    for number, row in enumerate(rows, 2):
        lacking = [column for column in columns if not row.get(column)]
        if lacking:
            raise BanyanError(f"{path}, row {number}: {', '.join(lacking)} is empty")
    return rows


class Parallel(NamedTuple):
    """A passage of Lucan, one of the Aeneid, and the grade of the echo by human judges, 1 to 5."""

    lucan: str
    aeneid: str
    lucan_at: str
    aeneid_at: str
    grade: int

    @property
    def quoted(self) -> bool:
        """Whether it is quoted from a commentary: a few words after a line number, not a whole sentence."""
        return bool(re.search(r"\d", self.lucan + self.aeneid))


def read_parallels(path: Path) -> list[Parallel]:
    rows = read_table(path, ("sent1", "sent2", "ref1", "ref2", "grade"))
    return [Parallel(row["sent1"], row["sent2"], row["ref1"], row["ref2"], int(row["grade"])) for row in rows]


def opening(text: str, most: int = 60) -> str:
    """The first whole words of a text, up to `most` characters."""
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " ..."


def as_pairs(parallels: Sequence[Parallel]) -> Pairs:
    grades = np.array([parallel.grade for parallel in parallels], float)
    return Pairs([parallel.lucan for parallel in parallels], [parallel.aeneid for parallel in parallels], grades)


class Linked(NamedTuple):
    """Queries, documents, and for each query the indices of its right documents."""

    queries: list[str]
    documents: list[str]
    right: list[set[int]]

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> Linked:
        """From pairs of a query and a document. Each text occurs once, with all its links."""
        documents = list(dict.fromkeys(document for _, document in pairs))
        place = {document: number for number, document in enumerate(documents)}
        right: dict[str, set[int]] = {}
        for query, document in pairs:
            right.setdefault(query, set()).add(place[document])
        return cls(list(right), documents, list(right.values()))


def read_links(path: Path, first: str, second: str, quotes: bool = False) -> tuple[Linked, Linked]:
    """Links from the first column to the second, and from the second to the first."""
    pairs = [(row[first], row[second]) for row in read_table(path, (first, second), quotes)]
    return Linked.of(pairs), Linked.of([(b, a) for a, b in pairs])


def read_choices(path: Path) -> Pairs:
    """Each word paired with its four choices, the right one first."""
    rows = read_table(path, ("word", *CHOICES))
    offered = [(row["word"], row[choice], float(choice == CHOICES[0])) for row in rows for choice in CHOICES]
    first, second, score = zip(*offered, strict=True)
    return Pairs(list(first), list(second), np.array(score))


# --- Methods ---------------------------------------------------------------------------------------------------------


def cosines(model: Banyan) -> Score:
    def score(pairs: Pairs) -> np.ndarray:
        a, b = (unit_rows(model.encode(texts, show_progress_bar=False)) for texts in (pairs.first, pairs.second))
        return np.einsum("ij,ij->i", a, b)

    return score


def shortness(pairs: Pairs) -> np.ndarray:
    """Minus the number of words. A score that this reaches too says little about meaning."""
    return np.array([-len(f"{a} {b}".split()) for a, b in zip(pairs.first, pairs.second, strict=True)], float)


def best_first(scores: np.ndarray, most: int) -> np.ndarray:
    """The columns with the highest scores in each row; ties, after rounding to float32, in their order."""
    return np.argsort(-scores.astype(np.float32), axis=1, kind="stable")[:, :most]


def rank_by_tfidf(tfidf: TfIdf, linked: Linked) -> Rankings:
    return best_first((tfidf.rows(linked.queries) @ tfidf.rows(linked.documents).T).toarray(), DEPTH).tolist()


def rank_by_search(model: Banyan, linked: Linked, folder: Path) -> dict[str, Rankings]:
    """Rankings by vectors, by words and by both, as in `banyan search`, from an index made in the folder."""
    folder.mkdir(parents=True)
    texts, made_by = folder / "documents.txt", Maker("model", model.fingerprint(), model.dim)
    write_text(texts, "".join(f"{document}\n" for document in linked.documents))
    with Index.writing(folder / "index", made_by) as index:
        index.add(lambda batch: model.encode(batch, show_progress_bar=False), [str(texts)])
    queries, documents = (model.encode(texts, show_progress_bar=False) for texts in (linked.queries, linked.documents))
    vector_of = dict(zip(linked.queries, queries, strict=True))
    searcher = Searcher(index, lambda texts: np.array([vector_of[text] for text in texts]))
    found = {"vectors": best_first(unit_rows(queries) @ unit_rows(documents).T, DEPTH).tolist()}
    for mode in ("words", "both"):
        found[mode] = [[hit.row - 1 for hit in searcher.rank(query, DEPTH, mode=mode)] for query in linked.queries]
    return found


# --- Figures ---------------------------------------------------------------------------------------------------------


def first_right(found: Rankings, right: Sequence[set[int]]) -> np.ndarray:
    """The rank of the first right document, from 1; infinite if none was found."""
    places = []
    for ranking, answers in zip(found, right, strict=True):
        places.append(next((place for place, document in enumerate(ranking, 1) if document in answers), np.inf))
    return np.array(places, float)


def found_within(places: np.ndarray, task: str, most: int) -> Outcome:
    return Outcome(task, f"hits@{most}", (places <= most).astype(float), percent)


def reciprocal(places: np.ndarray, task: str) -> Outcome:
    return Outcome(task, "MRR", 1 / places, percent)


def percent(items: np.ndarray) -> float:
    return 100 * float(items.mean())


def chosen(score: Score, choices: Pairs, task: str) -> Outcome:
    """How often the right choice is nearest. If k choices are equally near, it counts 1/k."""
    offered = score(choices).astype(np.float32).reshape(-1, len(CHOICES))
    best = offered == offered.max(axis=1, keepdims=True)
    return Outcome(task, "accuracy", best[:, 0] / best.sum(1), percent)

