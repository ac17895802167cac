"""The data of most sections of RESULTS.md: the training runs, the paper's tables, the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.records import entries
from experiments.records.store import RUNS, SMALL, Records


class Material(NamedTuple):
    records: Records
    paper: dict[str, Any]
    baselines: dict[str, Any]
    small: Records  # runs on a CPU

    @classmethod
    def read(cls, results: Path) -> Material:
        paper, baselines = (entries.read(results / f"{name}.json") for name in ("paper", "baselines"))
        return cls(Records.read(results / RUNS), paper, baselines, Records.read(results / SMALL))

    def cell(self, name: str, row: str, column: str) -> dict[str, Any] | None:
        """A cell of one of the paper's tables."""
        return self.paper["tables"][name].get(row, {}).get(column)

    def baseline(self, name: str, of: Sequence[str], column: str) -> float | None:
        """A figure of a baseline: the table, the first cells of its row, and the column."""
        content = self.baselines.get(name)
        if not content or column not in content["columns"]:
            return None
        rows = [row for row in content["rows"] if row[: len(of)] == list(of)]
        return rows[0][content["columns"].index(column)] if rows else None
