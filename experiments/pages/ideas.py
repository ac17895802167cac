"""The tables of ideas in docs/experiments.md, from experiments/results/ideas: development figures alone."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from experiments.pages.markdown import listed, table
from experiments.records.estimates import CLEAR, NOT_RUN, Estimate
from experiments.records.store import IDEAS, RUNS, Records
from experiments.training.ideas import IDEAS as DEFINED

Run = dict[str, Any]
Settings = dict[str, Any]

SENTENCES = {"STS-B": "stsb_dev_clean", "SemRel": "semrel_dev/en", "QQP": "qqp_dev"}
WORDS, RETRIEVAL = "mturk-771", "quora_small_retrieval"
FIGURES = [*SENTENCES, "mean", "words (MTurk)", "Quora stand-in"]
LISTS = list(dict.fromkeys(idea.groups[0] for idea in DEFINED))  # in the order tried
CODE = {  # what changed in the code, and no setting tells
    "second": "From here on the n-grams of a sketch have marks at the ends of a piece.",
    "fourth": "From here on the PPMI vector of a token without neighbours is 0.",
    "seventh-list": "Training, too, saw each token once in a sentence; later only encoding leaves repeats out.",
    "twelfth-list": "From here on unigram pieces are fitted from a beginning that keeps short words whole.",
}
PAPER: Settings = {  # what preset paper has of the settings that a table may show, by the names in the records
    "dim": 256, "structure": "induced", "ngrams": 0, "init_sketch": 0.0, "init_ppmi": 0.0, "lexical_dim": 0,
    "lexical_weight": 0.7, "init_gate": None, "dropout": 0.1, "subword_model": "bpe", "vocab_size": None,
    "vocab_factor": 1.0, "zero_digits": True, "sublinear_tf": False, "epochs": 15, "batch_size": 512, "lr": 1e-3,
    "final_lr_frac": 1.0, "objective": "cross-entropy", "infonce_weight": 0.0, "infonce_temperature": 0.05,
    "infonce_min_part": 0.5, "crop_kind": "free", "candidates": "all", "output": 0.0,
}  # fmt: skip
_TRAINING = ("dropout", "batch_size", "lr", "final_lr_frac", "objective", "infonce_weight", "candidates", "output")
_CROPS = ("crop_kind", "infonce_min_part", "infonce_temperature")

_TELL: dict[str, Callable[[Any], str]] = {  # in the order in which they are told
    "epochs": lambda n: {0: "not trained", None: "epochs that suit"}.get(n, f"{n} epoch{'s' * (n != 1)}"),
    "structure": lambda kind: f"{kind} trees",
    "ngrams": lambda n: f"learned n-gram vectors ({n:,})" if n else "no learned n-gram vectors",
    "init_sketch": lambda length: f"sketch {length:g}",
    "init_ppmi": lambda length: f"PPMI {length:g}",
    "lexical_dim": lambda n: f"{n} lexical dimensions",
    "init_gate": lambda share: "the authors' gate" if share is None else f"gate {share:g}",
    "infonce_weight": lambda weight: f"InfoNCE {weight:g}" if weight else "no InfoNCE",
    "crop_kind": lambda kind: "parts" if kind == "parts" else "overlapping crops",
    "infonce_min_part": lambda share: f"≥ {share:g}",
    "infonce_temperature": lambda tau: f"τ {tau:g}",
    "output": lambda lengths: f"output layer begins as {lengths:g} × leaves" if lengths else "random output layer",
    "subword_model": lambda kind: "BPE" if kind == "bpe" else kind,
    "vocab_size": lambda n: f"vocabulary {n:,}" if n else "vocabulary that suits",
    "vocab_factor": lambda factor: f"vocabulary × {factor:g}",
    "zero_digits": lambda zero: "digits as 0" if zero else "digits kept",
    "sublinear_tf": lambda sublinear: "each token once" if sublinear else "every token",
    "dim": lambda n: f"{n} dimensions",
    "dropout": lambda share: f"dropout {share:g}",
    "batch_size": lambda n: f"batches of {n:,}",
    "lr": lambda rate: f"rate {rate:g}",
    "final_lr_frac": lambda share: "rate falls to 0" if share == 0 else f"{share:g} of the rate left at the end",
    "objective": lambda kind: "both objectives" if kind == "both" else kind,
    "candidates": lambda kind: "candidates of the batch" if kind == "batch" else "all candidates",
}


def render(results: Path) -> str:
    """All that stands between the marks."""
    ideas, paper = Records.read(results / IDEAS), Records.read(results / RUNS)
    runs = [run for name in ideas.names() for run in ideas[name]]
    parts = [_noise(paper)]
    for group, members in _grouped([run for run in runs if run["language"] == "en"]):
        parts += [f"### The {group.removesuffix('-list')} list", f"{_shared(members)} {CODE.get(group, '')}".rstrip()]
        parts += [_english(members)]
    if others := [run for _, members in _grouped([run for run in runs if run["language"] != "en"]) for run in members]:
        parts += ["### Other languages", f"On SemRel. {_shared(others)}", _languages(others, paper)]
    return "\n\n".join(parts)


# --- The tables ------------------------------------------------------------------------------------------------------


def figures(run: Run) -> list[float]:
    """In the order of FIGURES."""
    of = {(one["task"], one.get("metric")): one["value"] for one in run["figures"]}
    sentences = [of[task, "spearman"] for task in SENTENCES.values()]
    return [*sentences, statistics.fmean(sentences), of[WORDS, "spearman"], of[RETRIEVAL, "nDCG@10"]]


def _noise(paper: Records) -> str:
    """What seeds alone change, which tells what a difference between two runs is worth."""
    runs = paper["banyan"]
    if len(runs) < 2:
        return f"Seeds of preset `paper`: {NOT_RUN}."
    found = {name: Estimate(of) for name, of in zip(FIGURES, zip(*map(figures, runs), strict=True), strict=True)}
    seeds = listed([f"{name} {estimate.told()}" for name, estimate in found.items()])
    noise = listed([f"{CLEAR * math.sqrt(2) * (one.sd or 0):.1f} ({name})" for name, one in found.items()])
    return (
        f"Preset `paper` with all its epochs, mean ± deviation (seeds): {seeds}. Two deviations of a difference "
        f"between two single runs are then {noise}; what differs by less may be chance."
    )


def _english(runs: Sequence[Run]) -> str:
    base = common(runs)
    rows = [[_name(run), told(run, base), *(f"{value:.1f}" for value in figures(run))] for run in runs]
    return table(["run", "what differs", *FIGURES], rows)


def _languages(runs: Sequence[Run], paper: Records) -> str:
    base, rows = common(runs), []
    for run in runs:
        (figure,) = run["figures"]
        before = paper.figure(run["language"], figure["task"], figure["metric"]).values
        first = f"{before[0]:.1f}" if before else NOT_RUN  # of one seed, as here
        rows.append([_name(run), run["language"], told(run, base), f"{figure['value']:.1f}", first])
    return table(["run", "language", "what differs", "SemRel", "preset `paper`, all its epochs"], rows)


def _name(run: Run) -> str:
    return run["name"] + (f", seed {run['seed']}" if run["seed"] else "")


def _grouped(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """The runs of each list. Runs that ideas.py still defines come first, in its order."""
    places = {idea.name: place for place, idea in enumerate(DEFINED)}

    def place(run: Run) -> tuple[int, int, str, int]:
        return LISTS.index(run["list"]), places.get(run["name"], len(places)), run["name"], run["seed"]

    return [(name, list(members)) for name, members in groupby(sorted(runs, key=place), key=lambda run: run["list"])]


# --- What a run changes ----------------------------------------------------------------------------------------------


def common(runs: Sequence[Run]) -> Settings:
    """What most of them have; of each setting by itself."""
    full = [_shown(run) for run in [run for run in runs if run["training"]] or runs]
    return {name: Counter(one[name] for one in full).most_common(1)[0][0] for name in PAPER}


def told(run: Run, base: Mapping[str, Any]) -> str:
    """Against the base or, if that is shorter, against preset paper with the base's epochs."""
    settings = _shown(run)
    by_base = phrases(settings, base)
    by_paper = phrases(settings, {**PAPER, "epochs": base["epochs"]})
    if len(by_paper) < len(by_base):
        return ", ".join(["preset `paper`", *by_paper])
    return ", ".join(by_base) or "nothing"


