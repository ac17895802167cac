"""Baselines without training, on the evaluation sets of the models.

    python -m experiments.measuring.baselines

Cosine of TF-IDF vectors of character 3- and 4-grams (scikit-learn's char_wb, sublinear, IDF from the first 30,000 lines
of the training corpus of the language); Dice's coefficient of character bigrams and of words; for classification, the
majority class of the training data. Figures and intervals come from banyan.evaluate, as for the models. Writes
experiments/results/baselines.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.baselines import tfidf
from banyan.baselines.dice import Dice
from banyan.baselines.tfidf import LINES as IDF_LINES
from banyan.evaluate import outcome, suites
from banyan.evaluate.classification import Labelled, f1, read_labelled
from banyan.evaluate.outcome import Outcome
from banyan.evaluate.retrieval import Beir, read_beir, retrieval
from banyan.evaluate.similarity import Pairs, read_pairs, rho
from experiments.data import add_data_option, corpus_lines
from experiments.places import RESULTS
from experiments.records.entries import keep

COMMAND = "python -m experiments.measuring.baselines"

Score = Callable[[Pairs], np.ndarray]  # the similarity of each pair


# --- The sets --------------------------------------------------------------------------------------------------------


class TfIdf(tfidf.TfIdf):
    def score(self, pairs: Pairs) -> np.ndarray:
        return self.similarity(pairs.first, pairs.second)


class Method(NamedTuple):
    name: str
    score: Score


def methods(data: Path, language: str) -> list[Method]:
    return [
        Method("TF-IDF", TfIdf(corpus_lines(data, language, "train", IDF_LINES)).score),
        Method("Dice, bigrams", lambda pairs: Dice("bigrams").similarity(pairs.first, pairs.second)),
        Method("Dice, words", lambda pairs: Dice("words").similarity(pairs.first, pairs.second)),
    ]


def spearman(score: Score, pairs: Pairs, task: str) -> Outcome:
    """Spearman, with similarities rounded to float32 as in banyan.evaluate."""
    items = np.column_stack([pairs.score, score(pairs).astype(np.float32)])
    return Outcome(task, "spearman", items, rho)


def pair_suite(data: Path, suite: str) -> dict[str, Any]:
    """Spearman of each method on each set of a suite, and the mean."""
    english = methods(data, "en") if suite != "languages" else None
    rows: list[list[Any]] = []
    by_method: dict[str, list[Outcome]] = {}
    for task in suites.tasks(suite, data):
        if not task.paths:
            rows.append([task.name, None, f"not measured: {task.missing}"])
            continue
        pairs = read_pairs(task.paths[0])
        row: list[Any] = [task.name, len(pairs.score)]
        for name, score in english or methods(data, task.name):
            measured = spearman(score, pairs, task.name)
            by_method.setdefault(name, []).append(measured)
            row += [round(measured.value, 2), _interval(measured.interval())]
        rows.append(row)
    means: list[Any] = ["mean", None]
    for outcomes in by_method.values():
        value, interval = outcome.mean(outcomes)
        means += [round(value, 2), _interval(interval)]
    columns = ["set", "pairs", *(column for name in by_method for column in (name, "95%"))]
    return {"columns": columns, "rows": [*rows, means]}


def _interval(interval: outcome.Interval) -> str:
    return f"{interval.low:.1f} to {interval.high:.1f}"


def arguana(data: Path) -> dict[str, Any]:
    task = next(task for task in suites.tasks("retrieval", data) if task.name == "arguana")
    beir: Beir = read_beir(task.paths[0])
    outcomes = retrieval(TfIdf(corpus_lines(data, "en", "train", IDF_LINES)), beir, "arguana")
    rows = [["arguana", o.metric, o.n, round(o.value, 2), _interval(o.interval())] for o in outcomes]
    return {"columns": ["set", "measure", "queries", "TF-IDF", "95%"], "rows": rows}


def always(train: Labelled, test: Labelled, task: str) -> list[Outcome]:
    """Always predict the majority class of the training data. F1, for pairs, is of class 1."""
    answer = np.full(len(test.label), np.bincount(train.label).argmax())
    outcomes = [Outcome(task, "accuracy", (answer == test.label).astype(float), lambda hits: 100 * float(hits.mean()))]
    if test.second is not None:
        outcomes.append(Outcome(task, "f1", np.column_stack([test.label, answer]), f1))
    return outcomes


def majority(data: Path) -> dict[str, Any]:
    rows = []
    for task in suites.tasks("classification", data):
        train, test = (read_labelled(path) for path in task.paths)
        for o in always(train, test, task.name):
            rows.append([task.name, o.metric, o.n, round(o.value, 2), _interval(o.interval())])
    return {"columns": ["set", "measure", "texts", "majority class", "95%"], "rows": rows}


_TFIDF = (
    "TF-IDF: cosine of character 3- and 4-grams inside words (scikit-learn char_wb), sublinear counts, IDF from the "
    f"first {IDF_LINES:,} lines of the training corpus of the language"
)
_DICE = (
    "Dice: twice the number of common items over the number of all items, with multiplicity, lower-cased; bigrams are "
    "of characters inside white-space words"
)
_PAIRS = "Spearman's ρ × 100 between similarities and human scores; 95% bootstrap intervals over pairs"
_NOTES = [_PAIRS, _TFIDF, _DICE]
PARTS: dict[str, tuple[str, Callable[[Path], dict[str, Any]], list[str]]] = {
    "sts": ("English sentence sets", lambda data: pair_suite(data, "sts"), _NOTES),
    "languages": ("Nine languages", lambda data: pair_suite(data, "languages"), _NOTES),
    "words": ("Word sets", lambda data: pair_suite(data, "words"), _NOTES),
    "retrieval": ("Retrieval", arguana, [_TFIDF]),
    "classification": (
        "Classification: majority class",
        majority,
        ["Always predicts the most frequent class of the training data; MRPC: F1 of class 'paraphrase'"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    add_data_option(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "baselines.json")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        title, measure, notes = PARTS[name]
        keep(options.out, name, {"title": title, **measure(options.data), "notes": notes, "command": COMMAND})


if __name__ == "__main__":
    main()
