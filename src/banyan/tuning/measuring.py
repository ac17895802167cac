"""Does tuning pay? Held-out examples before and after, beside words alone, and vectors and words together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from banyan.baselines.bm25 import Bm25, Collection
from banyan.baselines.text import words
from banyan.baselines.tfidf import TfIdf
from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome
from banyan.evaluate.retrieval import Beir, retrieval, unit_vectors
from banyan.evaluate.similarity import Encode, Pairs, similarity
from banyan.evaluate.suites import Result
from banyan.evaluate.table import ResultTable, drawn, in_markdown, tabulate
from banyan.search.searching import DEPTH, fused
from banyan.tuning.examples import Examples, numbered

if TYPE_CHECKING:
    from banyan.encoder import Banyan

BEFORE, TUNED = "vectors before", "vectors tuned"
BM25, CHARACTERS = "BM25", "character TF-IDF"
BOTH_BEFORE, BOTH_TUNED = "before + BM25", "tuned + BM25"
TASK = "held out"
SPEARMAN = "Spearman"
SHOWN = ("R@1", "R@10", "nDCG@10")
SHOWN_BY_LABEL = ("nDCG@1", "nDCG@10")  # recall of the many texts of a label says little

Outcomes = dict[str, Outcome]  # of one system, by metric


class Measured(NamedTuple):
    table: ResultTable  # every system against the vectors before tuning
    verdict: str  # a sentence: what won
    systems: dict[str, Outcomes]  # those that could be measured

    def after_choosing(self) -> Measured:
        """The same with a sentence that says that these examples chose."""
        chose = "These examples also chose the epoch, the lexical weight and the share of vectors beside words."
        return self._replace(verdict=f"{self.verdict} {chose}")

    def to_text(self, width: int = 120) -> str:
        """Return a row for each system: its figures, and how far they are from the vectors before tuning."""
        header, *rows = self._cells()
        right = [False] + [True] * (len(header) - 1)
        return drawn(header, [rows], right, width, [*self._notes, self.verdict])

    def to_markdown(self) -> str:
        header, *rows = self._cells()
        lines = in_markdown(header, rows, [False] + [True] * (len(header) - 1))
        return "\n".join([*lines, "", *(f"- {note}" for note in self._notes), self.verdict, ""])

    @property
    def _notes(self) -> list[str]:
        return [f"{line.group}: {line.note}" for line in self.table.lines if line.note]

    def _cells(self) -> list[list[str]]:
        metrics = list(self.systems[BEFORE])
        rows = {BEFORE: [cell for metric in metrics for cell in (f"{self.systems[BEFORE][metric].value:.1f}", "")]}
        for line in self.table.lines:
            cells = rows.setdefault(line.group, [])
            if line.figure and line.difference:
                value, low, high = line.difference
                cells += [f"{line.figure.value:.1f}", f"{value:+.1f} ({low:.1f} to {high:.1f})"]
            else:
                cells += ["not measured", ""] + ["", ""] * (len(metrics) - 1)
        header = [f"{self.systems[BEFORE][metrics[0]].n:,} {TASK}"]
        header += [cell for metric in metrics for cell in (metric, "difference")]
        return [header, *([name, *cells] for name, cells in rows.items())]


def measure(before: Banyan, after: Banyan, held_out: Examples) -> Measured:
    """Compare two models and words alone on held-out examples.

    Each first text is searched among all different second texts; those that belong to it by any example are relevant,
    or those with its label. The figures are R@1, R@10 and nDCG@10, × 100. Examples with scores are not searched: the
    figure is Spearman's correlation of the cosines with the scores, × 100. Intervals are from the paired bootstrap."""
    if len(held_out) < 2:
        raise BanyanError(f"tuning cannot be measured on {len(held_out)} held-out examples: at least two are needed")
    found = _correlations(before, after, held_out) if held_out.score is not None else _searches(before, after, held_out)
    systems = {name: outcomes for name, outcomes in found.items() if not isinstance(outcomes, BanyanError)}
    rows, others = [], []
    for name, outcomes in list(found.items())[1:]:
        if isinstance(outcomes, BanyanError):
            rows.append(Result(name, TASK, None, str(outcomes)))
            others.append(rows[-1])
        else:
            rows += [Result(name, TASK, outcome, "") for outcome in outcomes.values()]
            others += [Result(name, TASK, systems[BEFORE][metric], "") for metric in outcomes]
    return Measured(tabulate("measured", rows, BEFORE, others), _verdict(systems), systems)


