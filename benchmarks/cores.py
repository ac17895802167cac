"""Sentences per second against the number of threads, from strings to embeddings.

    python -m benchmarks.cores [--sentences 200000] [--preset default] [--draw cores.png]

Measures with up to as many threads as there are cores, and can draw the speed relative to one thread. Checks first that
the embeddings have the same bits with any number of threads. The model has random weights.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from banyan.encoder import Banyan
from banyan.native import kernels
from banyan.support import threads
from benchmarks.common import report, sentences
from benchmarks.encode import rate, trained, untrained
from experiments.data import add_data_option

GREEN = "#2c7a4b"


def with_threads(model: Banyan, n: int, text: list[str]) -> np.ndarray:
    os.environ["BANYAN_THREADS"] = str(n)
    return model.encode(text)


def check(model: Banyan, counts: list[int], text: list[str]) -> None:
    expected = with_threads(model, 1, text)
    for n in counts:
        assert np.array_equal(with_threads(model, n, text), expected), "the bits depend on the number of threads"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    counts = [row["threads"] for row in rows]
    axes.plot(counts, [row["times one thread"] for row in rows], "o-", color=GREEN, label="encode")
    axes.plot(counts, counts, ":", color="grey", label="in proportion")
    axes.set(xlabel="threads", ylabel="speed, relative to one thread")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--preset", default="default", choices=["paper", "default"])
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw speed against threads, as .png or .svg")
    add_data_option(parser)
    options = parser.parse_args()
    text, source = sentences(options.sentences, options.data)
    model = untrained(trained(text[:200_000], options.preset), options.preset)
    cores = threads.available()
    counts = sorted({n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128) if n < cores} | {cores})
    check(model, counts, text[:5000])
    rates: dict[int, float] = dict.fromkeys(counts, 0.0)
    for _ in range(options.rounds):  # in alternation, so that other work on the machine affects all alike
        for n in counts:
            rates[n] = max(rates[n], rate(lambda some, n=n: with_threads(model, n, some), text))
    rows = [{"threads": n, "sentences/s": r, "times one thread": r / rates[1]} for n, r in rates.items()]
    if options.draw:
        draw(rows, options.draw)
    report(
        {f"preset {options.preset}": rows},
        text=source,
        sentences=len(text),
        kernels="native" if kernels() else "Numba",
        most_times_one_thread=max(row["times one thread"] for row in rows),
    )


if __name__ == "__main__":
    main()
