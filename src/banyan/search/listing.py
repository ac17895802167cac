"""Clusters and near-duplicates as text and JSON, and a table of all rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from banyan.errors import BanyanError
from banyan.search.clusters import Overview
from banyan.search.rows import Rows
from banyan.support import files
from banyan.support.drawing import shorten, visible

GROUPS = 10  # groups of near-duplicates to show
FORMS = (".csv", ".jsonl")
_AT_ONCE = 4096


def to_text(overview: Overview, rows: Rows) -> str:
    lines = []
    for cluster in overview.clusters:
        lines.append(f"{cluster.number:3}. {cluster.size:,} texts: {visible(', '.join(cluster.phrases))}")
        lines += [f"       {shorten(visible(text), 110)}" for text in cluster.typical]
    extra = sum(len(group) - 1 for group in overview.duplicates)
    lines.append(f"\nnear-duplicates: {len(overview.duplicates):,} groups, {extra:,} texts similar to an earlier one")
    for group in overview.duplicates[:GROUPS]:
        lines.append(f"  {len(group):,} similar texts")
        lines += [f"       {_place(row)}  {shorten(visible(row['text']), 90)}" for row in _some(overview, group, rows)]
    if len(overview.duplicates) > GROUPS:
        lines.append(f"  and {len(overview.duplicates) - GROUPS:,} more; use -o FILE.csv to list all")
    return "\n".join(lines)


def to_json(overview: Overview, rows: Rows) -> str:
    clusters = [vars(cluster) for cluster in overview.clusters]
    groups = [rows.take(overview.ids[group], ["text", "source", "row"]) for group in overview.duplicates]
    alike: list[Any] = [[{name: row[name] for name in ("source", "row", "text")} for row in group] for group in groups]
    return json.dumps({"clusters": clusters, "near_duplicates": alike}, ensure_ascii=False, indent=1)


def _some(overview: Overview, group: np.ndarray, rows: Rows) -> list[dict]:
    return rows.take(overview.ids[group[:3]], ["text", "source", "row"])


def _place(row: dict) -> str:
    return f"{Path(row['source']).name}:{row['row']}"


def check(path: str) -> None:
    """Check, before any work is done, that the file can be written."""
    if Path(path).suffix not in FORMS:
        raise BanyanError(f"cannot write {path}: its name must end in {' or '.join(FORMS)}")
    if not Path(path).parent.is_dir():
        raise BanyanError(f"there is no folder {Path(path).parent} to write {Path(path).name} to")


def write(overview: Overview, rows: Rows, path: str) -> None:
    """Write source, row, cluster, number of the group of near-duplicates (0 for none) and text of every row."""
    groups = np.zeros(len(overview.ids), np.int64)
    for number, group in enumerate(overview.duplicates, 1):
        groups[group] = number
    names = ["source", "row", "cluster", "alike", "text"]
    with files.atomic(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        if Path(path).suffix == ".csv":
            table.writerow(names)
        for start in range(0, len(overview.ids), _AT_ONCE):
            some = rows.take(overview.ids[start : start + _AT_ONCE], ["text", "source", "row"])
            for i, row in enumerate(some, start):
                values = [row["source"], row["row"], int(overview.labels[i]), int(groups[i]), row["text"]]
                if Path(path).suffix == ".csv":
                    table.writerow(values)
                else:
                    file.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False) + "\n")
