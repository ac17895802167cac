"""Models that learned from translations: a section of RESULTS.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from banyan.evaluate.suites import LANGUAGES
from banyan.evaluate.translation import BACK, FORWARD
from experiments.pages.markdown import section, table
from experiments.pages.since import changed_since
from experiments.records.estimates import Estimate, mean_of
from experiments.records.material import Material
from experiments.records.sets import NAMES, SPEARMAN

TOLD = (
    "`banyan train LANGUAGE.txt --parallel english-LANGUAGE.tsv --teacher sentence-transformers/all-MiniLM-L6-v2`: the "
    "teacher reads English, the model reads both languages and its corpus. The training text has neither the held-out "
    "pairs nor their sides (`python -m experiments.translations.prepare`). Regenerate with "
    "`python -m experiments.training.taught translated-LANGUAGE`."
)
SIMILARITY = (
    "SemRel, Spearman's ρ × 100. Settings were chosen on the development sets of SemRel; Spanish has none. Test "
    "figures of `default` had been seen by then (section 13)."
)
RETRIEVAL = {
    "verses": "The right translation among 1,000 held-out pairs of the sources that were trained on, most of them "
    "verses: R@1 × 100, from English and to English. *Words by PMI* translates bags of words.",
    "source": "The same with 1,000 pairs of a source that was held out as a whole: tico19 (health), or wiki-turk "
    "(Telugu), autshumato (Afrikaans, government).",
}


def translated(material: Material, pmi: dict[str, Any] | None) -> str:
    if not any(material.records[f"translated-{name}"] for name in LANGUAGES):
        return ""
    changed = changed_since(material.records, [f"translated-{name}" for name in LANGUAGES])
    parts = [TOLD, changed, SIMILARITY, _similarity(material)]
    for held_out, told in RETRIEVAL.items():
        parts += [told, _retrieval(material, held_out, pmi)]
    return section("16. Learning from translations", *parts)


def _similarity(material: Material) -> str:
    records, rows = material.records, []
    for language in LANGUAGES:
        found = [records.figure(f"{run}-{language}", language, SPEARMAN).told() for run in ("default", "translated")]
        rows.append([NAMES[language], material.baseline("languages", [language], "TF-IDF"), *found])
    means = [mean_of_languages(material, run).told() for run in ("default", "translated")]
    rows.append(["**mean of 9**", material.baseline("languages", ["mean"], "TF-IDF"), *means])
    return table(["language", "TF-IDF", "`default`, text alone", "text and translations"], rows)


def mean_of_languages(material: Material, run: str) -> Estimate:
    return material.records.mean_over([f"{run}-{name}" for name in LANGUAGES], SPEARMAN)


def _retrieval(material: Material, held_out: str, pmi: dict[str, Any] | None) -> str:
    rows = [[NAMES[language], *_found(material, [language], held_out, pmi)] for language in LANGUAGES]
    rows.append(["**mean of 9**", *_found(material, LANGUAGES, held_out, pmi)])
    return table(["language", "words by PMI", "taught dimensions", "all dimensions"], rows)


def _found(material: Material, languages: Sequence[str], held_out: str, pmi: dict[str, Any] | None) -> list[str]:
    words = [_words(pmi, languages, held_out, column) for column in ("from English @1", "to English @1")]
    ours = [
        [_mean(material, languages, f"{held_out}, {dims} dimensions", f"R@1 {way}") for way in (FORWARD, BACK)]
        for dims in ("taught", "all")
    ]
    return [_both(words, "{:.1f}".format), *(_both(both, lambda one: one.told()) for both in ours)]


def _both(values: Sequence[Any], told: Callable[[Any], str]) -> str:
    return "" if None in values else " / ".join(map(told, values))


def _words(pmi: dict[str, Any] | None, languages: Sequence[str], held_out: str, column: str) -> float | None:
    if not pmi:
        return None
    at = pmi["columns"].index(column)
    found = [row[at] for row in pmi["rows"] if row[0] in languages and row[1] == held_out]
    return statistics.fmean(found) if found else None


def _mean(material: Material, languages: Sequence[str], task: str, metric: str) -> Estimate:
    """The figure of one language, or the mean over several for each seed that all of them have."""
    each = [material.records.figure(f"translated-{name}", task, metric) for name in languages]
    return each[0] if len(each) == 1 else mean_of(each)
