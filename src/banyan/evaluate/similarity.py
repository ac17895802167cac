"""Sentence similarity: Spearman correlation of cosines with human scores."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome
from banyan.tuning.layout import PAIRS, SCORES

Encode = Callable[[Sequence[str]], np.ndarray]  # texts -> [n, E]


class Comparer(Protocol):
    """Takes the place of `encode` for models that compare texts without vectors.

    For retrieval it also needs `index(documents)`, which returns a function from queries to scores
    [queries, documents]."""

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        """Return float32 [n], one score per pair."""
        ...


class NoVectors(BanyanError):
    """Raised when a Comparer is measured on a set that needs vectors."""


class Pairs(NamedTuple):
    first: list[str]
    second: list[str]
    score: np.ndarray  # float64 [n]


def read_pairs(path: str | Path) -> Pairs:
    """Read two texts and a score per line, from the columns that the first line names (sentence1, sentence2, score and
    the other names of banyan.tuning.layout), or else from the first three columns. Other columns are ignored.

    A .csv file is comma-separated, any other is tab-separated. A first line whose third column is not a number is a
    header."""
    path = Path(path)
    dialect = csv.excel if path.suffix == ".csv" else Tabs
    pairs: list[tuple[str, str, float]] = []
    places: tuple[int, int, int] | None = None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, dialect)
            for row in reader:
                if places is None and (places := _named(row)):
                    continue
                first, second, score = places = places or (0, 1, 2)
                if len(row) > max(places) and _is_number(row[score]):
                    pairs.append((row[first], row[second], float(row[score])))
                elif row and reader.line_num > 1:
                    which = "the first three columns" if places == (0, 1, 2) else "the columns that line 1 names"
                    wanted = f"two texts and a finite number in {which}, found {len(row)} columns"
                    hint = "; a first line of sentence1, sentence2 and score among others says which columns to read"
                    raise BanyanError(f"{path}, line {reader.line_num}: expected {wanted}{hint}")
    except (OSError, UnicodeError, csv.Error) as error:
        raise BanyanError(f"cannot read pairs from {path}: {error}") from None
    if len(pairs) < 2:
        raise BanyanError(f"{path} has {len(pairs)} pairs; a correlation needs at least two")
    firsts, seconds, scores = zip(*pairs, strict=True)
    return Pairs(list(firsts), list(seconds), np.array(scores))


def _named(row: list[str]) -> tuple[int, int, int] | None:
    """The places of two texts and their score in a line that names them; None for any other line."""
    names = ["".join(character for character in name.lower() if character.isalnum()) for name in row]
    texts = next((pair for pair in PAIRS if set(pair) <= set(names)), None)
    score = next((name for name in SCORES if name in names), None)
    return (names.index(texts[0]), names.index(texts[1]), names.index(score)) if texts and score else None


class Tabs(csv.excel_tab):
    quoting = csv.QUOTE_NONE


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def similarity(encode: Encode | Comparer, pairs: Pairs, task: str) -> Outcome:
    """Return Spearman's rho × 100 of the cosines with the scores, over the whole set."""
    items = _scored(encode, pairs)
    if not np.isfinite(items).all():
        raise BanyanError(f"{task}: the model returned embeddings that are not finite; their cosines cannot be ranked")
    return Outcome(task, "spearman", items, rho)


def spearman(encode: Encode | Comparer, pairs: Pairs) -> float:
    """Return Spearman's rho × 100 of the cosines with the scores, or NaN if an embedding is not finite."""
    items = _scored(encode, pairs)
    return rho(items) if np.isfinite(items).all() else math.nan


def _scored(encode: Encode | Comparer, pairs: Pairs) -> np.ndarray:
    """Return float64 [n, 2]: the human score, and the cosine rounded to float32, so that pairs of equal texts tie at 1
    instead of being ranked by rounding errors."""
    if not callable(encode):
        return np.column_stack([pairs.score, encode.similarity(pairs.first, pairs.second).astype(np.float32)])
    a, b = (np.asarray(encode(texts), np.float64) for texts in (pairs.first, pairs.second))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.einsum("ij,ij->i", a, b) / np.where(norms > 0, norms, 1)
    return np.column_stack([pairs.score, cosine.astype(np.float32)])


def rho(items: np.ndarray) -> float:
    """Return Spearman's rho × 100 of two columns: Pearson's correlation of their ranks."""
    x, y = ranks(items[:, 0]), ranks(items[:, 1])
    x, y = x - x.mean(), y - y.mean()
    deviations = math.sqrt(x @ x) * math.sqrt(y @ y)
    return 100 * float(x @ y) / deviations if deviations > 0 else 0.0  # a constant has no ranking


def ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1. Equal values share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
