"""What the runs left: the figures of each, over its seeds."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

NOT_RUN = "not run yet"
CLEAR = 2.0  # deviations, beyond which figures are said to differ


class Estimate(NamedTuple):
    """A figure over seeds. Of one seed alone there is no deviation, but the bootstrap interval of its set."""

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
        if not self.values:
            return NOT_RUN
        if self.sd is not None:
            return f"{self.mean:.2f} ± {self.sd:.2f} ({self.n})"
        interval = f" [{self.low:.1f}, {self.high:.1f}]" if self.low is not None else ""
        return f"{self.mean:.2f}{interval} (1)"


class Records:
    """All runs, by name, each with its seeds in order."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self._of: dict[str, list[dict[str, Any]]] = {}
        for record in sorted(records, key=lambda one: (one["name"], one["seed"])):
            self._of.setdefault(record["name"], []).append(record)

    @classmethod
    def read(cls, folder: Path) -> Records:
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
        return cls(json.loads(path.read_text(encoding="utf-8")) for path in paths)

    def __getitem__(self, name: str) -> list[dict[str, Any]]:
        return self._of.get(name, [])

    def names(self) -> list[str]:
        return list(self._of)

    def figure(self, name: str, task: str, metric: str) -> Estimate:
        found = [
            one
            for record in self[name]
            for one in record["figures"]
            if (one["task"], one.get("metric")) == (task, metric)
        ]
        return _estimate(found)

    def note(self, name: str, task: str) -> str:
        """What evaluation says about the set."""
        notes = (one.get("note") for record in self[name] for one in record["figures"] if one["task"] == task)
        return next((note for note in notes if note), "")

    def score(self, name: str, group: str) -> Estimate:
        """The mean over the sets of a group: "sts" or "words"."""
        return _estimate([record["scores"][group] for record in self[name] if group in record["scores"]])

    def mean_over(self, names: Sequence[str], metric: str) -> Estimate:
        """The mean of several runs' own test sets (the languages), of each seed that all of them have."""
        by_seed: dict[int, list[float]] = {}
        for name in names:
            for record in self[name]:
                own = record["language"], metric
                values = [one["value"] for one in record["figures"] if (one["task"], one.get("metric")) == own]
                by_seed.setdefault(record["seed"], []).extend(values)
        return Estimate(tuple(statistics.fmean(v) for _, v in sorted(by_seed.items()) if len(v) == len(names)))


def _estimate(found: Sequence[dict[str, Any]]) -> Estimate:
    if len(found) == 1:
        return Estimate((found[0]["value"],), found[0]["low"], found[0]["high"])
    return Estimate(tuple(one["value"] for one in found))


def paper_told(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "not in the paper"
    return f"{cell['mean']:.2f}" + (f" ± {cell['sd']:g}" if cell["sd"] is not None else "")


def difference(ours: Estimate, paper: dict[str, Any] | None) -> str:
    return f"{ours.mean - paper['mean']:+.2f}" if ours.values and paper else ""


def clearly(ours: Estimate, paper: dict[str, Any] | None) -> int | None:
    """-1 lower, 1 higher, 0 neither: by two deviations of the difference or, of one seed, by its bootstrap interval."""
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
