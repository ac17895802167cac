"""RESULTS.md: every table and figure of the paper beside ours, made of experiments/results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from banyan.config import DEFAULT_PRESET
from banyan.evaluate.suites import LANGUAGES
from experiments.pages import tables
from experiments.pages.ablations import ablations, controls
from experiments.pages.claims import far_apart, in_short
from experiments.pages.compared import compared
from experiments.pages.markdown import given, section, table
from experiments.pages.presets import presets
from experiments.records import entries
from experiments.records.estimates import NOT_RUN, Estimate, paper_told
from experiments.records.material import Material
from experiments.records.store import Records
from experiments.training.runs import EXPERIMENTS

_ENERGY = ("mean_watts", "watt_hours", "watt_hours_at_limit")


def render(results: Path) -> str:
    """The whole page."""
    material = Material.read(results)
    parts = [
        _opening(material),
        section("At a glance", summary(material)),
        tables.sentences(material),
        tables.words(material),
        tables.retrieval(material),
        tables.languages(material),
        tables.parameters(material),
        ablations(material),
        tables.channels(material, far_apart(material)),
        _others("8. Figures", "figures", results, material),
        _costs(material.records),
        _others("10. The paper's claims in words, measured", "claims", results, material),
        controls(material),
        _others("12. What needs no learning", "baselines", results, material),
        presets(material, entries.read(results / "paired.json") | entries.read(results / "compact.json")),
        compared(material, results / "compared"),
        _how(material.records),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _opening(material: Material) -> str:
    return "\n\n".join(
        [
            "# Results",
            "Every table and figure of the paper, its figures beside ours. This file is made by `python "
            "-m experiments.pages` from the JSON in `experiments/results`; no figure in it was typed by hand.",
            "- Ours: mean ± standard deviation over seeds, and in brackets the number of seeds. Of one seed alone: the "
            "95% bootstrap interval over the items of the set, in square brackets.\n"
            '- "Higher" and "lower" are said where the means differ by more than two standard deviations of the '
            "difference between a seed of theirs and one of ours, or, of one seed, where the paper's mean is "
            "outside the interval.\n" + _why(material.records),
        ]
    )


def _why(records: Records) -> str:
    """Why figures may differ that ought not to."""
    told = (
        "- Why figures may differ: our corpora are other samples of text than the authors', of mixed sources, and our "
        "tokenizers are made of them, where theirs are BPEmb's"
    )
    runs = [records[name][0] for name in ("banyan", *LANGUAGES) if records[name] and records[name][0]["training"]]
    sizes = []
    for record in runs:
        each = record["training"]["tokens"] / record["settings"]["epochs"]
        sizes.append(f"{record['language']} {each / 1e6:.1f}M of {record['vocabulary']:,}")
    return told + (f" (pieces of the corpus, size of the vocabulary: {', '.join(sizes)})." if sizes else ".")


def summary(material: Material) -> str:
    records = material.records
    rows: list[list[Any]] = []
    kinds = {"English sentences": ("sts_vs_self", "sts"), "English words": ("lex_vs_self", "words")}
    for told, (name, group) in kinds.items():
        row: list[Any] = [told]
        for model, run in reversed(tables.MODELS.items()):
            paper, ours = material.cell(name, model, "Score"), records.score(run, group)
            row += [paper_told(paper), ours.told()]
        best = records.score("default", group).told()
        rows.append([*row, best, material.baseline(group, ["mean"], "TF-IDF")])
    of_default = [f"default-{name}" for name in LANGUAGES]
    means = [records.mean_over(names, tables.SPEARMAN) for names in (LANGUAGES, of_default)]
    paper, nothing = material.cell("multilang", "Banyan", "Score"), material.baseline("languages", ["mean"], "TF-IDF")
    rows.append(["nine languages", paper_told(paper), means[0].told(), None, None, means[1].told(), nothing])
    columns = ["mean over", "Banyan, paper", "preset `paper`", "Self-StrAE, paper", "preset `self-strae`"]
    columns += ["preset `default`", "TF-IDF of characters, nothing learnt"]
    said = []
    for preset, run, of_languages in (("paper", "banyan", means[0]), ("default", "default", means[1])):
        apart = [_against_nothing("English sentences", records.score(run, "sts"), rows[0][-1])]
        apart.append(_against_nothing("the nine languages", of_languages, nothing))
        if any(apart):
            told = " and ".join(line for line in apart if line)
            said.append(f"- Against TF-IDF of character n-grams, which learns nothing, preset `{preset}` is {told}.")
    return f"{table(columns, rows)}\n\n" + "\n".join(said)


def _against_nothing(where: str, ours: Estimate, nothing: float | None) -> str:
    if not ours.values or nothing is None:
        return ""
    apart = ours.mean - nothing
    if round(abs(apart), 1) == 0:
        return f"level on {where}"
    return f"{abs(apart):.1f} points {'above' if apart > 0 else 'below'} it on {where}"


def _others(title: str, name: str, results: Path, material: Material) -> str:
    """What experiments/NAME.py left in NAME.json."""
    found = entries.read(results / f"{name}.json")
    if not found:
        return section(title, f"Of `experiments/{name}.py`: {NOT_RUN}.")
    return section(title, *(given(content, in_short(key, content, material)) for key, content in found.items()))


def _costs(records: Records) -> str:
    rows = []
    for name in EXPERIMENTS:
        runs = [record for record in records[name] if record["training"]]
        for device in dict.fromkeys(record["machine"]["name"] for record in runs):
            rows.append(_cost(name, device, [record for record in runs if record["machine"]["name"] == device]))
    columns = [
        "run", "seeds", "device", "runs at once", "seconds", "steps", "tokens/s", "peak memory, GB",
        "nodes, share of plain", "mean power, W", "energy, Wh", "Wh at the power limit",
    ]  # fmt: skip
    if not rows:
        return section("9. What it costs", f"{NOT_RUN[:1].upper()}{NOT_RUN[1:]}.")
    told = (
        "Training with the loss on held-out text after each epoch, without tokenising and evaluation, and with the "
        "compilation of kernels where a run was the first of its kind on a machine. Where several runs shared the "
        "card, the fastest seed is given, and its seconds are more than it needs alone. "
        "Energy: the card's mean draw, sampled while it trained, times the seconds; where n runs shared the card, an "
        "nth of it, marked ~: too little where the others were not all training. "
        "What training takes alone and compiled: docs/gpu.md."
    )
    return section("9. What it costs", told, table(columns, rows))


def _cost(name: str, device: str, runs: list[dict[str, Any]]) -> list[Any]:
    best = min(runs, key=lambda run: (run["sharing"], run["training"]["seconds"]))
    training, energy, about = best["training"], best["energy"], "~" if best["sharing"] > 1 else ""
    measured = [energy[key] / best["sharing"] for key in _ENERGY] if energy else []
    return [
        name,
        len(runs),
        device,
        best["sharing"],
        f"{training['seconds']:.1f}",
        training["steps"],
        f"{training['tokens'] / training['seconds']:,.0f}",
        f"{training['peak_memory_bytes'] / 1e9:.2f}",
        f"{training['nodes'] / training['plain_nodes']:.2f}" if training["nodes"] else "",
        *([f"{about}{value:.2f}" for value in measured] or [""] * len(_ENERGY)),
    ]


def _how(records: Records) -> str:
    """The commands, and the code and machines that were used."""
    runs = [record for name in EXPERIMENTS for record in records[name]]
    lines = [
        "```",
        'pip install --constraint constraints.txt --editable ".[train,experiments]"',
        "python -m experiments.training.reproduce all --prepare --work work",
        "python -m experiments.training.reproduce all --work work --seeds 0 1 2 3 --classification",
        "python -m experiments.measuring.baselines",
        "python -m experiments.training.reproduce banyan entangled-linear-ce entangled-linear-contrastive "
        "--work work --results again --keep-weights --keep-output --out-weights weights  # for figures and claims",
        "python -m experiments.figures.paper_figures nodes --models weights/banyan-0.npz  # and so on, see each figure",
        "python -m experiments.figures.claims norms --models weights/banyan-0.npz  # and so on, see each claim",
        "python -m experiments.pages",
        "```",
    ]
    used = sorted({_used(record) for record in runs})
    single = [[record["name"], f"`{_named(record)}`"] for record in _firsts(records) if record["command"]]
    parts = ["\n".join(lines), "\n".join(f"- {line}" for line in used)]
    if single:
        parts += ["One run by itself, from the command line:", table(["run", "command"], single)]
    return section("How to repeat it", *parts)


def _used(record: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["machine"]["versions"].items())
    code = f"code at {record['commit']}" if record["commit"] else "code without its history"
    return f"{record['machine']['name']}; {versions}; {code}"


def _named(record: dict[str, Any]) -> str:
    """Its command, which did not name preset paper as long as that was the default."""
    command, preset = record["command"], record["settings"]["preset"]
    return command if "--preset" in command or preset == DEFAULT_PRESET else f"{command} --preset {preset}"


def _firsts(records: Records) -> list[dict[str, Any]]:
    return [records[name][0] for name in EXPERIMENTS if records[name]]