def _searches(before: Banyan, after: Banyan, held_out: Examples) -> dict[str, Outcomes | BanyanError]:
    data = as_retrieval(held_out)
    shown = SHOWN if held_out.label is None else SHOWN_BY_LABEL

    def search(system: Any) -> Outcomes:
        outcomes = {outcome.metric: outcome for outcome in retrieval(system, data, TASK)}
        return {metric: outcomes[metric] for metric in shown}

    return {
        BEFORE: search(before.encode),
        TUNED: search(after.encode),
        BM25: _unless_impossible(lambda: search(_bm25(data.documents))),
        CHARACTERS: _unless_impossible(lambda: search(TfIdf(data.documents))),
        BOTH_BEFORE: _unless_impossible(lambda: search(VectorsAndWords.of(before, data.documents))),
        BOTH_TUNED: _unless_impossible(lambda: search(VectorsAndWords.of(after, data.documents))),
    }


def _correlations(before: Banyan, after: Banyan, held_out: Examples) -> dict[str, Outcomes | BanyanError]:
    assert held_out.score is not None
    pairs = Pairs(held_out.first, held_out.second, held_out.score.astype(np.float64))
    texts = sorted({*held_out.first, *held_out.second})

    def correlate(system: Any) -> Outcomes:
        return {SPEARMAN: replace(similarity(system, pairs, TASK), metric=SPEARMAN)}

    return {
        BEFORE: correlate(before.encode),
        TUNED: correlate(after.encode),
        BM25: _unless_impossible(lambda: correlate(_bm25(texts))),
        CHARACTERS: _unless_impossible(lambda: correlate(TfIdf(texts))),
    }


def _bm25(texts: Sequence[str]) -> Bm25:
    return Bm25(Collection.of(words(text) for text in texts))


def _unless_impossible(measured: Callable[[], Outcomes]) -> Outcomes | BanyanError:
    """Return the reason instead if texts have no words or a package is missing."""
    try:
        return measured()
    except BanyanError as error:
        return error


# --- Search ----------------------------------------------------------------------------------------------------------


def as_retrieval(examples: Examples) -> Beir:
    """Return each first text as a query and the different second texts as documents."""
    first, second = (numbers.tolist() for numbers in numbered(examples.first, examples.second))
    documents: dict[int, str] = {}
    relevant: dict[int, set[int]] = {}  # documents by the query's text, or by a label
    keys_of: dict[int, set[int]] = {}  # of a query: its text, or its labels
    keys = first if examples.label is None else examples.label.tolist()
    for query, document, key, text in zip(first, second, keys, examples.second, strict=True):
        documents.setdefault(document, text)
        relevant.setdefault(key, set()).add(document)
        keys_of.setdefault(query, set()).add(key)
    ids = {document: f"d{place}" for place, document in enumerate(documents)}
    queries = [f"q{place}" for place in range(len(examples))]
    judgements = {
        name: {ids[document]: 1 for key in keys_of[query] for document in relevant[key] if document != query}
        for name, query in zip(queries, first, strict=True)
    }
    texts = list(documents.values())
    return Beir(list(ids.values()), texts, texts, queries, examples.first, judgements, 0)


