"""Sentence similarity: do the cosines of pairs rank as people's scores do?"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome

Encode = Callable[[Sequence[str]], np.ndarray]  # texts -> [n, E]


class Comparer(Protocol):
    """What has no vectors and compares texts itself, in the place of `encode`. To be measured on retrieval it offers
    `index(documents)` too: a function of queries to scores [queries, documents]."""

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        """float32 [n], one for each pair."""
        ...


class NoVectors(BanyanError):
    """A Comparer was to be measured on a set that needs vectors."""


class Pairs(NamedTuple):
    first: list[str]
    second: list[str]
    score: np.ndarray  # float64 [n]


def read_pairs(path: str | Path) -> Pairs:
    """Two texts and a score a line, in the first three columns of a .csv or (any other ending) of tab-separated
    text; a first line whose third column is no number is a header."""
    path = Path(path)
    dialect = csv.excel if path.suffix == ".csv" else Tabs
    pairs: list[tuple[str, str, float]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, dialect)
            for row in reader:
                if len(row) >= 3 and _is_number(row[2]):
                    pairs.append((row[0], row[1], float(row[2])))
                elif row and reader.line_num > 1:
                    wanted = "two texts and a finite number as its first three columns"
                    raise BanyanError(f"{path}, line {reader.line_num}: expected {wanted}, found {len(row)} columns")
    except (OSError, UnicodeError, csv.Error) as error:
        raise BanyanError(f"cannot read pairs from {path}: {error}") from None
    if len(pairs) < 2:
        raise BanyanError(f"{path} holds {len(pairs)} pairs; a correlation needs two or more")
    first, second, score = zip(*pairs, strict=True)
    return Pairs(list(first), list(second), np.array(score))


class Tabs(csv.excel_tab):
    quoting = csv.QUOTE_NONE


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def similarity(encode: Encode | Comparer, pairs: Pairs, task: str) -> Outcome:
    """Spearman's rho × 100 of the cosines against the scores, over the whole set."""
    items = _scored(encode, pairs)
    if not np.isfinite(items).all():
        raise BanyanError(f"{task}: the model gave embeddings that are not finite; nothing can be ranked by them")
    return Outcome(task, "spearman", items, rho)


def spearman(encode: Encode, pairs: Pairs) -> float:
    """Spearman's rho × 100 of the cosines against the scores; NaN of a model that gives NaN."""
    items = _scored(encode, pairs)
    return rho(items) if np.isfinite(items).all() else math.nan


def _scored(encode: Encode | Comparer, pairs: Pairs) -> np.ndarray:
    """float64 [n, 2]: the score that people gave, and the cosine to the precision of float32, so that pairs of equal
    texts tie at 1 and are not ranked by how their sums were rounded."""
    if not callable(encode):
        return np.column_stack([pairs.score, encode.similarity(pairs.first, pairs.second).astype(np.float32)])
    a, b = (np.asarray(encode(texts), np.float64) for texts in (pairs.first, pairs.second))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.einsum("ij,ij->i", a, b) / np.where(norms > 0, norms, 1)
    return np.column_stack([pairs.score, cosine.astype(np.float32)])


def rho(items: np.ndarray) -> float:
    """Spearman's rho × 100 of two columns: Pearson's, of their ranks."""
    x, y = ranks(items[:, 0]), ranks(items[:, 1])
    x, y = x - x.mean(), y - y.mean()
    deviations = math.sqrt(x @ x) * math.sqrt(y @ y)
    return 100 * float(x @ y) / deviations if deviations > 0 else 0.0  # a constant ranks nothing


def ranks(values: np.ndarray) -> np.ndarray:
    """From 1; equal values share the mean of their places."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
