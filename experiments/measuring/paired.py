"""Differences between preset default, preset paper and TF-IDF on each set, with paired bootstrap intervals.

    python -m experiments.measuring.paired --work work --weights weights

The folder --weights holds the output of `reproduce.py --keep-weights`: default-0.npz and banyan-0.npz, and for each
language, such as Hausa, default-ha-0.npz and ha-0.npz. The folder --work holds their tokenizers. Writes
experiments/results/paired.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from banyan.encoder import TOKENIZER, Banyan
from banyan.evaluate import outcome, suites
from banyan.evaluate.outcome import Interval, Outcome
from banyan.evaluate.similarity import read_pairs
from banyan.evaluate.suites import LANGUAGES
from banyan.tokenizer import Tokenizer
from experiments.data import add_data_option, corpus_lines
from experiments.measuring.baselines import IDF_LINES, TfIdf, spearman
from experiments.places import RESULTS
from experiments.records.entries import keep
from experiments.training.prepared import name_of
from experiments.training.weights import kept

COMMAND = "python -m experiments.measuring.paired --work WORK --weights WEIGHTS"
TITLES = {"sts": "Paired: sentences", "words": "Paired: words", "languages": "Paired: languages"}
NOTES = [
    "Spearman's ρ × 100, seed 0; differences have 95% bootstrap intervals over pairs, paired between the two systems",
    "Weights were stored in float16",
]


def model_of(path: Path, language: str, work: Path) -> Banyan | None:
    """The model with these weights, if they were kept."""
    if not path.exists():
        return None
    config, weights = kept(path)
    return Banyan(config, Tokenizer.from_file(work / name_of(language, config) / TOKENIZER), weights)


def rows_of(suite: str, options: argparse.Namespace) -> dict[str, Any]:
    """A row for each set, and one for the mean."""
    found: dict[str, list[Outcome]] = {"default": [], "paper": [], "TF-IDF": []}
    for task in suites.tasks(suite, options.data):
        language = task.name if task.name in LANGUAGES else "en"
        named = {"default": f"default-{language}", "paper": language} if language != "en" else {}
        names = {"default": "default", "paper": "banyan", **named}
        paths = {key: options.weights / f"{name}-0.npz" for key, name in names.items()}
        models = {key: model_of(path, language, options.work) for key, path in paths.items()}
        if not task.paths or models["default"] is None:
            continue
        for key, model in models.items():
            if model is not None:
                found[key] += [row.outcome for row in suites.measure(model.encode, task) if row.outcome]
        tf_idf = TfIdf(corpus_lines(options.data, language, "train", IDF_LINES))
        found["TF-IDF"].append(spearman(tf_idf.score, read_pairs(task.paths[0]), task.name))
    return {"columns": ["set", "pairs", "default", "minus paper", "95%", "minus TF-IDF", "95%"], "rows": _table(found)}


def _table(found: dict[str, list[Outcome]]) -> list[list[Any]]:
    ours = found["default"]
    rows: list[list[Any]] = [[one.task, one.n, round(one.value, 2)] for one in ours]
    rows.append(["mean", None, round(float(np.mean([one.value for one in ours])), 2)])
    for other in ("paper", "TF-IDF"):
        theirs = {one.task: one for one in found[other]}
        paired = [one.minus(theirs[one.task]) if one.task in theirs else None for one in ours]
        for row, one in zip(rows, paired, strict=False):
            row += _told(one.value, one.interval()) if one else [None, "weights not kept"]
        whole = [one for one in paired if one]
        rows[-1] += _told(*outcome.mean(whole)) if len(whole) == len(ours) else [None, "weights not kept"]
    return rows


def _told(value: float, interval: Interval) -> list[Any]:
    return [round(value, 2), f"{interval.low:+.1f} to {interval.high:+.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[[], *TITLES], help="default: all")
    add_data_option(parser)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS / "paired.json")
    options = parser.parse_args()
    for suite in options.suites or TITLES:
        entry = {"title": TITLES[suite], **rows_of(suite, options), "notes": NOTES, "command": COMMAND}
        keep(options.out, suite, entry)


if __name__ == "__main__":
    main()
