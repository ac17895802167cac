"""Differences between our models, and between them and TF-IDF, on each set, with paired bootstrap intervals.

    python -m experiments.measuring.paired --cosines DIR

DIR holds what `reproduce` and `taught` wrote with --keep-cosines: NAME-SEED.npz with the cosines of the pairs of each
set. A figure is the mean over the seeds that are there. Writes experiments/results/paired.json. A run without cosines
in DIR keeps the figures it has there, and its differences from TF-IDF.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banyan.evaluate import outcome, suites
from banyan.evaluate.outcome import Interval, Outcome
from banyan.evaluate.similarity import Pairs, read_pairs, rho
from banyan.evaluate.suites import LANGUAGES
from experiments.data import add_data_option, corpus_lines
from experiments.measuring.baselines import IDF_LINES, TfIdf
from experiments.places import RESULTS
from experiments.records import entries
from experiments.records.entries import keep

COMMAND = "python -m experiments.measuring.paired --cosines DIR"
TITLES = {"sts": "Paired: sentences", "words": "Paired: words", "languages": "Paired: languages"}
RUNS = {  # runs in English, and for each language
    "default": ("default", "default-{}"),
    "running text": ("default-paragraphs", ""),
    "teacher": ("taught", ""),
    "translations": ("", "translated-{}"),
}
NOTES = [
    "Spearman's ρ × 100, mean over the seeds; differences have 95% bootstrap intervals over the pairs of a set, drawn "
    "alike for both systems",
]


def of_seeds(cosines: Sequence[np.ndarray], pairs: Pairs, task: str) -> Outcome:
    """The mean over seeds of Spearman's ρ. Its items are positions of pairs."""
    items = [np.column_stack([pairs.score, one]) for one in cosines]
    return Outcome(task, "spearman", np.arange(len(pairs.score)), lambda at: _mean([rho(one[at]) for one in items]))


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def kept(folder: Path, run: str, task: str) -> list[np.ndarray]:
    """The cosines of a set, of every seed of a run."""
    found = []
    for path in sorted(folder.glob(f"{run}-[0-9].npz")) if run else []:
        with np.load(path) as file:
            found += [file[task]] if task in file else []
    return found


def rows_of(suite: str, data: Path, folder: Path) -> dict[str, Any]:
    """A row for each set, and one for the mean. Differences are to default and to TF-IDF."""
    found: dict[str, dict[str, Outcome]] = {}
    tf_idf = {"en": TfIdf(corpus_lines(data, "en", "train", IDF_LINES))} if suite != "languages" else {}
    for task in suites.tasks(suite, data):
        language = task.name if task.name in LANGUAGES else "en"
        pairs = read_pairs(task.paths[0])
        for name, runs in RUNS.items():
            cosines = kept(folder, runs[language != "en"].format(language), task.name)
            if cosines:
                found.setdefault(name, {})[task.name] = of_seeds(cosines, pairs, task.name)
        counted = tf_idf.get(language) or TfIdf(corpus_lines(data, language, "train", IDF_LINES))
        scores = counted.score(pairs).astype(np.float32)
        found.setdefault("TF-IDF", {})[task.name] = of_seeds([scores], pairs, task.name)
    ours = [name for name in RUNS if name in found]
    columns, rows = ["set", "pairs"], [[task, one.n] for task, one in found["TF-IDF"].items()]
    table: list[list[Any]] = [*rows, ["mean", None]]
    for name in ours:
        columns.append(name)
        _add(table, found[name], None)
        for other in ("default", "TF-IDF"):
            if other != name and other in found:
                columns += [f"minus {other}", "95%"]
                _add(table, found[name], found[other])
    return {"columns": columns, "rows": table}


def _add(table: list[list[Any]], ours: dict[str, Outcome], theirs: dict[str, Outcome] | None) -> None:
    """Add the figures of a system to the rows, or its differences from another one."""
    if theirs is None:
        for row in table[:-1]:
            row.append(round(ours[row[0]].value, 2) if row[0] in ours else None)
        table[-1].append(round(_mean([one.value for one in ours.values()]), 2))
        return
    paired = {task: one.minus(theirs[task]) for task, one in ours.items() if task in theirs}
    for row in table[:-1]:
        row += _told(paired[row[0]].value, paired[row[0]].interval()) if row[0] in paired else [None, None]
    table[-1] += _told(*outcome.mean(list(paired.values())))


def carried_over(found: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """The table with the figures that only an earlier one has, without differences from a default that has changed."""
    columns, rows = list(found["columns"]), [list(row) for row in found["rows"]]
    for name in RUNS:
        if name in columns or before is None or name not in before["columns"]:
            continue
        figure = before["columns"].index(name)
        difference = before["columns"].index("minus TF-IDF", figure)
        columns += [name, "minus TF-IDF", "95%"]
        for row, old in zip(rows, before["rows"], strict=True):
            row += [old[figure], *old[difference : difference + 2]]
    return {"columns": columns, "rows": rows}


def _told(value: float, interval: Interval) -> list[Any]:
    return [round(value, 2), f"{interval.low:+.1f} to {interval.high:+.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[[], *TITLES], help="default: all")
    add_data_option(parser)
    parser.add_argument("--cosines", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, default=RESULTS / "paired.json")
    options = parser.parse_args()
    for suite in options.suites or TITLES:
        rows = carried_over(rows_of(suite, options.data, options.cosines), entries.read(options.out).get(suite))
        keep(options.out, suite, {"title": TITLES[suite], **rows, "notes": NOTES, "command": COMMAND})


if __name__ == "__main__":
    main()
