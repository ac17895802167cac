"""Small runs on a CPU: which half of a decomposition goes to which child, and spaced punctuation.

    python -m experiments.training.small --work work                   # every run that is not recorded yet
    python -m experiments.training.small linear-age --seeds 0 1 --work work

Each run is evaluated on two development sets, with their text as it is and with its punctuation set apart from words
(spacing.py). Records go to experiments/results/small.jsonl; `python -m experiments.pages` makes the tables of
docs/experiments.md from them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from banyan.backends._numba import induce
from banyan.config import SETTINGS
from banyan.corpus.store import Store
from banyan.encoder import Banyan
from banyan.evaluate.similarity import Pairs, read_pairs, spearman
from banyan.model.functions import Functions
from banyan.model.graph import check_ragged, entangle
from banyan.support.display import Display
from experiments.data import add_data_option
from experiments.places import RESULTS
from experiments.records import store
from experiments.records.store import SMALL
from experiments.training.amounts import SPACED
from experiments.training.prepared import prepared
from experiments.training.reproduce import finished
from experiments.training.runs import Experiment
from experiments.training.spacing import spaced
from experiments.training.trained import trained
from experiments.training.weights import Weights
from experiments.versions import commit

SETS = {"stsb_dev_clean": "stsb_dev_clean.tsv", "semrel_dev/en": "semrel_dev/en.csv"}
_LINEAR: dict[str, Any] = {"dim": 64, "channels": 4, "vocab_size": 8000, "batch_size": 32, "epochs": 1, "lr": 1e-3}
_DIAGONAL: dict[str, Any] = {**_LINEAR, "functions": "diagonal", "channels": 32}
_PAPER: dict[str, Any] = {"candidates": "batch", "epochs": 1, "batch_size": 128}


def _run(name: str, preset: str, settings: dict[str, Any], amount: str = "40k") -> Experiment:
    return Experiment(name, ("small",), 1, preset=preset, settings=settings, choosing=True, amount=amount)


_HALVES = SETTINGS["halves"].choices
RUNS = [
    *(_run(f"linear-{halves}", "self-strae", {**_LINEAR, "halves": halves}) for halves in _HALVES),
    _run(f"linear-age{SPACED}", "self-strae", _LINEAR, f"40k{SPACED}"),
    *(_run(f"diagonal-{halves}", "self-strae", {**_DIAGONAL, "halves": halves}, "20k") for halves in _HALVES),
    *(
        _run(f"diagonal-age-{name}{form}", "self-strae", {**_DIAGONAL, "epochs": 8, "lr": lr}, f"20k{form}")
        for name, lr in (("long", 1e-3), ("long-slow", 1e-4))
        for form in ("", SPACED)
    ),
    _run("paper-40k", "paper", _PAPER),
    _run(f"paper-40k{SPACED}", "paper", _PAPER, f"40k{SPACED}"),
    _run("paper", "paper", _PAPER, "160k"),
    _run(f"paper{SPACED}", "paper", _PAPER, f"160k{SPACED}"),
]


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    place = options.results / SMALL
    todo = [(run, seed) for seed in options.seeds for run in RUNS if not options.names or run.name in options.names]
    for experiment, seed in todo:
        if finished(store.find(place, experiment.name, seed), experiment.recorded(seed)):
            print(f"{experiment.name}-{seed}: already recorded")
            continue
        record = measured(experiment, seed, options)
        store.put(place, record)
        print(experiment.name, seed, f"{record['training']['seconds']:.0f} s", record["figures"], flush=True)
    return 0


def measured(experiment: Experiment, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train a run and evaluate it on both forms of the development sets."""
    config, display = experiment.config(seed), Display(quiet=not sys.stderr.isatty())
    text = prepared(experiment.language, options.data, options.work, display, config, experiment.amount)
    folder = options.work / "runs" / f"small-{experiment.name}-{seed}"
    weights, record = trained(experiment, seed, text, folder, torch.device("cpu"), display)
    model = Banyan(config, text.tokenizer, weights)
    record["commit"] = commit("src")
    record["equal_merges"] = _equal_merges(text.dev, weights)
    record["figures"] = {form: _figures(model, options.data, form == "spaced") for form in ("raw", "spaced")}
    return record


def _equal_merges(held_out: Store, weights: Weights) -> float:
    """The share of merges that join two equal nodes, in the trees of held-out sentences."""
    tokens, offsets = check_ragged(*held_out.batch(np.arange(len(held_out))))
    functions = Functions(*(weights[name].astype(np.float64) for name in Functions._fields))
    forest, _ = induce(tokens, offsets, weights["embedding"], tokens, functions)
    left, right = entangle(forest).node_of[forest.children].T
    return float((left == right).mean())


def _figures(model: Banyan, data: Path, in_spaced_form: bool) -> dict[str, float]:
    found = {}
    for name, file in SETS.items():
        pairs = read_pairs(data / "eval" / file)
        if in_spaced_form:
            first, second = ([spaced(text) for text in texts] for texts in (pairs.first, pairs.second))
            pairs = Pairs(first, second, pairs.score)
        found[name] = spearman(model.encode, pairs)
    return found


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *(run.name for run in RUNS)])
    add_data_option(parser)
    parser.add_argument("--work", type=Path, required=True, help="holds prepared corpora and unfinished runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"holds {SMALL}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
