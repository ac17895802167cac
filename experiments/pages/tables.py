"""The sections of RESULTS.md with a table of the paper, our figures beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from banyan.evaluate.suites import LANGUAGES
from experiments.pages.markdown import listed, section, table
from experiments.records.estimates import NOT_RUN, Estimate, clearly, difference, paper_told
from experiments.records.material import Material
from experiments.records.sets import CUTS, NAMES, SPEARMAN, STS, WORDS
from experiments.records.store import Records
from experiments.training.runs import CHANNELS, EXPERIMENTS

MODELS = {"Self-StrAE": "self-strae", "Banyan": "banyan"}
Beside = list[tuple[str, Estimate, dict[str, Any] | None]]  # set, ours, the paper's


def sentences(material: Material) -> str:
    return _two_models(
        material, "1. English sentences", "sts_vs_self", "sts", STS, "Spearman's ρ × 100 over each whole set."
    )


def words(material: Material) -> str:
    told = "Spearman's ρ × 100; a word of several pieces is composed by the tree."
    return _two_models(material, "2. English words", "lex_vs_self", "words", WORDS, told)


def _two_models(material: Material, title: str, name: str, group: str, sets: dict[str, str], what: str) -> str:
    rows, compared = [], {model: Beside() for model in MODELS}
    for column, task in [*sets.items(), ("Score", "")]:
        row: list[Any] = [column]
        for model, run in MODELS.items():
            records = material.records
            ours = records.figure(run, task, SPEARMAN) if task else records.score(run, group)
            paper = material.cell(name, model, column)
            compared[model].append((column, ours, paper))
            row += [paper_told(paper), ours.told(), difference(ours, paper)]
        rows.append([*row, material.baseline(group, [task or "mean"], "TF-IDF")])
    head = [f"{model}, {what}" for model in MODELS for what in ("paper", "ours", "difference")]
    said = [f"- {model}: {verdict(found)}{_elsewhere(model, found)}" for model, found in compared.items()]
    checks = [score_check(check) for check in material.paper["scores"][name] if not check["agrees"]]
    said += _notes(material.records, {column: ("banyan", task) for column, task in sets.items()})
    return section(title, what, table(["set", *head, "TF-IDF (no training)"], rows), "\n".join([*said, *checks]))


def _notes(records: Records, sets: dict[str, tuple[str, str]]) -> list[str]:
    """The notes of the evaluation about sets, given as name: (run, task)."""
    found = {told: records.note(*of) for told, of in sets.items()}
    return [f"- {told}: {note}." for told, note in found.items() if note]


def score_check(check: dict[str, Any]) -> str:
    printed, mean = check["printed"], check["mean"]
    return f"- The paper gives a score of {printed:.2f} for {check['row']}; the mean of its columns is {mean:.2f}."


def verdict(compared: Beside) -> str:
    """The sets on which ours and the paper's differ significantly, and the others."""
    if not any(ours.values for _, ours, _ in compared):
        return f"{NOT_RUN}."
    kinds = {1: "significantly higher than the paper on", -1: "significantly lower than the paper on",
             0: "not significantly different on"}  # fmt: skip
    told = []
    for kind, words_ in kinds.items():
        found = [
            f"{where} ({difference(ours, paper)})" if kind else where
            for where, ours, paper in compared
            if clearly(ours, paper) == kind
        ]
        if found:
            told.append(f"{words_} {listed(found)}")
    apart = any(clearly(ours, paper) for _, ours, paper in compared)
    return f"ours is {'; '.join(told)}." + (" Corpus and tokenizer differ from the authors'." if apart else "")


def _elsewhere(model: str, compared: Beside) -> str:
    """A pointer to the discussion of Self-StrAE."""
    lower = any(clearly(ours, paper) == -1 for _, ours, paper in compared)
    told = " Section 6 has what else is known about the reasons."
    return told if model == "Self-StrAE" and lower else ""


def retrieval(material: Material) -> str:
    rows: list[list[Any]] = []
    compared = {model: Beside() for model in MODELS}
    for place in ("Quora", "Arguana"):
        for column, metric in CUTS.items():
            row: list[Any] = [place, column]
            for model, run in MODELS.items():
                paper = material.cell("retrieve", model, f"{place} {column}")
                ours = material.records.figure(run, place.lower(), metric)
                absent = place == "Quora" and not ours.values
                row += [paper_told(paper), "BEIR's Quora not available" if absent else ours.told()]
                row.append(difference(ours, paper))
                if not absent:
                    compared[model].append((f"{place} {column}", ours, paper))
            rows.append([*row, material.baseline("retrieval", [place.lower(), metric], "TF-IDF")])
    for place, task, metric, column in (("SST-2", "sst2", "accuracy", "Acc"), ("MRPC", "mrpc", "f1", "F1")):
        row = [place, column]
        for model, run in MODELS.items():
            paper = material.cell("retrieve", model, f"{place} {column}")
            ours = material.records.figure(run, task, metric)
            row += [paper_told(paper), ours.told(), difference(ours, paper)]
            compared[model].append((place, ours, paper))
        rows.append([*row, material.baseline("classification", [task, metric], "majority class")])
    head = [f"{model}, {what}" for model in MODELS for what in ("paper", "ours", "difference")]
    said = [f"- {model}: {verdict(found)}{_elsewhere(model, found)}" for model, found in compared.items()]
    f1 = material.baseline("classification", ["mrpc", "f1"], "majority class")
    if f1 is not None:
        all_f1 = [row["MRPC F1"]["mean"] for row in material.paper["tables"]["retrieve"].values()]
        said.append(
            f'- Predicting "paraphrase" for every pair of MRPC gives an F1 of {f1:.1f}; the figures in the paper lie '
            f"between {min(all_f1):.1f} and {max(all_f1):.1f}."
        )
    said.append(
        "- Classification: a GeLU network on frozen embeddings. We choose its epoch on held-out training data, the "
        "authors' program on the test set."
    )
    said += _notes(material.records, {"SST-2": ("banyan", "sst2"), "MRPC": ("banyan", "mrpc")})
    columns = ["set", "measure", *head, "no training (TF-IDF; majority class)"]
    return section("3. Retrieval and classification", table(columns, rows), "\n".join(said), _stand_in(material))


