"""The scores of a model with fewer dimensions, with int8 vectors and with binary vectors.

    python -m experiments.measuring.compact model/
    python -m experiments.measuring.compact weights/banyan-0.npz --suite sts

Each column is the mean over the sets of a group. Similarity is the cosine or, for bits, 1 - 2h / dimensions with the
Hamming distance h. Adds a table to experiments/results/compact.json. For the loss on each set, with its interval, use
banyan eval model/ --precision int8 --truncate-dim 128 --against model/ --suite dev --data DIR.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from banyan.compact import PRECISIONS, Form, comparable
from banyan.encoder import Banyan
from banyan.evaluate import suites
from experiments.data import add_data_option
from experiments.places import RESULTS
from experiments.records.entries import keep
from experiments.training.weights import load

HALVINGS = 4  # numbers of dimensions: 256, 128, 64, 32
METRICS = ("spearman", "nDCG@10", "accuracy")  # one for each kind of set


def forms(dim: int) -> list[Form]:
    return [Form(dim >> times, precision) for precision in PRECISIONS for times in range(HALVINGS) if dim >> times]


def scores(model: Banyan, form: Form, tasks: Sequence[suites.Task]) -> dict[str, float]:
    """The mean over each group of sets, by group and measure."""
    found: dict[str, list[float]] = {}
    for task in tasks:
        for row in suites.measure(comparable(model, form), task):
            if row.outcome is not None and row.outcome.metric in METRICS:
                found.setdefault(f"{row.group}, {row.outcome.metric}", []).append(row.outcome.value)
    return {name: statistics.fmean(values) for name, values in found.items()}


def table(model: Banyan, tasks: Sequence[suites.Task]) -> dict[str, Any]:
    measured = [(form, scores(model, form, tasks)) for form in forms(model.dim)]
    rows = [
        [form.precision, form.dim, form.width * form.dtype.itemsize, *(round(value, 2) for value in values.values())]
        for form, values in measured
    ]
    return {"columns": ["precision", "dimensions", "bytes", *measured[0][1]], "rows": rows}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder, or an .npz of weights beside its tokenizer.json")
    add_data_option(parser)
    parser.add_argument("--suite", default="dev", choices=suites.SUITES, help="default: dev")
    parser.add_argument("--languages", nargs="+", default=[], metavar="LANG", help="for the suites languages and dev")
    parser.add_argument("--out", type=Path, default=RESULTS / "compact.json")
    options = parser.parse_args(arguments)
    tasks = suites.tasks(options.suite, options.data, options.languages)
    name = Path(options.model).stem
    entry = {
        "title": f"Smaller vectors: {name}, suite {options.suite}",
        **table(load(options.model), tasks),
        "notes": [f"{task.name}: {task.missing}" for task in tasks if task.missing],
        "command": f"python -m experiments.measuring.compact {options.model} --suite {options.suite}",
    }
    keep(options.out, " ".join([name, options.suite, *options.languages]), entry)


if __name__ == "__main__":
    main()
