"""The tables of ideas in docs/experiments.md, from experiments/results/ideas.jsonl: development sets only."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from experiments.data import ENGLISH
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
CODE = {  # changes to the code that no setting shows
    "second": "From here on, the n-grams of a sketch have marks at the ends of a piece.",
    "fourth": "From here on, the PPMI vector of a token without neighbours is 0.",
    "seventh-list": "Here training, too, used each token of a sentence once; later only encoding drops repeats.",
    "twelfth-list": "From here on, unigram pieces are fitted from an initial vocabulary that keeps short words whole.",
}
PAPER: Settings = {  # preset paper: the settings that a table may show, by their names in the records
    "dim": 256, "structure": "induced", "ngrams": 0, "init_sketch": 0.0, "init_ppmi": 0.0, "lexical_dim": 0,
    "lexical_weight": 0.7, "init_gate": None, "dropout": 0.1, "subword_model": "bpe", "vocab_size": None,
    "vocab_factor": 1.0, "zero_digits": True, "sublinear_tf": False, "epochs": 15, "batch_size": 512, "lr": 1e-3,
    "final_lr_frac": 1.0, "objective": "cross-entropy", "infonce_weight": 0.0, "infonce_temperature": 0.05,
    "infonce_min_part": 0.3, "crop_kind": "parts", "candidates": "all", "output": 0.0, "passage_sentences": 1,
    "infonce_split": "anywhere", "whole_words": False,
}  # fmt: skip
_TRAINING = ("dropout", "batch_size", "lr", "final_lr_frac", "objective", "infonce_weight", "candidates", "output")
_CROPS = ("crop_kind", "infonce_min_part", "infonce_temperature")

_TELL: dict[str, Callable[[Any], str]] = {  # in the order in which they are shown
    "epochs": lambda n: {0: "not trained", None: "epochs chosen for the corpus"}.get(n, f"{n} epoch{'s' * (n != 1)}"),
    "structure": lambda kind: f"{kind} trees",
    "whole_words": lambda whole: "the pieces of a word merge first" if whole else "words may be cut",
    "ngrams": lambda n: f"learned n-gram vectors ({n:,})" if n else "no learned n-gram vectors",
    "init_sketch": lambda length: f"sketch {length:g}",
    "init_ppmi": lambda length: f"PPMI {length:g}",
    "lexical_dim": lambda n: f"{n} lexical dimensions",
    "lexical_weight": lambda weight: f"lexical weight {weight:g}",
    "init_gate": lambda share: "the authors' gate" if share is None else f"gate {share:g}",
    "infonce_weight": lambda weight: f"InfoNCE {weight:g}" if weight else "no InfoNCE",
    "crop_kind": lambda kind: "parts" if kind == "parts" else "overlapping crops",
    "infonce_min_part": lambda share: f"≥ {share:g}",
    "infonce_temperature": lambda tau: f"τ {tau:g}",
    "output": lambda lengths: f"output layer initialised as {lengths:g} × leaves" if lengths else "random output layer",
    "subword_model": lambda kind: "BPE" if kind == "bpe" else kind,
    "vocab_size": lambda n: f"vocabulary {n:,}" if n else "vocabulary size chosen for the corpus",
    "vocab_factor": lambda factor: f"vocabulary × {factor:g}",
    "zero_digits": lambda zero: "digits replaced by 0" if zero else "digits kept",
    "sublinear_tf": lambda sublinear: "each token once" if sublinear else "repeats kept",
    "passage_sentences": lambda n: "single sentences" if n == 1 else f"passages of {n} sentences",
    "infonce_split": lambda at: "split anywhere" if at == "anywhere" else "split at the end of a sentence",
    "dim": lambda n: f"{n} dimensions",
    "dropout": lambda share: f"dropout {share:g}",
    "batch_size": lambda n: f"batches of {n:,}",
    "lr": lambda rate: f"learning rate {rate:g}",
    "final_lr_frac": lambda share: f"learning rate decays to {share:g}" + " of its value" * (share != 0),
    "objective": lambda kind: "both objectives" if kind == "both" else kind,
    "candidates": lambda kind: "candidates from the batch" if kind == "batch" else "all candidates",
}


def render(results: Path) -> str:
    """The generated part of the page."""
    ideas, paper = Records.read(results / IDEAS), Records.read(results / RUNS)
    runs = [run for name in ideas.names() for run in ideas[name]]
    parts = [_noise(paper)]
    english, foreign = ([run for run in runs if (run["language"] in ENGLISH) == wanted] for wanted in (True, False))
    for group, members in _grouped(english):
        parts += [f"### The {group.removesuffix('-list')} list", f"{_shared(members)} {CODE.get(group, '')}".rstrip()]
        parts += [_english(members)]
    if others := [run for _, members in _grouped(foreign) for run in members]:
        parts += ["### Other languages", f"Development sets of SemRel. {_shared(others)}", _languages(others, paper)]
    return "\n\n".join(parts)


# --- The tables ------------------------------------------------------------------------------------------------------


def figures(run: Run) -> list[float]:
    """The figures of a run, in the order of FIGURES."""
    of = {(one["task"], one.get("metric")): one["value"] for one in run["figures"]}
    sentences = [of[task, "spearman"] for task in SENTENCES.values()]
    return [*sentences, statistics.fmean(sentences), of[WORDS, "spearman"], of[RETRIEVAL, "nDCG@10"]]


def _noise(paper: Records) -> str:
    """The variation between seeds, and the difference between two runs that it makes likely."""
    runs = paper["banyan"]
    if len(runs) < 2:
        return f"Seeds of preset `paper`: {NOT_RUN}."
    found = {name: Estimate(of) for name, of in zip(FIGURES, zip(*map(figures, runs), strict=True), strict=True)}
    seeds = listed([f"{name} {estimate.told()}" for name, estimate in found.items()])
    noise = listed([f"{CLEAR * math.sqrt(2) * (one.sd or 0):.1f} ({name})" for name, one in found.items()])
    return (
        f"Preset `paper` with all its epochs, mean ± standard deviation (seeds): {seeds}. Two standard deviations of "
        f"the difference between two single runs are {noise}; smaller differences are not significant."
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
        first = f"{before[0]:.1f}" if before else NOT_RUN  # one seed, as here
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
    """The most frequent value of each setting."""
    full = [_shown(run) for run in [run for run in runs if run["training"]] or runs]
    return {name: Counter(one[name] for one in full).most_common(1)[0][0] for name in PAPER}


def told(run: Run, base: Mapping[str, Any]) -> str:
    """What differs from the base or, if that is shorter, from preset paper with the epochs of the base."""
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
    """The settings that differ from the base, in words. Settings that the run did not use are left out."""
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
