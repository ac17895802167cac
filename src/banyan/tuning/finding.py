"""How well a model finds the second texts of held-out examples. This figure decides when tuning stops, which epoch is
kept, and the lexical weight. (Learned with the rest, the lexical weight would become too small, because the learned
part fits the training examples better than any others.)"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from banyan.evaluate.outcome import Outcome, percent
from banyan.evaluate.similarity import rho
from banyan.support.rows import normalize_rows
from banyan.tuning.batches import Batches

if TYPE_CHECKING:
    from banyan.encoder import Banyan

NDCG, SPEARMAN = "held_out_ndcg", "held_out_spearman"
DEEPEST = 10
WEIGHTS = tuple(0.3 * 1.2**i for i in range(12))  # lexical weights to choose from


class Found(NamedTuple):
    outcome: Outcome  # NDCG or, with scores, SPEARMAN
    lexical_weight: float  # with which it is reached


def figure(model: Banyan, held_out: Batches) -> Found:
    """The figure with the present lexical weight, or with the best one if it is clearly better."""
    vectors, n, E = model.encode_tokens(*held_out.batch()), len(held_out), model.config.dim
    if not model.config.lexical_dim:
        normalize_rows(vectors)
    first, second = vectors[:n], vectors[n : 2 * n]
    learned, lexical = (first[:, part] @ second[:, part].T for part in (slice(E), slice(E, None)))
    present, left_out = model.config.lexical_weight, held_out.left_out()[:, :n]

    def reached(weight: float) -> Outcome:
        cosines = learned + lexical * (weight / present) ** 2  # up to a factor
        if held_out.score is None:
            return Outcome("held out", NDCG, ndcg(cosines, left_out), percent)
        return Outcome("held out", SPEARMAN, np.column_stack([held_out.score, cosines.diagonal()]), rho)

    now, others = reached(present), {weight: reached(weight) for weight in WEIGHTS if model.config.lexical_dim}
    best = max(others, key=lambda weight: others[weight].value, default=None)
    if best is None or others[best].difference(now)[1].low <= 0:
        return Found(now, present)
    return Found(others[best], best)


def as_good(one: Outcome, highest: np.ndarray) -> bool:
    """Whether a figure is at most one standard error of the paired difference below the highest, with these items."""
    value, interval = one.difference(replace(one, items=highest))
    return value + (interval.high - interval.low) / (2 * 1.96) >= 0


def ndcg(cosines: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """nDCG@10 of each first text [n], if its own second text is ranked among those that do not belong to it."""
    better = (cosines >= cosines.diagonal()[:, None]) & ~left_out
    rank = better.sum(1)  # from 1: its own is as good as itself
    return np.where(rank <= DEEPEST, 1 / np.log2(rank + 1), 0)
