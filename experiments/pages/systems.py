"""The generated parts of docs/baselines/*.md: the figures of each system that Banyan is compared with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from banyan.baselines import BASELINES
from experiments.pages.compared import MEASURES, NOT_MEASURED, clock
from experiments.pages.markdown import between, listed, table
from experiments.places import DOCS
from experiments.records.material import Material
from experiments.records.sets import NAMES, STS, WORDS
from experiments.records.systems import SYSTEMS, Compared, System

FOLDER = DOCS / "baselines"
MEASURED = "<!-- measured -->\n", "<!-- /measured -->\n"
LISTED = "<!-- systems -->\n", "<!-- /systems -->\n"
CHOSEN = "<!-- chosen -->\n", "<!-- /chosen -->\n"
DEV = {"stsb_dev_clean": "STS-B", "semrel_dev/en": "SemRel", "qqp_dev": "QQP", "mturk-771": "MTurk-771 (words)",
       "quora_small_retrieval": "Quora, small (nDCG@10)"}  # fmt: skip
BESIDE = {"default": "Banyan `default`", "tfidf": "TF-IDF"}  # the systems that each is compared with
SETS = {task: told for told, task in {**STS, **WORDS, "ArguAna": "arguana"}.items()}
TIME = "time per sentence relative to `default`"
NOTE = (
    "Measured on the test sets. [Results, section 14](../../RESULTS.md#14-which-of-these-should-i-use) has all figures "
    "and defines *significantly*. Times are on a CPU; for a system without vectors, per sentence compared in pairs."
)
PAPERS = " **(paper)** marks a figure of the Banyan paper, for other text and without an interval."


class Against(NamedTuple):
    """The sets and languages on which a system is significantly better than another, level, and worse."""

    better: list[str]
    level: list[str]
    worse: list[str]
    papers: list[str]  # those where its figure is the paper's


def pages(material: Material, folder: Path) -> dict[Path, str]:
    """The text of each page, with its generated parts."""
    every = Compared.read(material, folder)
    written = [(name, MEASURED, measured(every, name)) for name in BASELINES]
    written += [("index", LISTED, overview()), ("index", CHOSEN, chosen(folder / "dev"))]
    found: dict[Path, str] = {}
    for name, marks, part in written:
        path = FOLDER / f"{name}.md"
        found[path] = between(found.get(path) or path.read_text(encoding="utf-8"), marks, f"\n{part}\n\n")
    return found


def overview() -> str:
    rows = [[f"[`{name}`]({name}.md)", one.about, one.best_for] for name, one in BASELINES.items()]
    return table(["", "what it is", "best for"], rows)


def chosen(folder: Path) -> str:
    """The table of development sets, from the output of `banyan eval --suite dev` in NAME-en.json."""
    rows = []
    for system in SYSTEMS:
        path = folder / f"{system.name}-en.json"
        results = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []
        values = {one["task"]: one["value"] for one in results if one.get("metric") in ("spearman", "nDCG@10")}
        cells = ["" if values.get(task) is None else f"{values[task]:.1f}" for task in DEV]
        rows += [[system.told, *cells]] if values else []
    return table(["", *DEV.values()], rows)


def measured(every: Compared, name: str) -> str:
    """The figures of the systems that `banyan baseline NAME` makes."""
    own = [system for system in SYSTEMS if system.command.split()[:3] == ["banyan", "baseline", name]]
    others = [system for system in SYSTEMS if system.name in BESIDE and system not in own]
    shown = table(["", *MEASURES.values(), TIME], [_row(every, system) for system in (*own, *others)])
    said = [f"- **{system.told}**: {told}." for system in own if (told := _said(every, system, others))]
    note = NOTE + (PAPERS if "(paper)" in shown else "")
    return "\n\n".join(part for part in (shown, "\n".join(said), note) if part)


def _row(every: Compared, system: System) -> list[str]:
    found = [every.figure(system, of) for of in MEASURES]
    ratio = 1.0 if system.name == "default" else every.of(system).speed
    time = f"{float(f'{1 / ratio:.2g}'):g}" if ratio else NOT_MEASURED  # two digits; 980, not 9.8e+02
    return [system.told, *(one.told() if one else NOT_MEASURED for one in found), time]


# --- In words --------------------------------------------------------------------------------------------------------


def _said(every: Compared, system: System, others: Sequence[System]) -> str:
    told = []
    for other in others:
        found = against(every, system, other)
        if any(found):
            told.append(f"compared with {BESIDE[other.name]}, {_where(found)}")
    cost = _cost(every, system)
    return ". ".join(part for part in ("; ".join(told), f"Cost: {cost}" if cost else "") if part)


def against(every: Compared, system: System, other: System) -> Against:
    found = Against([], [], [], [])
    for task in (*SETS, *NAMES):
        ours, theirs = every.figure(system, task), every.figure(other, task)
        if ours and theirs:
            better = found.better if ours.value > theirs.value else found.worse
            (found.level if every.level(system, other, task) else better).append(task)
            if ours.papers:
                found.papers.append(task)
    return found


def _where(found: Against) -> str:
    sets, languages = ([told[task] for task in found.better if task in told] for told in (SETS, NAMES))
    places = [f"{word} {listed(names)}" for word, names in (("on", sets), ("in", languages)) if names]
    told = [f"**significantly better {' and '.join(places)}**" if places else "nowhere significantly better"]
    counts = {"without a significant difference": found.level, "significantly worse": found.worse}
    told += [f"{len(some)} {how}" for how, some in counts.items() if some]
    return f"{', '.join(told)} (of {_counted(found)})"


def _counted(found: Against) -> str:
    every = [*found.better, *found.level, *found.worse]
    numbers = {"set": sum(task in SETS for task in every), "language": sum(task in NAMES for task in every)}
    told = listed([f"{n} {thing}{'s' if n > 1 else ''}" for thing, n in numbers.items() if n])
    if not found.papers:
        return told
    return f"{told}, {'' if len(found.papers) == len(every) else 'partly '}with the paper's figures"


def _cost(every: Compared, system: System) -> str:
    """Time to train, memory and size, as far as they were measured."""
    times = [f"{clock(one.seconds)} to train{f' ({one.gpu})' if one.gpu else ''}"
             for one in every.trainings(system) if one.seconds is not None]  # fmt: skip
    found = every.of(system).all
    sizes = {"memory to encode": found.get("peak_memory_bytes"), "disk": found.get("bytes")}
    return listed(times + [f"{size / 1e6:,.0f} MB of {what}" for what, size in sizes.items() if size is not None])
