"""The section of RESULTS.md about presets default and light, compared with preset paper and TF-IDF."""

from __future__ import annotations

from typing import Any

from banyan.evaluate.suites import LANGUAGES
from experiments.pages.markdown import given, section, table
from experiments.pages.since import changed_since
from experiments.records.estimates import NOT_RUN, Estimate
from experiments.records.material import Material
from experiments.records.sets import NAMES, SPEARMAN, STS, WORDS

PRESETS = {"paper": "banyan", "light": "light", "default": "default"}
TOLD = (
    "Presets `default` and `light` were chosen on development sets only (docs/experiments.md); Spanish, which has "
    "none, was not used. docs/default.md explains them. Spearman's ρ × 100; for ArguAna nDCG@10 × 100."
)


def presets(material: Material, others: dict[str, Any]) -> str:
    rows = [*_english(material), *_languages(material), _arguana(material)]
    head = ["set", *(f"`{preset}`" for preset in PRESETS), "TF-IDF"]
    runs = ["light", "default", *(f"default-{language}" for language in LANGUAGES)]
    parts = [TOLD, changed_since(material.records, runs), table(head, rows)]
    lacking = f"Paired differences on each set (`experiments/measuring/paired.py`): {NOT_RUN}."
    parts += [given(content) for content in others.values()] or [lacking]
    return section("13. Presets that go past the paper", *parts)


def _english(material: Material) -> list[list[Any]]:
    rows = []
    for group, sets, mean in (("sts", STS, "mean of 8"), ("words", WORDS, "mean of 3")):
        for name, task in [*sets.items(), (f"**{mean}**", "")]:
            found = [_english_figure(material, run, group, task) for run in PRESETS.values()]
            rows.append([name, *(one.told() for one in found), material.baseline(group, [task or "mean"], "TF-IDF")])
    return rows


def _english_figure(material: Material, run: str, group: str, task: str) -> Estimate:
    return material.records.figure(run, task, SPEARMAN) if task else material.records.score(run, group)


def _languages(material: Material) -> list[list[Any]]:
    records, rows = material.records, []
    for language in LANGUAGES:
        found = [records.figure(name, language, SPEARMAN) for name in (language, f"default-{language}")]
        nothing = material.baseline("languages", [language], "TF-IDF")
        rows.append([NAMES[language], found[0].told(), None, found[1].told(), nothing])
    means = [records.mean_over(names, SPEARMAN) for names in (LANGUAGES, [f"default-{name}" for name in LANGUAGES])]
    nothing = material.baseline("languages", ["mean"], "TF-IDF")
    return [*rows, ["**mean of 9**", means[0].told(), None, means[1].told(), nothing]]


def _arguana(material: Material) -> list[Any]:
    found = [material.records.figure(run, "arguana", "nDCG@10").told() for run in PRESETS.values()]
    return ["ArguAna", *found, material.baseline("retrieval", ["arguana", "nDCG@10"], "TF-IDF")]
