"""Cross-lingual retrieval: does a text find its translation among all others, and the translation the text?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome, percent
from banyan.evaluate.retrieval import CUTS, DOCUMENTS, QUERIES, unit_vectors
from banyan.evaluate.similarity import Comparer, Encode, NoVectors
from banyan.support.rows import slices

FORWARD, BACK = "source to target", "target to source"


class Translations(NamedTuple):
    source: list[str]
    target: list[str]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Translations:
        source, target = zip(*pairs, strict=True)
        return cls(list(source), list(target))


def translation(encode: Encode | Comparer, pairs: Translations, task: str) -> list[Outcome]:
    """Return R@1 and R@10, × 100, from the source to the target and back: the share of texts whose translation is among
    the 1 or 10 nearest by cosine of all texts on the other side.

    A pair with an equal text on either side counts as right too. Of wrong texts that are as near as the right one, all
    count as nearer, so that a model without differences scores 0."""
    if not callable(encode):
        raise NoVectors("texts in two languages are compared by their vectors, and this model has none")
    if len(pairs.source) < 2:
        raise BanyanError(f"{task} has one pair: at least two are needed to search among them")
    source, target = (_vectors(encode, texts) for texts in pairs)
    return from_vectors(source, target, pairs, task)


def from_vectors(source: np.ndarray, target: np.ndarray, pairs: Translations, task: str) -> list[Outcome]:
    """Return the same from unit vectors [n, E] of both sides."""
    same = _groups(pairs.source), _groups(pairs.target)
    outcomes = []
    for way, queries, documents in (FORWARD, source, target), (BACK, target, source):
        before = _wrong_before_right(queries, documents, same)
        outcomes += [Outcome(task, f"R@{cut} {way}", before < cut, percent) for cut in CUTS]
    return outcomes


def _vectors(encode: Encode, texts: list[str]) -> np.ndarray:
    return np.concatenate([unit_vectors(encode, texts[part]) for part in slices(len(texts), DOCUMENTS)])


def _groups(texts: list[str]) -> np.ndarray:
    """Return int [n]: equal for equal texts."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts])


def _wrong_before_right(queries: np.ndarray, documents: np.ndarray, same: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return int [n]: the number of wrong documents that are at least as near to the query as the nearest right one."""
    documents = documents.astype(np.float64).T
    before = np.empty(len(queries), np.int64)
    for block in slices(len(queries), QUERIES):
        # Products in float64 rounded to float32: equal vectors tie, wherever in the block they stand.
        cosines = (queries[block].astype(np.float64) @ documents).astype(np.float32)
        right = np.logical_or(*(group[block, None] == group[None] for group in same))
        nearest = np.where(right, cosines, -np.inf).max(1, keepdims=True)
        before[block] = ((cosines >= nearest) & ~right).sum(1)
    return before
