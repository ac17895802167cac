"""What a campaign is given and what it returns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """How a campaign runs. `long` tries everything; otherwise a sample that fits into the hour."""

    work: Path  # a folder of its own, removed afterwards
    seed: int = 0
    long: bool = False

    def cases(self, sample: int, all_of_them: int) -> range:
        return range(all_of_them if self.long else sample)

    def rng(self, *case: object) -> random.Random:
        """The source of all randomness of a case: it can be run again alone."""
        return random.Random("/".join(map(str, (self.seed, *case))))


@dataclass
class Outcome:
    """Counts of what was tried, and one line for each failure or for what could not be tried."""

    tried: Counter[str] = field(default_factory=Counter)  # by kind
    failed: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)  # measured beside: name, value

    def count(self, kind: str, problem: str | None = None) -> None:
        self.tried[kind] += 1
        if problem is not None:
            self.fail(f"{kind}: {problem}")

    def fail(self, problem: str) -> None:
        self.failed.append(problem.encode("utf-8", "backslashreplace").decode())  # it may quote odd strings
        print(f"  FAILED {self.failed[-1]}", flush=True)

    def lines(self) -> Iterator[str]:
        yield f"tried {sum(self.tried.values()):,}, failed {len(self.failed):,}"
        yield from (f"  {kind}: {count:,}" for kind, count in sorted(self.tried.items()))
        yield from (f"  {name}: {value}" for name, value in self.figures)
        yield from (f"  NOT TRIED {reason}" for reason in self.not_tried)
