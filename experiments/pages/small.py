"""The sections of docs/experiments.md about small runs on a CPU, from experiments/results/small.jsonl: which child gets
which half of a decomposition, and spaced punctuation. Development sets only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.pages.markdown import section, table
from experiments.records.store import SMALL, Records
from experiments.training.amounts import SPACED

Run = dict[str, Any]
SETS = {"STS-B": "stsb_dev_clean", "SemRel": "semrel_dev/en"}
_COMMAND = "`python -m experiments.training.small --work work`"


def render(results: Path) -> str:
    records = Records.read(results / SMALL)
    runs = [run for name in records.names() for run in records[name]]
    return "\n\n".join(part for part in (_halves(runs), _spaced(runs)) if part)


# --- Halves ----------------------------------------------------------------------------------------------------------


def _halves(runs: list[Run]) -> str:
    plain = [run for run in runs if run["settings"]["trees"] == "plain" and not run["amount"].endswith(SPACED)]
    if not plain:
        return ""
    order = ("side", "age", "random")
    plain.sort(key=lambda run: (run["settings"]["functions"], order.index(run["settings"]["halves"]), run["seed"]))
    rows = [
        [
            run["settings"]["functions"],
            run["settings"]["halves"],
            run["seed"],
            f"{run['training']['train_loss']:.3f}",
            *_values(run, "raw"),
        ]
        for run in plain
    ]
    equal = [run["equal_merges"] for run in plain]
    return section(
        "Halves by age",
        "In plain trees, the first half of a decomposition goes to the left child (side), to the older one (age, as in "
        f"the authors' Self-StrAE) or to either by chance (random, a control). {_setting(plain[0])} {_COMMAND}",
        table(["functions", "halves", "seed", "training loss", *SETS], rows),
        "Neighbours with equal keys merge first, because they score exactly 1, even where dropout gives their "
        "occurrences different masks; in the authors' program they then score less. We keep the rule: it is the same "
        "in training and in encoding, and a repeat is never separated by chance. Of all merges in the trees of the "
        f"held-out text, {100 * min(equal):.2f}% to {100 * max(equal):.2f}% join equal neighbours.",
    )


def _setting(run: Run) -> str:
    settings, training = run["settings"], run["training"]
    sentences = training["sentences"] // settings["epochs"]
    return (
        f"Contrastive, {settings['dim']} dimensions, vocabulary {settings['vocab_size']:,}, {sentences:,} sentences, "
        f"{training['steps']:,} steps of {settings['batch_size']}, learning rate {settings['lr']:g}; one CPU thread."
    )


# --- Spaced punctuation ----------------------------------------------------------------------------------------------


def _spaced(runs: list[Run]) -> str:
    pairs = {run["name"].removesuffix(SPACED) for run in runs if run["amount"].endswith(SPACED)}
    chosen = [run for run in runs if run["name"].removesuffix(SPACED) in pairs]
    if not chosen:
        return ""
    chosen.sort(key=lambda run: (run["settings"]["preset"], run["seed"], run["amount"]))
    rows = [
        [
            f"`{run['settings']['preset']}`",
            "spaced" if run["amount"].endswith(SPACED) else "raw",
            run["seed"],
            *_values(run, "raw"),
            *_values(run, "spaced"),
        ]
        for run in chosen
    ]
    columns = ["preset", "trained on", "seed", *(f"{name}, {form}" for form in ("raw", "spaced") for name in SETS)]
    steps = {run["settings"]["preset"]: run["training"]["steps"] for run in chosen}
    told = ", ".join(f"`{preset}` {count:,} steps" for preset, count in sorted(steps.items()))
    return section(
        "Spaced punctuation",
        "The authors' training text, and most sentences of STS-12 to STS-16, are spaced as in the Penn Treebank: "
        "punctuation stands apart from words (`experiments/training/spacing.py`). Each model below is evaluated on the "
        f"development sets as they are (raw) and in that form (spaced): {told}. {_COMMAND}",
        table(columns, rows),
    )


def _values(run: Run, form: str) -> list[str]:
    return [f"{run['figures'][form][task]:.1f}" for task in SETS.values()]
