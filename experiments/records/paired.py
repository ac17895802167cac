"""Paired differences of preset `default` from TF-IDF, as experiments/measuring/paired.py records them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from experiments.records import entries

MINUS_TFIDF = "minus TF-IDF"


class Difference(NamedTuple):
    """A difference with its 95% bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        return self.low > 0 or self.high < 0

    def interval(self) -> str:
        return f" (95% interval {self.low:+.1f} to {self.high:+.1f})"


class Paired:
    """The differences by set, and those of the means by group: sts, words, languages."""

    def __init__(self, groups: Mapping[str, dict[str, Any]]) -> None:
        self.of_sets: dict[str, Difference] = {}
        self.of_means: dict[str, Difference] = {}
        for group, content in groups.items():
            at = content["columns"].index(MINUS_TFIDF)
            for name, value, interval in ((row[0], row[at], row[at + 1]) for row in content["rows"]):
                found = Difference(value, *map(float, interval.split(" to ")))
                if name == "mean":
                    self.of_means[group] = found
                else:
                    self.of_sets[name] = found

    @classmethod
    def read(cls, path: Path) -> Paired:
        return cls(entries.read(path))

    def of(self, name: str) -> Difference | None:
        """The difference on a set, or on the mean of a group."""
        return self.of_means.get(name) or self.of_sets.get(name)
