"""Records of training runs: a JSON file for each run in a folder, or a line for each in a JSON-lines file."""

from __future__ import annotations

import fcntl
import json
import os
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from banyan.support.files import write_text
from experiments.records.estimates import Estimate

RUNS = "runs"  # the folder of the runs behind the tables, in experiments/results
IDEAS = "ideas.jsonl"  # the runs that were measured on the development sets alone
SMALL = "small.jsonl"  # small runs on a CPU

Record = dict[str, Any]


# --- Files -----------------------------------------------------------------------------------------------------------


def read(place: Path) -> list[Record]:
    """All records of a folder or a JSON-lines file; none if it is not there."""
    if place.suffix == ".jsonl":
        lines = place.read_text(encoding="utf-8").splitlines() if place.is_file() else []
        return [json.loads(line) for line in lines]
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(place.glob("*.json"))]


def find(place: Path, name: str, seed: int) -> Record | None:
    """The record of a run, if there is one."""
    if place.suffix == ".jsonl":
        return next((one for one in read(place) if _key(one) == (name, seed)), None)
    path = place / f"{name}-{seed}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def put(place: Path, record: Record) -> None:
    """Write a record, or replace the one of the same name and seed. Several processes may do so at the same time."""
    if place.suffix == ".jsonl":
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place.parent):
            every = {_key(one): one for one in [*read(place), record]}
            lines = [json.dumps(every[key], ensure_ascii=False) + "\n" for key in sorted(every)]
            write_text(place, "".join(lines))
        return
    place.mkdir(parents=True, exist_ok=True)
    write_text(place / f"{record['name']}-{record['seed']}.json", json.dumps(record, indent=1) + "\n")


def _key(record: Record) -> tuple[str, int]:
    return record["name"], record["seed"]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the folder, and hold it. The lock ends with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# --- Figures ---------------------------------------------------------------------------------------------------------


class Records:
    """Records by name, each with its seeds in order."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._of: dict[str, list[Record]] = {}
        for record in sorted(records, key=_key):
            self._of.setdefault(record["name"], []).append(record)

    @classmethod
    def read(cls, place: Path) -> Records:
        return cls(read(place))

    def __getitem__(self, name: str) -> list[Record]:
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
        """The note of the evaluation about a set."""
        notes = (one.get("note") for record in self[name] for one in record["figures"] if one["task"] == task)
        return next((note for note in notes if note), "")

    def score(self, name: str, group: str) -> Estimate:
        """The mean over the sets of a group: "sts" or "words"."""
        return _estimate([record["scores"][group] for record in self[name] if group in record["scores"]])

    def mean_over(self, names: Sequence[str], metric: str) -> Estimate:
        """The mean over the test sets of several runs (the languages), for each seed that all of them have."""
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
