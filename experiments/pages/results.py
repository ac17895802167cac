"""RESULTS.md: the tables and figures of the paper beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from banyan.evaluate.suites import LANGUAGES
from experiments.pages import tables
from experiments.pages.ablations import ablations, controls
from experiments.pages.claims import far_apart, in_short
from experiments.pages.compared import compared
from experiments.pages.markdown import given, listed, section, table
from experiments.pages.presets import HISTORY, beside, presets
from experiments.pages.taught import running, taught
from experiments.pages.translated import translated
from experiments.records import entries
from experiments.records.estimates import NOT_RUN, Estimate, paper_told
from experiments.records.material import Material
from experiments.records.paired import Paired
from experiments.records.store import Records
from experiments.records.systems import PRETRAINED, SYSTEMS, Compared, fastest
from experiments.training.runs import EXPERIMENTS

_SPACED = {"paper": "banyan", "self-strae": "self-strae"}  # preset: run
_ENERGY = ("mean_watts", "watt_hours", "watt_hours_at_limit")


def render(results: Path) -> str:
    """The text of RESULTS.md, from the JSON in the folder `results`."""
    material = Material.read(results)
    parts = [
        _opening(material, results),
        section("At a glance", summary(material, Paired.read(results / "paired.json"))),
        tables.sentences(material),
        tables.words(material),
        tables.retrieval(material),
        tables.languages(material),
        tables.parameters(material, _counted(material, results)),
        ablations(material),
        tables.channels(material, far_apart(material)),
        _entries("8. Figures", "figures", results, material),
        _costs(material.records),
        _entries("10. The paper's claims, measured", "claims", results, material),
        controls(material),
        _entries("12. Baselines without training", "baselines", results, material),
        presets(material, _beside_presets(results)),
        compared(material, results / "compared"),
        taught(material),
        translated(material, entries.read(results / "translations.json").get("pmi")),
        running(material),
        _how(material.records),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _opening(material: Material, results: Path) -> str:
    return "\n\n".join(
        [
            "# Results",
            "The tables and figures of the paper, with our figures beside the paper's. `python -m experiments.pages` "
            "generates this file from the JSON in `experiments/results`; no figure was typed by hand. "
            f"{_lacking(material, results)}",
            "- Our figures are means ± standard deviations over seeds, followed by the number of seeds in brackets. A "
            "figure from a single seed has the 95% bootstrap interval over the items of the set, in square brackets.\n"
            "- A difference from the paper is called significant if it exceeds two standard deviations of the "
            "difference between single seeds or, for a single seed, if the paper's mean lies outside our interval.\n"
            + _corpora(material.records)
            + _spacing(material.records),
        ]
    )


def _beside_presets(results: Path) -> dict[str, Any]:
    """The tables of section 13 that were measured apart."""
    found = {name: entries.read(results / f"{name}.json") for name in ("versions", "paired", "compact")}
    return {f"{name} {key}": content for name, some in found.items() for key, content in some.items()}


def _lacking(material: Material, results: Path) -> str:
    """What the paper has and we could not run."""
    every = Compared.read(material, results / "compared")
    lacking = [system for system in SYSTEMS if system.pretrained and not every.ours(system, "sts")]
    weights = [system.told for system in lacking if system.command.startswith(PRETRAINED)]
    told = f"BEIR's Quora{f' and the weights of {listed(weights)}' if weights else ''}"
    return f"{told} were not available: there, only the paper's figure is given."


def _counted(material: Material, results: Path) -> dict[str, int]:
    """Parameters of the other systems that were trained here, beside the embedding, by their names in the paper."""
    every = Compared.read(material, results / "compared")
    roberta = next(one for one in SYSTEMS if one.name == "roberta")
    count = every.of(roberta).about.get("parameters beside the embedding")
    return {"RoBERTa (M)": count} if count else {}


def _corpora(records: Records) -> str:
    """How our corpora and tokenizers differ from the authors'."""
    told = (
        "- Our corpora are not the authors': they are other samples of text, from mixed sources. Our tokenizers are "
        "trained on these corpora; the authors used BPEmb's"
    )
    runs = [records[name][0] for name in ("banyan", *LANGUAGES) if records[name] and records[name][0]["training"]]
    sizes = []
    for record in runs:
        each = record["training"]["tokens"] / record["settings"]["epochs"]
        sizes.append(f"{record['language']} {each / 1e6:.1f}M, {record['vocabulary']:,}")
    return told + (f". Tokens in each corpus and vocabulary size: {'; '.join(sizes)}." if sizes else ".")


def _spacing(records: Records) -> str:
    """What the form of punctuation may cost, and the runs on text in the authors' form."""
    told = (
        "\n- The authors' training text is spaced as in the Penn Treebank: punctuation stands apart from words. So are "
        "most sentences of STS-12 to STS-16; our training text is not. Small runs that are trained on our form are "
        "worse on the other one ([docs/experiments.md](docs/experiments.md#spaced-punctuation))"
    )
    spaced = {preset: records.score(f"{run}-spaced", "sts") for preset, run in _SPACED.items()}
    raw = {preset: records.score(run, "sts") for preset, run in _SPACED.items()}
    found = [f"`{preset}` {s.told()} (as it is: {raw[preset].told()})" for preset, s in spaced.items() if s.values]
    if not found:
        return f"{told}; whole runs on spaced text need a GPU and are not run yet."
    return f"{told}. English sentences with training and test text in spaced form: {', '.join(found)}."


