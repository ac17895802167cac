"""README's claims about speed, with what was measured elsewhere beside them. A claim is a number with its source."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from experiments.pages import numbers, sources
from experiments.pages.numbers import Claim

BOUNDS = {">": "less than", "<": "more than"}
TOLERANCE = 0.1  # a figure that is worse by more than this share no longer holds


class Checked(NamedTuple):
    what: str
    script: str
    claimed: str  # the number, as README has it
    measured: str  # in the same form; "" if it was not measured
    holds: bool | None  # None if it was not measured

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "does not hold", None: "not measured here"}[self.holds]


def checked(readme: str, measured: Path) -> list[Checked]:
    """Each claim in the tables of README ("at least", "at most", a bound), against the JSON in a folder."""
    names, found = sources.names(benchmarks=measured), []
    for line in readme.splitlines():
        if line.startswith("|"):
            what, scripts = line.split("|")[1].strip(), re.findall(r"`(\w+/[\w/]+\.py)`", line)
            claims = [claim for claim in numbers.claims(line) if claim.sense or claim.relation != "="]
            for claim in claims:
                measured_, holds = _measured(claim, names)
                told = f"{claim.sense or BOUNDS[claim.relation]} {_in_words(line, claim.number)}"
                found.append(Checked(what.replace("`", ""), scripts[-1] if scripts else "", told, measured_, holds))
    return found


def _in_words(line: str, number: str) -> str:
    """The number and the words behind it."""
    found = re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d.])[^;,:|()]{{0,40}}", line.split("<!--")[0])
    return found[0].replace("`", "").strip() if found else number


def _measured(claim: Claim, names: sources.Names) -> tuple[str, bool | None]:
    try:
        value = claim.value(names)
    except LookupError:
        return "", None
    return numbers.like(claim.number, value) if claim.relation == "=" else f"{value:.2g}", kept(claim, value)


def kept(claim: Claim, value: float) -> bool:
    """Whether a measured value is not worse than the claim by more than the tolerance."""
    if not claim.sense:
        return claim.holds(value)
    number = numbers.amount(claim.number)
    return value >= number * (1 - TOLERANCE) if claim.sense == "at least" else value <= number * (1 + TOLERANCE)
