"""The section of RESULTS.md about presets default and light, compared with preset paper and TF-IDF."""

from __future__ import annotations

from typing import Any

from banyan.evaluate.suites import LANGUAGES
from experiments.pages.markdown import given, listed, section, table
from experiments.pages.since import changed_since
from experiments.pages.tables import Beside
from experiments.places import RESULTS
from experiments.records import entries
from experiments.records.estimates import NOT_RUN, Estimate, clearly, difference
from experiments.records.material import Material
from experiments.records.paired import Paired
from experiments.records.sets import NAMES, SPEARMAN, STS, WORDS

PRESETS = {"paper": "banyan", "light": "light", "default": "default"}
HISTORY = (
    "How `default` was chosen: a first version was chosen on development sets and then measured on all test sets, "
    "Spanish among them. It fell short there (words, long documents), and the present one was built after that. Each "
    "later change was chosen on development sets, but after test figures of the version before it had been seen."
)
TOLD = (
    "docs/default.md explains presets `default` and `light`, and docs/experiments.md has every version of them. "
    f"{HISTORY} Spanish has no development set: no two settings were compared on it, but its figures of earlier "
    "versions had been seen like the others. Spearman's ρ × 100; for ArguAna nDCG@10 × 100."
)


def beside(material: Material) -> list[str]:
    """Where `default` is significantly above and below the paper's own figures, and preset `paper`: two sentences."""
    papers, ours = Beside(), Beside()
    for name, (run, base, task, table_) in _sets().items():
        default, paper = material.records.figure(run, task, SPEARMAN), material.records.figure(base, task, SPEARMAN)
        papers.append((name, default, material.cell(table_, "Banyan", name)))
        ours.append((name, default, {"mean": paper.mean, "sd": paper.sd} if paper.values else None))
    told = []
    for whose, compared in (("the paper's own figures for Banyan", papers), ("preset `paper` here", ours)):
        kinds = {kind: [f"{name} ({difference(one, other)})" if kind < 1 else name for name, one, other in compared
                        if clearly(one, other) == kind] for kind in (1, 0, -1)}  # fmt: skip
        if any(kinds.values()):
            places = [f"{how} on {_all(kinds[kind])}" for kind, how in KINDS.items() if kinds[kind]]
            told.append(f"Compared with {whose}, preset `default` is {'; '.join(places)}.")
    return told


KINDS = {1: "significantly higher", 0: "not significantly different", -1: "significantly lower"}


def _all(names: list[str]) -> str:
    """Names as text; all sentence sets and all languages in three words each."""
    for every, told in ((list(STS), "all eight sentence sets"), (list(NAMES.values()), "all nine languages")):
        if set(every) <= set(names):
            names = [told, *(name for name in names if name not in every)]
    return listed(names)


def _sets() -> dict[str, tuple[str, str, str, str]]:
    """Each set by its name in the paper: the run of `default`, that of `paper`, the task, the paper's table."""
    english = {name: ("default", "banyan", task, "sts_vs_self") for name, task in STS.items()}
    english |= {name: ("default", "banyan", task, "lex_vs_self") for name, task in WORDS.items()}
    return english | {name: (f"default-{code}", code, code, "multilang") for code, name in NAMES.items()}


def good(material: Material, paired: Paired) -> str:
    """How good `default` is, in words: the generated part of docs/default.md."""
    records = material.records
    runs = [("default", "banyan"), *((f"default-{code}", code) for code in LANGUAGES)]
    means = [records.score(run, "sts").mean for run in runs[0]]
    means += [records.mean_over([pair[i] for pair in runs[1:]], SPEARMAN).mean for i in (0, 1)]
    means += [records.figure(run, "arguana", "nDCG@10").mean for run in runs[0]]
    apart = [f"{means[i] - means[i + 1]:+.1f}" for i in (0, 2, 4)]
    papers, ours = beside(material)
    told = [
        f"**Against preset `paper`**: {apart[0]} on the mean of eight English sets, {apart[1]} on the mean of nine "
        f"languages, {apart[2]} on ArguAna (nDCG@10). {ours}",
        f"**Against the paper**: {papers[0].lower()}{papers[1:]}",
        f"**Against TF-IDF**: {_against_tfidf(material, paired)}",
        f"**{HISTORY.replace(':', '**:', 1)}",
    ]
    return "\n".join(f"- {line}" for line in told) + "\n\n" + given(entries.read(VERSIONS)["default"])


def _against_tfidf(material: Material, paired: Paired) -> str:
    """Paired differences from TF-IDF whose interval excludes 0."""
    means, kinds = [], {"better": [], "worse": []}  # type: tuple[list[str], dict[str, list[str]]]
    for group, told in (("sts", "English sentences"), ("languages", "nine languages")):
        found = paired.of_means[group]
        means.append(f"{found.value:+.1f} on the mean of {told}{found.interval()}")
    for name, found in paired.of_sets.items():
        if name in _SHORT and found.significant:
            kinds["better" if found.low > 0 else "worse"].append(_SHORT[name])
    places = [f"significantly {kind} on {listed(names)}" for kind, names in kinds.items() if names]
    words = [material.records.score("default", "words").mean, material.baseline("words", ["mean"], "TF-IDF")]
    arguana = [material.records.figure("default", "arguana", "nDCG@10").mean, _arguana(material)[-1]]
    return (
        f"{' and '.join(means)}; {', '.join(places)}, and not significantly different on the other sentence sets and "
        f"languages. TF-IDF cannot compare single words ({words[1]:.1f} against {words[0]:.1f}). It is far better at "
        "finding ArguAna's counter-arguments, which repeat the words of the argument "
        f"({arguana[1]:.1f} against {arguana[0]:.1f}). For such data, [search](search.md) by words and vectors "
        "together."
    )


_SHORT = {task: name for name, task in STS.items()} | NAMES
VERSIONS = RESULTS / "versions.json"


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
