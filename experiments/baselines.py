"""What needs no learning, on the files that the models are measured on.

    python experiments/baselines.py --data ../shared/data

TF-IDF of character 3- and 4-grams (scikit-learn's char_wb, sublinear, IDF from the first 30,000 lines of the training
corpus of the language) compared by cosine; Dice's coefficient of character bigrams and of words; and, for the two
classification sets, always answering the class that is the more frequent in the training data. Figures and intervals
are made by banyan.evaluate, as those of the models are. Writes experiments/results/baselines.json.
"""

from __future__ import annotations

import argparse
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from figures_common import RESULTS, corpus_lines, keep
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from banyan.evaluate import outcome, suites
from banyan.evaluate.classification import Labelled, f1, read_labelled
from banyan.evaluate.outcome import Outcome
from banyan.evaluate.retrieval import Beir, read_beir, retrieval
from banyan.evaluate.similarity import Pairs, read_pairs, rho

COMMAND = "python experiments/baselines.py --data ../shared/data"
IDF_LINES = 30_000

Score = Callable[[Pairs], np.ndarray]  # one similarity for each pair


# --- Dice ------------------------------------------------------------------------------------------------------------


def words(text: str) -> Counter[str]:
    """White-space words, punctuation apart (by Unicode's classes: vowel signs of Hindi are part of a word)."""
    spaced = (" " if unicodedata.category(character)[0] in "PS" else character for character in text.lower())
    return Counter("".join(spaced).split())


def bigrams(text: str) -> Counter[str]:
    """Pairs of neighbouring characters inside a white-space word; of a word of one character, the character."""
    parts = text.lower().split()
    return Counter(part[i : i + 2] for part in parts for i in range(max(len(part) - 1, 1)))


def dice(a: Counter[str], b: Counter[str]) -> float:
    """Twice what both have, over what each has; 0 where neither has anything."""
    both, either = (a & b).total(), a.total() + b.total()
    return 2 * both / either if either else 0.0


def dice_of(features: Callable[[str], Counter[str]]) -> Score:
    def score(pairs: Pairs) -> np.ndarray:
        return np.array([dice(features(a), features(b)) for a, b in zip(pairs.first, pairs.second, strict=True)])

    return score


# --- TF-IDF ----------------------------------------------------------------------------------------------------------


class TfIdf:
    """Rows of length 1, sparse: their products are cosines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), sublinear_tf=True)
        self.vectorizer.fit(lines)

    def rows(self, texts: Sequence[str]) -> sparse.csr_matrix:
        return self.vectorizer.transform(texts)

    def score(self, pairs: Pairs) -> np.ndarray:
        return np.asarray(self.rows(pairs.first).multiply(self.rows(pairs.second)).sum(1)).ravel()

    def encoder(self, queries: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
        """A dense encode() whose cosines with these queries are exactly the sparse ones: coordinates in an orthonormal
        basis of the space that the queries span, and the length of what lies outside it."""
        spanning = self.rows(queries)
        values, vectors = np.linalg.eigh((spanning @ spanning.T).toarray())
        there = values > 1e-9  # equal queries span less
        to_basis = vectors[:, there] / np.sqrt(values[there])

        def encode(texts: Sequence[str]) -> np.ndarray:
            rows = self.rows(texts)
            inside = (rows @ spanning.T).toarray() @ to_basis
            whole = np.asarray(rows.multiply(rows).sum(1)).ravel()
            outside = np.sqrt(np.maximum(whole - (inside**2).sum(1), 0))
            return np.column_stack([inside, outside])

        return encode


# --- The sets --------------------------------------------------------------------------------------------------------


class Method(NamedTuple):
    name: str
    score: Score


def methods(data: Path, language: str) -> list[Method]:
    return [
        Method("TF-IDF", TfIdf(corpus_lines(data, language, "train", IDF_LINES)).score),
        Method("Dice, bigrams", dice_of(bigrams)),
        Method("Dice, words", dice_of(words)),
    ]


def spearman(score: Score, pairs: Pairs, task: str) -> Outcome:
    """To the precision of float32, as banyan.evaluate does it."""
    items = np.column_stack([pairs.score, score(pairs).astype(np.float32)])
    return Outcome(task, "spearman", items, rho)


def pair_suite(data: Path, suite: str) -> dict[str, Any]:
    """Spearman of every method on every set of a suite, with the mean."""
    english = methods(data, "en") if suite != "languages" else None
    rows: list[list[Any]] = []
    by_method: dict[str, list[Outcome]] = {}
    for task in suites.tasks(suite, data):
        if not task.paths:
            rows.append([task.name, None, f"not measured; {task.missing}"])
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
    encode = TfIdf(corpus_lines(data, "en", "train", IDF_LINES)).encoder(beir.queries)
    outcomes = retrieval(encode, beir, "arguana")
    rows = [["arguana", o.metric, o.n, round(o.value, 2), _interval(o.interval())] for o in outcomes]
    return {"columns": ["set", "measure", "queries", "TF-IDF", "95%"], "rows": rows}


def always(train: Labelled, test: Labelled, task: str) -> list[Outcome]:
    """Answering the most frequent class of the training data, whatever is asked; F1 of pairs, of class 1."""
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
    "TF-IDF: character 3- and 4-grams inside words (scikit-learn char_wb), sublinear counts, IDF from the first "
    f"{IDF_LINES:,} lines of the training corpus of the language; cosine"
)
_DICE = (
    "Dice: twice the shared items over all items, counted with repeats, lower-cased; bigrams are of characters, "
    "inside white-space words"
)
_PAIRS = "Spearman's rho × 100 of similarities against people's scores; 95% bootstrap intervals over pairs"
_NOTES = [_PAIRS, _TFIDF, _DICE]
PARTS: dict[str, tuple[str, Callable[[Path], dict[str, Any]], list[str]]] = {
    "sts": ("English sentence sets, nothing learnt", lambda data: pair_suite(data, "sts"), _NOTES),
    "languages": ("Nine languages, nothing learnt", lambda data: pair_suite(data, "languages"), _NOTES),
    "words": ("Word sets, nothing learnt", lambda data: pair_suite(data, "words"), _NOTES),
    "retrieval": ("Retrieval, nothing learnt", arguana, [_TFIDF]),
    "classification": (
        "Classification by the majority class",
        majority,
        ["The class that is the most frequent in the training data is answered always; MRPC: F1 of 'paraphrase'"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all of them without")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS / "baselines.json")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        title, measure, notes = PARTS[name]
        keep(options.out, name, {"title": title, **measure(options.data), "notes": notes, "command": COMMAND})


if __name__ == "__main__":
    main()
