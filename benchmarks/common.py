"""Sentences to measure on, timing, and the printing of figures."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.data import corpus, corpus_lines
from experiments.hardware import processor
from experiments.versions import commit


def sentences(n: int, data: Path) -> tuple[list[str], str]:
    """n distinct English sentences and their source: the corpus in the data folder or, without it, random words."""
    if corpus(data, "en", "train").is_file():
        return corpus_lines(data, "en", "train", n), "English Wikipedia"
    return _made_up(n), "random words (there is no English corpus)"


def _made_up(n: int) -> list[str]:
    """Sentences of about 21 random words, with lengths and frequencies (Zipf) as in real text."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    weights = 1 / (np.arange(len(letters)) + 3)
    lengths = np.clip(rng.poisson(2 + 1.2 * np.log10(np.arange(1, 80_001))), 1, 16)
    words = np.array(["".join(rng.choice(letters, k, p=weights / weights.sum())) for k in lengths])
    frequency = 1 / (np.arange(len(words)) + 2.7)
    drawn = words[rng.choice(len(words), 30 * n, p=frequency / frequency.sum())]
    made, at = [], 0
    for length in np.clip(rng.normal(21, 8, n), 4, 30).astype(int):
        made.append(" ".join(drawn[at : at + length]).capitalize() + ".")
        at += length
    return made


def best(function: Callable[[], Any], repeats: int = 5) -> float:
    """The shortest of several times, in seconds, because other work on the machine only adds time."""
    shortest = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def report(tables: dict[str, list[dict[str, Any]]], **figures: Any) -> None:
    """Print tables and, as the last line, one JSON object with the same figures."""
    console = Console(width=120)
    figures["commit"] = commit("src", "benchmarks") or "unknown"
    figures["machine"] = f"{os.cpu_count()} × {processor()}, Python {platform.python_version()}"
    for title, rows in tables.items():
        table = Table()
        for name in rows[0]:
            table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
        for row in rows:
            table.add_row(*(_written(value) for value in row.values()))
        console.print(title, table, highlight=False)
    for name, value in figures.items():
        console.print(f"{name.replace('_', ' ')}: {_written(value)}", highlight=False)
    print(json.dumps({"tables": tables, **figures}))


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
