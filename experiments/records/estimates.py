"""A figure over seeds, and whether it differs from the paper's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

NOT_RUN = "not run yet"
CLEAR = 2.0  # standard deviations; figures that differ by more are said to differ


class Estimate(NamedTuple):
    """A figure over seeds. A single seed has no deviation, but the bootstrap interval of its set."""

    values: tuple[float, ...]
    low: float | None = None
    high: float | None = None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        return statistics.stdev(self.values) if self.n > 1 else None

    def told(self) -> str:
        """The mean, with its deviation or interval and the number of seeds."""
        if not self.values:
            return NOT_RUN
        if self.sd is not None:
            return f"{self.mean:.2f} ± {self.sd:.2f} ({self.n})"
        interval = f" [{self.low:.1f}, {self.high:.1f}]" if self.low is not None else ""
        return f"{self.mean:.2f}{interval} (1)"


def mean_of(each: Sequence[Estimate]) -> Estimate:
    """The mean of several figures, for each seed that all of them have."""
    seeds = min(one.n for one in each)
    by_seed = zip(*(one.values[:seeds] for one in each), strict=True)
    return Estimate(tuple(statistics.fmean(values) for values in by_seed))


def paper_told(cell: dict[str, Any] | None) -> str:
    """A cell of the paper's, as text."""
    if cell is None:
        return "not in the paper"
    return f"{cell['mean']:.2f}" + (f" ± {cell['sd']:g}" if cell["sd"] is not None else "")


def difference(ours: Estimate, paper: dict[str, Any] | None) -> str:
    return f"{ours.mean - paper['mean']:+.2f}" if ours.values and paper else ""


def clearly(ours: Estimate, paper: dict[str, Any] | None) -> int | None:
    """1 if ours is higher than the paper's, -1 if lower, 0 if neither; None if one of them is missing.

    The limit is two standard deviations of the difference or, for a single seed, its bootstrap interval.
    """
    if not ours.values or paper is None:
        return None
    apart = ours.mean - paper["mean"]
    if ours.sd is not None:
        noise = CLEAR * math.hypot(ours.sd, paper["sd"] or 0.0)
    elif ours.low is not None and ours.high is not None:
        noise = ours.mean - ours.low if apart > 0 else ours.high - ours.mean
    else:
        noise = 0.0
    return 0 if abs(apart) <= noise else int(math.copysign(1, apart))