def _shown(run: Run) -> Settings:
    """The settings that a table may show. A setting that is newer than the record has its default."""
    return {name: run["settings"].get(name, default) for name, default in PAPER.items()}


def _shared(runs: Sequence[Run]) -> str:
    base = common(runs)
    shared = ", ".join(phrases(base, {**PAPER, "epochs": None}))
    return f"Unless a row says otherwise: {shared}."


def phrases(settings: Mapping[str, Any], base: Mapping[str, Any]) -> list[str]:
    """Where settings differ from the base, in words; not those that had no part in the run."""
    idle = set(_TRAINING) if settings["epochs"] == 0 else set()
    if not settings["infonce_weight"] or idle:
        idle.update(_CROPS)
    differ = [name for name in settings if name not in idle and settings[name] != base.get(name)]
    if "infonce_weight" in differ and not base["infonce_weight"] and settings["infonce_weight"]:
        return _with_crops(settings, [name for name in differ if name not in _CROPS])
    return [_phrase(name, settings[name]) for name in _in_order(differ)]


def _with_crops(settings: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    kind = ", ".join(_phrase(name, settings[name]) for name in _CROPS)
    return [_phrase(name, settings[name]) + f" ({kind})" * (name == "infonce_weight") for name in _in_order(names)]


def _in_order(names: Sequence[str]) -> list[str]:
    order = list(_TELL)
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def _phrase(name: str, value: Any) -> str:
    return _TELL[name](value) if name in _TELL else f"{name} {value}"
