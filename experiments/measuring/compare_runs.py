"""Compare two groups of training runs: the figures of their last epochs, with 95% intervals of the differences.

    python -m experiments.measuring.compare_runs cpu0 cpu1 cpu2 --against gpu0 gpu1 gpu2 [--json FILE]

Each run is a model folder or a metrics.jsonl. Runs are paired in the given order (by seed); the interval is Student's t
interval of the mean of the paired differences.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

FIGURES = ("train_loss", "dev_loss", "pairs_spearman")


def last_epoch(run: Path) -> dict[str, float]:
    path = run / "metrics.jsonl" if run.is_dir() else run
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if "finished_epoch" in line][-1]


def difference(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """The mean of the paired differences, and the half-width of its 95% interval."""
    paired = b - a
    half = stats.t.ppf(0.975, len(paired) - 1) * paired.std(ddof=1) / np.sqrt(len(paired))
    return {"difference": float(paired.mean()), "half_width_95": float(half)}


def compare(ours: list[Path], theirs: list[Path]) -> list[dict[str, Any]]:
    rows = []
    for name in FIGURES:
        a, b = (np.array([last_epoch(run)[name] for run in runs]) for runs in (ours, theirs))
        rows.append({"figure": name, "these": a.tolist(), "those": b.tolist(), **difference(a, b)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--against", nargs="+", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    if len(options.runs) != len(options.against) or len(options.runs) < 2:
        parser.error("both sides need the same number of runs, at least two")
    rows = compare(options.runs, options.against)
    table = Table()
    for column in ("figure", "these", "those", "difference, 95% interval"):
        table.add_column(column)
    for row in rows:
        a, b = (np.array(row[side]) for side in ("these", "those"))
        told = f"{row['difference']:+.4f} ± {row['half_width_95']:.4f}"
        spread = (f"{side.mean():.4f} ± {side.std(ddof=1):.4f}" for side in (a, b))
        table.add_row(row["figure"], *spread, told)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
