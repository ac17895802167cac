"""What a model reached on a set, with how sure that is: bootstrap intervals, paired ones for two models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from banyan.errors import BanyanError

RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """95%, by the percentiles of the bootstrap."""

    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """One figure of one set. `items` has a row for each pair, query or text, and `statistic` makes the figure of them:
    so the set can be drawn again, with the same draws for another model."""

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
        """95%, of 1,000 draws of the items."""
        return _percentiles([self.statistic(self.items[drawn]) for drawn in _draws(self.n, seed)])

    def difference(self, other: Outcome, seed: int = 0) -> tuple[float, Interval]:
        """This one minus the other, on the same items: paired, so what is hard for both does not blur it."""
        paired = self.minus(other)
        return paired.value, paired.interval(seed)

    def minus(self, other: Outcome) -> Outcome:
        """The difference as an outcome of its own: what is drawn is the places of the items in both."""
        if (self.task, self.metric, self.n) != (other.task, other.metric, other.n):
            raise BanyanError(f"{self.task} ({self.n}) and {other.task} ({other.n}) cannot be compared item by item")
        return Outcome(
            self.task,
            self.metric,
            np.arange(self.n),
            lambda drawn: self.statistic(self.items[drawn]) - other.statistic(other.items[drawn]),
        )


def mean(outcomes: Sequence[Outcome], seed: int = 0) -> tuple[float, Interval]:
    """Of several sets, each drawn on its own."""
    drawn = [
        [outcome.statistic(outcome.items[drawn]) for drawn in _draws(outcome.n, seed + i)]
        for i, outcome in enumerate(outcomes)
    ]
    return float(np.mean([outcome.value for outcome in outcomes])), _percentiles(np.mean(drawn, axis=0))


def _draws(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))


def _percentiles(values: Sequence[float] | np.ndarray) -> Interval:
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return Interval(float(low), float(high))
