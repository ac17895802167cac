"""Which runs a command asks for, and in which order they are trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from banyan.errors import BanyanError
from experiments.training.ideas import IDEAS
from experiments.training.runs import EXPERIMENTS, GROUPS, PAPER, Experiment


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The runs of these names and groups, in the order in which they are defined."""
    wanted, every = set(names), [*EXPERIMENTS.values(), *IDEAS]
    if "paper" in wanted:
        wanted = wanted - {"paper"} | set(PAPER)
    known = {"all"} | {name for one in every for name in (one.name, *one.groups)}
    for name in wanted - known:
        raise BanyanError(f"there is no run {name}: choose all, {', '.join(GROUPS)}, or {', '.join(EXPERIMENTS)}")
    named = [one for one in every if one.name in wanted or wanted.intersection(one.groups)]
    return [*EXPERIMENTS.values(), *(one for one in named if one.choosing)] if "all" in wanted else named


def plan(experiments: Sequence[Experiment], seeds: Sequence[int]) -> list[tuple[Experiment, int]]:
    """Runs and seeds in order: one seed of everything, so that every cell is filled; then more, by importance."""
    first = [(one, seeds[0]) for one in experiments]
    by_importance = sorted(experiments, key=lambda one: one.importance)
    tiers = sorted({one.importance for one in experiments})
    more = [(one, seed) for tier in tiers for seed in seeds[1:] for one in by_importance if one.importance == tier]
    return first + more