class VectorsAndWords:
    """Ranks by vectors and BM25 together as Searcher does: it fuses the best documents of each.

    BM25 divides words at punctuation. The full-text index of a Searcher has names such as a_b and a.b as a whole, too,
    so its figures on code are a little better."""

    def __init__(self, encode: Encode, bm25: Bm25, share: float) -> None:
        """share: of the vectors."""
        self._encode, self._bm25, self._share = encode, bm25, share

    @classmethod
    def of(cls, model: Banyan, documents: Sequence[str], share: float | None = None) -> VectorsAndWords:
        """share: of the vectors (default: that of the model)."""
        return cls(model.encode, _bm25(documents), model.config.vectors_share if share is None else share)

    def index(self, documents: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
        """Return a function from queries to scores [queries, documents], -inf for documents that are not found."""
        vectors, by_words = unit_vectors(self._encode, list(documents)), self._bm25.index(documents)

        def scores_of(queries: Sequence[str]) -> np.ndarray:
            cosines = unit_vectors(self._encode, list(queries)) @ vectors.T
            bm25 = by_words(queries)
            scores = np.full(cosines.shape, -np.inf, np.float32)
            for row, cosine, score in zip(scores, cosines, bm25, strict=True):
                matching = [place for place in _best(score) if score[place] > 0]
                found = {*_best(cosine), *matching}
                of_words = {place: score[place] for place in matching}
                both = fused({place: cosine[place] for place in found}, of_words, self._share)
                row[list(both)] = list(both.values())
            return scores

        return scores_of


def _best(scores: np.ndarray) -> list[int]:
    depth = min(DEPTH, len(scores))
    return np.argpartition(scores, -depth)[-depth:].tolist()


# --- Verdict ---------------------------------------------------------------------------------------------------------


def _verdict(systems: dict[str, Outcomes]) -> str:
    """Say whether tuning paid, and whether the tuned vectors, words alone, or both together are best."""
    last = {name: list(outcomes.values())[-1] for name, outcomes in systems.items()}
    tuned, before = last[TUNED], last[BEFORE]
    change = _compared(tuned, before)
    if change.sign:
        moved = f"{'raised' if change.sign > 0 else 'lowered'} {tuned.metric} of the vectors"
    else:
        moved = f"did not clearly change {tuned.metric} of the vectors:"
    said = [f"Tuning {moved} from {before.value:.1f} to {tuned.value:.1f} ({change.shown})."]
    of_words = [name for name in (BM25, CHARACTERS) if name in last]
    best_of_words = sorted(of_words, key=lambda name: -last[name].value)[:1]
    rivals = [name for name in (TUNED, *best_of_words, BOTH_TUNED) if name in last]
    if len(rivals) > 1:
        said.append(_best_of({name: last[name] for name in rivals}))
    return " ".join(said)


_CALLED = {
    TUNED: "the tuned vectors",
    BM25: "words alone (BM25)",
    CHARACTERS: "words alone (character TF-IDF)",
    BOTH_TUNED: "vectors and words together",
}


def _best_of(rivals: dict[str, Outcome]) -> str:
    """Return a sentence about which is best, and by how much."""
    best, *others = sorted(rivals, key=lambda name: -rivals[name].value)
    behind = [_compared(rivals[best], rivals[name]) for name in others]
    listed = " and ".join(
        f"{_CALLED[name]} with {rivals[name].value:.1f} ({lead.shown})"
        for name, lead in zip(others, behind, strict=True)
    )
    top = f"{_CALLED[best]} with {rivals[best].metric} {rivals[best].value:.1f}"
    if all(lead.sign > 0 for lead in behind):
        return f"Best are {top}, ahead of {listed}."
    return f"Highest are {top}, though not clearly, ahead of {listed}."


class _Compared(NamedTuple):
    sign: int  # -1 or 1 if the interval excludes 0, else 0
    shown: str


def _compared(one: Outcome, other: Outcome) -> _Compared:
    value, interval = one.difference(other)
    sign = int(interval.low > 0) - int(interval.high < 0)
    return _Compared(sign, f"{value:+.1f}, 95% interval {interval.low:.1f} to {interval.high:.1f}")
