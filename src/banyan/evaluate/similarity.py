"""Sentence similarity: do the cosines of pairs rank as people's scores do?"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banyan.errors import BanyanError


class Pairs(NamedTuple):
    first: list[str]
    second: list[str]
    score: np.ndarray  # float64 [n]


def read_pairs(path: str | Path) -> Pairs:
    """Two texts and a score a line, in the first three columns of a .csv or (any other ending) of tab-separated
    text; a first line whose third column is no number is a header."""
    path = Path(path)
    dialect = csv.excel if path.suffix == ".csv" else _Tabs
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


class _Tabs(csv.excel_tab):
    quoting = csv.QUOTE_NONE


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def spearman(encode: Callable[[Sequence[str]], np.ndarray], pairs: Pairs) -> float:
    """Spearman's rho × 100 of the cosines against the scores."""
    from scipy.stats import spearmanr

    a, b = encode(pairs.first), encode(pairs.second)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.einsum("ij,ij->i", a, b) / np.where(norms > 0, norms, 1)
    if np.ptp(cosine) == 0 or np.ptp(pairs.score) == 0:
        return 0.0  # a constant ranks nothing
    return 100 * float(spearmanr(cosine, pairs.score).statistic)