def _stand_in(material: Material) -> str:
    rows = []
    for column, metric in CUTS.items():
        ours = [material.records.figure(run, "quora_small_retrieval", metric).told() for run in MODELS.values()]
        rows.append([column, *ours])
    return (
        "A smaller retrieval set made of pairs of Quora questions (`quora_small_retrieval`). It is not BEIR's "
        "Quora, and the paper has no figure for it:\n\n" + table(["measure", *MODELS], rows)
    )


def languages(material: Material) -> str:
    records = material.records
    rows, compared = [], Beside()
    for code, name in NAMES.items():
        ours, paper = records.figure(code, code, SPEARMAN), material.cell("multilang", "Banyan", name)
        compared.append((name, ours, paper))
        rows.append([name, *_beside(paper, ours), material.baseline("languages", [code], "TF-IDF")])
    ours, paper = records.mean_over(LANGUAGES, SPEARMAN), material.cell("multilang", "Banyan", "Score")
    compared.append(("Score", ours, paper))
    rows.append(["Score", *_beside(paper, ours), material.baseline("languages", ["mean"], "TF-IDF")])
    said = [f"- Banyan: {verdict(compared)}", *_epochs(records)]
    said += _notes(records, {name: (code, code) for code, name in NAMES.items()})
    columns = ["language", "paper", "ours", "difference", "TF-IDF (no training)"]
    epochs = EXPERIMENTS["af"].config(0).epochs
    told = f"SemRel, Spearman's ρ × 100, after {epochs} epochs, as in the authors' instructions."
    return section("4. Nine languages", told, table(columns, rows), "\n".join(said))


def _beside(paper: dict[str, Any] | None, ours: Estimate) -> list[str]:
    return [paper_told(paper), ours.told(), difference(ours, paper)]


def _epochs(records: Records) -> list[str]:
    short, long = (records.figure(name, "af", SPEARMAN) for name in ("af", "af-15"))
    few, many = (EXPERIMENTS[name].config(0).epochs for name in ("af", "af-15"))
    if not (short.values and long.values):
        return [f"- Afrikaans after {many} epochs, as the text of the paper implies: {NOT_RUN}."]
    return [
        f"- Afrikaans after {many} epochs, as the text of the paper implies, instead of {few}: {long.told()} instead "
        f"of {short.told()}{', not significantly different' if _inside(short, long) else ''}."
    ]


def _inside(one: Estimate, other: Estimate) -> bool:
    """Whether the mean lies inside the other's interval, that of a single seed."""
    return other.low is not None and other.high is not None and other.low <= one.mean <= other.high


def parameters(material: Material, counted: dict[str, int]) -> str:
    """Our counts and the paper's; `counted`: those of other systems, by the paper's names."""
    rows = []
    for model, run in MODELS.items():
        paper = material.cell("params", "Params", model)
        counts = material.records[run][0]["parameters"] if material.records[run] else None
        ours = [counts[kind] for kind in ("functions", "embedding", "output")] if counts else [NOT_RUN, None, None]
        rows.append([model, int(paper["mean"]) if paper else None, *ours])
    for model, paper in material.paper["tables"]["params"]["Params"].items():
        if model not in MODELS:
            rows.append([model, f"≈ {int(paper['mean']):,}", counted.get(model, "not available here"), None, None])
    columns = ["model", "paper", "ours, functions", "embedding", "output layer (training only)"]
    told = "Counted in the models. The paper counts parameters other than the embedding and the output layer."
    return section("5. Parameters", told, table(columns, rows))


def channels(material: Material, notes: Sequence[str] = ()) -> str:
    rows, compared = [], {"words": Beside(), "sts": Beside()}
    for k in CHANNELS:
        run = "banyan" if k == EXPERIMENTS["banyan"].config(0).channels else f"channels-{k}"
        row: list[Any] = [k, EXPERIMENTS[run].config(0).width]
        for group, column in (("words", "Lex Score"), ("sts", "STS Score")):
            ours, paper = material.records.score(run, group), material.cell("ku", str(k), column)
            compared[group].append((f"K = {k}", ours, paper))
            row += _beside(paper, ours)
        rows.append(row)
    head = [f"{group}, {what}" for group in ("words", "sentences") for what in ("paper", "ours", "difference")]
    said = [f"- Words: {verdict(compared['words'])}", f"- Sentences: {verdict(compared['sts'])}", *notes]
    for twice in material.paper["repeated"]:
        a, b = twice["figures"]
        if a != b:
            said.append(
                f"- The paper gives the score of {twice['what']} as {paper_told(a)} in one table and {paper_told(b)} "
                "in another."
            )
    return section("7. K and U", table(["K", "U", *head], rows), "\n".join(said))
