"""Models that learn from more than shuffled sentences: a section of RESULTS.md, and the table of docs/which.md."""

from __future__ import annotations

from typing import Any

from experiments.pages.ideas import SENTENCES
from experiments.pages.markdown import section, table
from experiments.pages.since import SETTINGS, changed_since
from experiments.pages.translated import mean_of_languages
from experiments.records.estimates import Estimate, mean_of
from experiments.records.material import Material
from experiments.records.sets import SPEARMAN, STS, WORDS

RUNS = {
    "default": "`default`, no teacher",
    "taught": "teacher",
    "taught-150000": "teacher, 150,000 lines",
    "taught-50000": "teacher, 50,000 lines",
    "taught-stored": "stored vectors of lines",
}
TOLD = (
    "`banyan train en.txt --teacher sentence-transformers/all-MiniLM-L6-v2` on the English corpus of `default`, with "
    "preset `taught`, chosen on the development sets (docs/experiments.md) after test figures of `default` had been "
    "seen. The teacher encodes all lines, or a sample "
    "of them, a span of each line, and the vocabulary. *Stored vectors* have neither spans nor vocabulary: that is "
    "what `--teacher vectors.npy` learns from. Spearman's ρ × 100; for ArguAna nDCG@10 × 100. "
    "Regenerate with `python -m experiments.training.taught`."
)


RUNNING = {
    "default-paragraphs-cut": "cut into sentences",
    "default-paragraphs": "in order",
}
TOLD_RUNNING = (
    "Ten million words of English paragraphs, with preset `default`: cut into sentences, and in order, that is as "
    "passages of up to four consecutive sentences that are drawn anew for every epoch. Development sets first."
)


def running(material: Material) -> str:
    """Text in order, compared with the same text cut into sentences."""
    lexical = {tuple(record["settings"].get(name) for name in SETTINGS) for run in RUNNING
               for record in material.records[run]}  # fmt: skip
    if not material.records["default-paragraphs"] or len(lexical) > 1:  # not alike
        return ""
    of = material.records.figure
    rows: list[list[Any]] = []
    for name, task in SENTENCES.items():
        rows.append([f"{name} (development)", *(of(run, task, SPEARMAN).told() for run in RUNNING)])
    rows.append(["**mean of 3**", *(_dev_mean(material, run).told() for run in RUNNING)])
    rows.append(["MTurk, words (development)", *(of(run, "mturk-771", SPEARMAN).told() for run in RUNNING)])
    for group, told in (("sts", "**English sentences, mean of 8**"), ("words", "**words, mean of 3**")):
        rows.append([told, *(material.records.score(run, group).told() for run in RUNNING)])
    rows.append(["ArguAna", *(of(run, "arguana", "nDCG@10").told() for run in RUNNING)])
    changed = changed_since(material.records, RUNNING)
    return section("17. Running text", TOLD_RUNNING, changed, table(["set", *RUNNING.values()], rows))


def _dev_mean(material: Material, run: str) -> Estimate:
    return mean_of([material.records.figure(run, task, SPEARMAN) for task in SENTENCES.values()])


def taught(material: Material) -> str:
    if not material.records["taught"]:
        return ""
    rows = [*_sets(material, "sts", STS, "mean of 8"), *_sets(material, "words", WORDS, "mean of 3")]
    rows.append(["ArguAna", *(material.records.figure(run, "arguana", "nDCG@10").told() for run in RUNS)])
    return section("15. Learning from a teacher", TOLD, table(["set", *RUNS.values()], rows))


def _sets(material: Material, group: str, sets: dict[str, str], mean: str) -> list[list[Any]]:
    names = [*sets.items(), (f"**{mean}**", "")]
    return [[name, *(_figure(material, run, group, task).told() for run in RUNS)] for name, task in names]


def _figure(material: Material, run: str, group: str, task: str) -> Estimate:
    return material.records.figure(run, task, SPEARMAN) if task else material.records.score(run, group)


def which(material: Material) -> str:
    """The table of docs/which.md: what to run, and what it gives."""
    records = material.records
    train = "banyan train corpus.txt --out model/"
    rows: list[list[Any]] = [
        ["character TF-IDF, to compare", "", *(material.baseline(group, ["mean"], "TF-IDF") for group in _GROUPS)],
        ["only text", f"`{train}`", *_means(material, "default"), mean_of_languages(material, "default").told()],
        ["other text, in order", f"`{train}`", *_means(material, "default-paragraphs"), ""],
    ]
    for told, more, run in (
        ("a teacher", "--teacher NAME", "taught"),
        ("a teacher, a sample of 50,000 lines", "--teacher NAME --teacher-lines 50000", "taught-50000"),
        ("a teacher's vectors of my lines", "--teacher vectors.npy", "taught-stored"),
    ):
        if records[run]:
            rows.append([told, f"`{train} {more}`", *_means(material, run), ""])
    if (found := mean_of_languages(material, "translated")).values:
        rows.append(["translations, and a teacher", f"`{train} --parallel PAIRS --teacher NAME`", "", "", found.told()])
    return table(["I have", "I run", "English sentences (mean of 8)", "English words (3)", "nine languages"], rows)


_GROUPS = "sts", "words", "languages"


def _means(material: Material, run: str) -> list[str]:
    return [material.records.score(run, group).told() for group in ("sts", "words")]