def summary(material: Material, paired: Paired) -> str:
    """The table of means, which README.md shows too. paired: the differences of `default` from TF-IDF."""
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
    columns += ["preset `default`", "TF-IDF of characters (no training)"]
    said = []
    for preset, run, of_languages in (("paper", "banyan", means[0]), ("default", "default", means[1])):
        known = paired.of_means if preset == "default" else {}
        sure = [known[group].interval() if group in known else "" for group in ("sts", "languages")]
        apart = [_beside_tfidf("English sentences", records.score(run, "sts"), rows[0][-1], sure[0])]
        apart.append(_beside_tfidf("the nine languages", of_languages, nothing, sure[1]))
        if any(apart):
            told = " and ".join(line for line in apart if line)
            said.append(f"- Compared with TF-IDF of characters, preset `{preset}` is {told}.")
    said += [f"- {line}" for line in beside(material)] + [f"- {HISTORY}"]
    return f"{table(columns, rows)}\n\n" + "\n".join(said)


def _beside_tfidf(where: str, ours: Estimate, nothing: float | None, sure: str) -> str:
    if not ours.values or nothing is None:
        return ""
    apart = ours.mean - nothing
    if round(abs(apart), 1) == 0:
        return f"level on {where}{sure}"
    return f"{abs(apart):.1f} points {'higher' if apart > 0 else 'lower'} on {where}{sure}"


def _entries(title: str, name: str, results: Path, material: Material) -> str:
    """The tables in NAME.json."""
    found = entries.read(results / f"{name}.json")
    if not found:
        return section(title, f"{NOT_RUN.capitalize()}.")
    return section(title, *(given(content, in_short(key, content, material)) for key, content in found.items()))


def _costs(records: Records) -> str:
    rows = []
    for name in EXPERIMENTS:
        runs = [record for record in records[name] if record["training"]]
        for device in dict.fromkeys(record["machine"]["name"] for record in runs):
            rows.append(_cost(name, device, [record for record in runs if record["machine"]["name"] == device]))
    columns = [
        "run", "seeds", "device", "concurrent runs", "seconds", "steps", "tokens/s", "peak memory, GB",
        "nodes / nodes of plain trees", "mean power, W", "energy, Wh", "Wh at the power limit",
    ]  # fmt: skip
    if not rows:
        return section("9. Training cost", f"{NOT_RUN.capitalize()}.")
    told = (
        "Seconds are those of a whole training: with the held-out loss after each epoch, and with the compilation of "
        "kernels if a run was the first of its kind on a machine; without tokenisation and evaluation. Section 14 has "
        "the same seconds. docs/gpu.md and README.md give less for preset `paper`: the steps alone, with compiled "
        "kernels (`benchmarks/gpu.py`). The table shows the fastest of the seeds that shared the GPU with the fewest "
        "other runs, which would have been faster alone. Energy is the mean power draw of the GPU, sampled "
        "during training, times the seconds. If n runs shared the GPU, each is charged an nth; these figures are "
        "marked ~ and are too low if some of the other runs were not training."
    )
    return section("9. Training cost", told, table(columns, rows))


def _cost(name: str, device: str, runs: list[dict[str, Any]]) -> list[Any]:
    best = fastest(runs)
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
    """The commands, and the machines and versions of the recorded runs."""
    runs = [record for name in EXPERIMENTS for record in records[name]]
    lines = [
        "```",
        "export BANYAN_DATA=...  # the data folder: experiments/README.md",
        'pip install --constraint constraints.txt --editable ".[train,experiments]"',
        "python -m experiments.training.reproduce all --prepare --work work",
        "python -m experiments.training.reproduce all --work work --seeds 0 1 2 3 --classification",
        "python -m experiments.measuring.baselines",
        "python -m experiments.training.reproduce banyan entangled-linear-ce entangled-linear-contrastive "
        "--work work --results again --keep-weights --keep-output --out-weights weights  # for figures and claims",
        "python -m experiments.figures.paper_figures nodes --models weights/banyan-0.npz  # and so on",
        "python -m experiments.figures.claims norms --models weights/banyan-0.npz  # and so on",
        "python -m experiments.pages",
        "```",
    ]
    used = sorted({_used(record) for record in runs})
    single = [[name, f"`{told}`"] for name, run in EXPERIMENTS.items() if records[name] and (told := run.command(0))]
    parts = ["\n".join(lines), "\n".join(f"- {line}" for line in used)]
    if single:
        parts += ["To train a single run from the command line:", table(["run", "command"], single)]
    return section("How to reproduce these results", *parts)


def _used(record: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["machine"]["versions"].items())
    code = f"commit {record['commit']}" if record["commit"] else "unknown commit"
    return f"{record['machine']['name']}; {versions}; {code}"
