"""A baseline for cross-lingual retrieval: bags of words, translated word by word.

    python -m experiments.translations.pmi [LANGUAGE ...] [--dev]

Learns from the training pairs how strongly a word f of the other language is associated with an English word e:
PPMI(f, e) √P(e | f), counted over pairs. The TOP strongest English words of f, as a vector of length 1, are its
translation; a word that was never seen, such as a name or a number, stands for itself. A text is the sum of its words,
weighted by IDF and 1 + log of their counts, and texts are compared by cosine in English. The association and TOP were
chosen on the development pairs. Adds a table to experiments/results/translations.json, or with --dev prints that of the
development pairs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from banyan.baselines.text import words
from banyan.errors import BanyanError
from banyan.evaluate import outcome
from banyan.evaluate.outcome import Interval, Outcome
from banyan.evaluate.translation import Translations, from_vectors
from experiments.data import add_data_option
from experiments.records import entries
from experiments.translations.prepare import OUT
from experiments.translations.split import LANGUAGES, Pair, read_split

COMMAND = "python -m experiments.translations.pmi"
TOP = 5  # English words per word of the other language
MEASURES = ["from English @1", "95%", "@10", "95%", "to English @1", "95%", "@10", "95%"]
_NOTES = [
    "R@1 and R@10 × 100 among all pairs of the set, from and to English; 95% bootstrap intervals over pairs",
    "verses: test pairs of the sources that were trained on; source: a source that was held out whole",
    f"{TOP} English words for each word of the other language, by PPMI √P(e | f) in the training pairs; IDF-weighted "
    "cosine in English",
]


class Side:
    """The words of one language, with their IDF in the training texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.numbers: dict[str, int] = {}
        for text in texts:
            for word in words(text):
                self.numbers.setdefault(word, len(self.numbers))
        self.occurs = (_counts(texts, self.numbers, len(self.numbers)) > 0).astype(np.float64)  # sparse [texts, words]
        self.texts_with = np.asarray(self.occurs.sum(0)).ravel()
        self.idf = np.log(len(texts) / self.texts_with)


class WordByWord:
    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.english, self.other = (Side(texts) for texts in zip(*(pair[:2] for pair in pairs), strict=True))
        self.pairs = len(pairs)
        self.translations = self._learnt()  # sparse [other words, English words]

    def _learnt(self) -> Any:
        both = (self.other.occurs.T @ self.english.occurs).tocoo()
        of_other, of_english = self.other.texts_with[both.row], self.english.texts_with[both.col]
        ppmi = np.maximum(np.log(both.data * self.pairs / (of_other * of_english)), 0)
        strengths = ppmi * np.sqrt(both.data / of_other)
        return _unit(_strongest(sparse.csr_matrix((strengths, (both.row, both.col)), both.shape), TOP))

    def vectors(self, pairs: Translations) -> tuple[np.ndarray, np.ndarray]:
        """Return unit vectors [n, E] of the English texts and of the others, translated."""
        numbers = self._numbers(pairs)
        unseen = len(numbers) - len(self.english.numbers)
        idf = np.concatenate([self.english.idf, np.full(unseen, np.log(self.pairs))])  # as if seen in one pair
        english = _unit(_weighted(pairs.source, numbers, idf))
        translated = _weighted(pairs.target, self.other.numbers, self.other.idf) @ self.translations
        translated.resize(english.shape)
        foreign = {word: place for word, place in numbers.items() if word not in self.other.numbers}
        other = _unit(translated + _weighted(pairs.target, foreign, idf))
        used = np.unique(english.indices)  # the other columns add nothing to a cosine
        return english[:, used].toarray(), other[:, used].toarray()

    def _numbers(self, pairs: Translations) -> dict[str, int]:
        """Return the numbers of the English words, and of all other words of these texts after them."""
        numbers = dict(self.english.numbers)
        for text in [*pairs.source, *pairs.target]:
            for word in words(text):
                numbers.setdefault(word, len(numbers))
        return numbers


def _counts(texts: Sequence[str], numbers: dict[str, int], size: int) -> Any:
    """Return how often each word occurs in each text, sparse [texts, size]. Words without a number are left out."""
    rows, columns = [], []
    for row, text in enumerate(texts):
        known = [numbers[word] for word in words(text) if word in numbers]
        rows += [row] * len(known)
        columns += known
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(texts), size))  # adds up equal words


def _weighted(texts: Sequence[str], numbers: dict[str, int], idf: np.ndarray) -> Any:
    found = _counts(texts, numbers, len(idf))
    found.data = 1 + np.log(found.data)
    return found.multiply(idf).tocsr()


def _strongest(matrix: Any, most: int) -> Any:
    """Keep the largest values of each row of a sparse matrix; values equal to the last of them stay too."""
    for start, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        if end - start > most:
            values = matrix.data[start:end]
            values[values < np.partition(values, -most)[-most]] = 0
    matrix.eliminate_zeros()
    return matrix


def _unit(matrix: Any) -> Any:
    """Return a sparse matrix with rows of length 1; a zero row stays zero."""
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).ravel())
    return (sparse.diags(1 / np.where(norms > 0, norms, 1)) @ matrix).tocsr()


# --- The table -------------------------------------------------------------------------------------------------------


def measure(model: WordByWord, pairs: Sequence[Pair], task: str) -> list[Outcome]:
    texts = Translations.of((pair.english, pair.other) for pair in pairs)
    return from_vectors(*model.vectors(texts), texts, task)


def row(language: str, task: str, outcomes: Sequence[Outcome]) -> list[Any]:
    return [language, task, outcomes[0].n, *(cell for one in outcomes for cell in _cells(one.value, one.interval()))]


def mean_row(task: str, measured: Sequence[Sequence[Outcome]]) -> list[Any]:
    means = [outcome.mean(outcomes) for outcomes in zip(*measured, strict=True)]
    return ["mean", task, None, *(cell for mean in means for cell in _cells(*mean))]


def _cells(value: float, interval: Interval) -> list[Any]:
    return [round(value, 2), f"{interval.low:.1f} to {interval.high:.1f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", choices=[[], *LANGUAGES], metavar="LANGUAGE", help="default: all nine")
    parser.add_argument("--dev", action="store_true", help="print the figures of the development pairs, record none")
    add_data_option(parser)
    parser.add_argument("--out", type=Path, default=OUT, help="file for the table (default: %(default)s)")
    options = parser.parse_args()
    tasks = ("dev",) if options.dev else ("verses", "source")
    measured: dict[str, list[list[Outcome]]] = {task: [] for task in tasks}
    rows = []
    try:
        split = read_split(options.data)
    except BanyanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for language in options.languages or LANGUAGES:
        model = WordByWord(split.parts[language].train)
        for task in tasks:
            measured[task].append(measure(model, getattr(split.parts[language], task), f"{language} {task}"))
            rows.append(row(language, task, measured[task][-1]))
            print(*rows[-1], flush=True)
    rows += [mean_row(task, measured[task]) for task in tasks]
    table = {"columns": ["language", "set", "pairs", *MEASURES], "rows": rows}
    if options.dev:
        print(*rows[-1])
    else:
        command = " ".join([COMMAND, *options.languages])
        title = "Cross-lingual retrieval by words translated with PMI"
        entries.keep(options.out, "pmi", {"title": title, **table, "notes": _NOTES, "command": command})
    return 0


if __name__ == "__main__":
    sys.exit(main())
