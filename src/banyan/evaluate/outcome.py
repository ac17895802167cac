"""Outcome: the result of a model on a set, with bootstrap intervals; paired intervals for two models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from banyan.errors import BanyanError

RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A 95% interval: percentiles of the bootstrap."""

    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """One figure for one set.

    `items` has a row for each pair, query or text, and `statistic` computes the figure from them. So the set can be
    resampled, with the same draws for another model."""

    task: str  # "stsb"
    metric: str  # "spearman"
    items: np.ndarray
    statistic: Callable[[np.ndarray], float]

    @property
    def value(self) -> float:
        """The figure."""
        return self.statistic(self.items)

    @property
    def n(self) -> int:
        """The number of items."""
        return len(self.items)

    def interval(self, seed: int = 0) -> Interval:
        """Return the 95% interval from 1,000 bootstrap draws of the items."""
        return _percentiles([self.statistic(self.items[drawn]) for drawn in _draws(self.n, seed)])

    def difference(self, other: Outcome, seed: int = 0) -> tuple[float, Interval]:
        """Return this figure minus the other, with a paired interval: both use the same draws of the items."""
        paired = self.minus(other)
        return paired.value, paired.interval(seed)

    def minus(self, other: Outcome) -> Outcome:
        """Return the difference as an outcome. Its draws are positions of items, the same in both."""
        if (self.task, self.metric, self.n) != (other.task, other.metric, other.n):
            raise BanyanError(f"{self.task} ({self.n}) and {other.task} ({other.n}) cannot be compared item by item")
        return Outcome(
            self.task,
            self.metric,
            np.arange(self.n),
            lambda drawn: self.statistic(self.items[drawn]) - other.statistic(other.items[drawn]),
        )


def mean(outcomes: Sequence[Outcome], seed: int = 0) -> tuple[float, Interval]:
    """Return the mean of several sets with its interval. Each set is resampled independently."""
    drawn = [
        [outcome.statistic(outcome.items[drawn]) for drawn in _draws(outcome.n, seed + i)]
        for i, outcome in enumerate(outcomes)
    ]
    return float(np.mean([outcome.value for outcome in outcomes])), _percentiles(np.mean(drawn, axis=0))


def percent(items: np.ndarray) -> float:
    """Return the mean × 100."""
    return 100 * float(items.mean())


def _draws(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))


def _percentiles(values: Sequence[float] | np.ndarray) -> Interval:
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return Interval(float(low), float(high))
