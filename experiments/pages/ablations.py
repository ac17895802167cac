"""The sections of RESULTS.md about ablations and about controls without induced trees."""

from __future__ import annotations

from typing import Any

from experiments.pages.markdown import listed, section, table
from experiments.pages.small import SETS as SMALL_SETS
from experiments.pages.tables import Beside, score_check, verdict
from experiments.records.estimates import NOT_RUN, Estimate, clearly, difference, paper_told
from experiments.records.material import Material
from experiments.records.sets import SPEARMAN, STS
from experiments.training.amounts import SPACED
from experiments.training.runs import EXPERIMENTS, STRUCTURES

ABLATIONS = {  # run: the paper's row
    "self-strae": "Standard Trees",
    "plain-diagonal-contrastive": "Standard Trees + diag functions",
    "plain-diagonal-ce": "Standard Trees ++ CE loss",
    "entangled-linear-contrastive": "Entangled Trees",
    "entangled-diagonal-contrastive": "Entangled Trees + diag functions",
    "banyan": "Entangled Trees ++ CE loss",
    "plain-linear-ce": None,
    "entangled-linear-ce": None,
    "plain-diagonal-ce-tokens": None,
    "both": None,
}
CHANGES = {
    "entangled instead of plain trees": ("trees", "plain", "entangled"),
    "diagonal instead of linear functions": ("functions", "linear", "diagonal"),
    "cross-entropy instead of contrastive": ("objective", "contrastive", "cross-entropy"),
}
_KINDS = ("trees", "functions", "objective")


def ablations(material: Material) -> str:
    rows, details, compared = [], [], Beside()
    for run, row in ABLATIONS.items():
        ours = material.records.score(run, "sts")
        paper = material.cell("ablations", row, "Score") if row else None
        kinds = _kinds(run)
        compared.append((" + ".join(kinds), ours, paper))
        rows.append([*kinds, paper_told(paper), ours.told(), difference(ours, paper), *_optimiser(run)])
        details.append([" + ".join(kinds), *(_set(material, run, row, *names) for names in STS.items())])
    said = [f"- {verdict(compared)[:1].upper()}{verdict(compared)[1:]}"]
    said += [score_check(check) for check in material.paper["scores"]["ablations"] if not check["agrees"]]
    said.append(
        "- The paper does not say which optimiser it used for mixed rows. Ours use the optimiser of their objective: "
        "that of Self-StrAE for the contrastive objective, that of Banyan for cross-entropy. \"Both\" (half "
        "contrastive over inner nodes, half cross-entropy over leaves) uses that of Self-StrAE, with the learning "
        "rate of its authors' instructions. In entangled trees, leaf dropout applies to leaf types."
    )
    told = (said_of(material) for said_of in (_counted_once, _halves, _spacing, _faster, _both))
    said += [line for line in told if line]
    columns = [*_KINDS, "Score, paper", "ours", "difference", "learning rate", "K", "leaf dropout"]
    return section(
        "6. Ablations",
        table(columns, rows),
        "\n".join(said),
        "The effect of each change on the score, all else equal:",
        _changes(material),
        "Each set, ours (paper in brackets):",
        table(["model", *STS], details),
    )


def _counted_once(material: Material) -> str:
    """How much of the gain of entangling comes from counting each distinct token once in the loss."""
    plain, once, entangled = (
        material.records.score(run, "sts") for run in ("plain-diagonal-ce", "plain-diagonal-ce-tokens", "banyan")
    )
    if not (plain.values and once.values and entangled.values):
        return ""
    if not _alike(material, "plain-diagonal-ce", "plain-diagonal-ce-tokens"):
        return ""
    whole, part = entangled.mean - plain.mean, once.mean - plain.mean
    told = (
        f"- With diagonal functions and cross-entropy, entangling gains {whole:+.2f}. Plain trees with a loss that "
        f"counts each distinct token of the batch once, as in entangled trees, gain {part:+.2f}"
    )
    reason = ": nearly all of the gain in quality comes from the weights of tokens in the loss"
    return f"{told}{reason if part > 0.8 * whole else ''}."


def _halves(material: Material) -> str:
    """Which child gets the first half of a decomposition: why runs by side are far below the paper."""
    plain = [run for run in ABLATIONS if EXPERIMENTS[run].config(0).halves == "age"]
    by_side = [run for run in plain if any(_by_side(record) for record in material.records[run])]
    told = (
        "- Plain trees: in the authors' program, the first half of a decomposition goes to the older child (leaves "
        "first, then merges in the order they were made). With halves by age, our loss and our gradients are those of "
        "that program (tests/test_golden.py)."
    )
    if not by_side:
        return told
    return (
        f"{told} **{listed([f'`{run}`' for run in by_side])} above gave the first half to the left child; they are to "
        "be run again on a GPU by age.** With equal weights and no dropout, this was the only difference from that "
        "program. By side, the right half can learn the final punctuation: small runs with linear functions are far "
        "below the same runs by age or at random ([docs/experiments.md](docs/experiments.md#halves-by-age))."
    )


def _spacing(material: Material) -> str:
    """What the form of punctuation costs a small run of plain + diagonal + contrastive."""
    raw, spaced = (material.small[f"diagonal-age-long-slow{form}"] for form in ("", SPACED))
    if not (raw and spaced):
        return ""

    def has(run: dict[str, Any], form: str) -> str:
        return " and ".join(f"{run['figures'][form][task]:.1f} ({name})" for name, task in SMALL_SETS.items())

    return (
        "- A reason that was measured for plain + diagonal + contrastive, in small runs (development sets, one seed): "
        "most sentences of STS-12 to STS-16 have spaces around their punctuation, as the authors' training text has, "
        "and ours does not. On text in that form, a model trained on raw text has "
        f"{has(raw[0], 'spaced')}, one trained on spaced text {has(spaced[0], 'spaced')}; on raw text the first has "
        f"{has(raw[0], 'raw')} "
        "([docs/experiments.md](docs/experiments.md#spaced-punctuation))."
    )


def _by_side(record: dict[str, Any]) -> bool:
    return record["settings"].get("halves", "side") == "side"  # records before the setting were trained so


def _alike(material: Material, *runs: str) -> bool:
    """Whether these runs on plain trees gave the halves of a decomposition to the same child."""
    return len({_by_side(record) for run in runs for record in material.records[run]}) == 1


def _faster(material: Material) -> str:
    """Whether the learning rate explains the distance of Self-StrAE from the paper."""
    records = material.records
    usual, fast = (records.score(run, "sts") for run in ("self-strae", "self-strae-fast"))
    paper = material.cell("ablations", ABLATIONS["self-strae"] or "", "Score")
    if not (usual.values and fast.values and paper and _alike(material, "self-strae", "self-strae-fast")):
        return ""
    slow_run, fast_run = records["self-strae"][0], records["self-strae-fast"][0]
    gain, lacking = fast.mean - usual.mean, paper["mean"] - usual.mean
    losses = [run["training"]["train_loss"] for run in (fast_run, slow_run)]
    return (
        f"- The learning rate {'does not explain' if gain < lacking / 2 else 'may explain'} why Self-StrAE is below "
        f"the paper: with {fast_run['settings']['lr'] / slow_run['settings']['lr']:.0f} times the rate, for "
        f"{fast_run['settings']['epochs']} epochs, it scores {fast.told()}, a gain of {gain:.2f} of the missing "
        f"{lacking:.2f} points. The final training loss is {losses[0]:.2f}, with the usual rate {losses[1]:.2f}."
    )


def _both(material: Material) -> str:
    """The effect of adding cross-entropy to the contrastive loss, with and without that of the learning rate."""
    both, usual, fast = (material.records.score(run, "sts") for run in ("both", "self-strae", "self-strae-fast"))
    if not (both.values and usual.values and fast.values and _alike(material, "both", "self-strae", "self-strae-fast")):
        return ""
    epochs = EXPERIMENTS["self-strae-fast"].config(0).epochs
    return (
        f"- Self-StrAE with both objectives: {both.mean - usual.mean:+.2f} compared with the contrastive objective "
        f"alone, {both.mean - fast.mean:+.2f} compared with it at the same learning rate (for {epochs} epochs)."
    )


def _kinds(run: str) -> list[str]:
    config = EXPERIMENTS[run].config(0)
    objective = config.objective + (" over distinct tokens" if config.mean_over == "tokens" else "")
    return [config.trees, config.functions, objective]


def _optimiser(run: str) -> list[Any]:
    config = EXPERIMENTS[run].config(0)
    leaf = config.dropout if config.leaf_dropout is None else config.leaf_dropout
    return [f"{config.lr:g}", config.channels, f"{leaf:g}"]


def _set(material: Material, run: str, row: str | None, column: str, task: str) -> str:
    ours = material.records.figure(run, task, SPEARMAN)
    paper = material.cell("ablations", row, column) if row else None
    told = f"{ours.mean:.2f}" if ours.values else "–"
    return told + (f" ({paper_told(paper)})" if paper else "")


def _changes(material: Material) -> str:
    """Differences between rows that differ in one respect."""
    found = {tuple(_kinds(run)): run for run in ABLATIONS}
    rows = []
    for change, (kind, before, after) in CHANGES.items():
        at = _KINDS.index(kind)
        for kinds, run in found.items():
            other = found.get((*kinds[:at], after, *kinds[at + 1 :]))
            if kinds[at] == before and other:
                fixed = " + ".join(name for i, name in enumerate(kinds) if i != at)
                rows.append([change, fixed, *_gain(material, run, other)])
    return table(["change", "with", "paper", "ours"], rows)


def _gain(material: Material, run: str, other: str) -> list[str]:
    a, b = (material.records.score(name, "sts") for name in (run, other))
    rows = ABLATIONS[run], ABLATIONS[other]
    cells = [material.cell("ablations", row, "Score") if row else None for row in rows]
    paper = f"{cells[1]['mean'] - cells[0]['mean']:+.2f}" if cells[0] and cells[1] else "not in the paper"
    return [paper, f"{b.mean - a.mean:+.2f}" if a.values and b.values else NOT_RUN]


def controls(material: Material) -> str:
    names = {"induced (Banyan)": "banyan", **{name: name for name in STRUCTURES}}
    names["no tree: mean of the leaves"] = "no-tree"
    records = material.records
    base = records.score("banyan", "sts")
    rows: list[list[str]] = []
    kinds: dict[int, list[str]] = {-1: [], 0: [], 1: []}
    for told, run in names.items():
        trained, ours = records.score(run, "sts"), [records.score(run, "words").told()]
        untrained = [records.score(f"{run}-untrained", group).told() for group in ("sts", "words")]
        apart = f"{trained.mean - base.mean:+.2f}" if trained.values and base.values and run != "banyan" else ""
        rows.append([told, trained.told(), apart, *ours, *untrained])
        if apart:
            kinds[_apart(trained, base)].append(f"{told} ({apart})")
    columns = ["structure", "sentences, trained", "minus Banyan", "words, trained"]
    columns += ["sentences, untrained", "words, untrained"]
    said = (
        "Controls that are not in the paper: the same corpus, objective and optimiser, with trees that do not depend "
        "on vectors."
    )
    without = {told: records.score(f"{run}-untrained", "sts") for told, run in names.items()}
    return section(
        "11. Does structure earn its keep?", said, table(columns, rows), "\n".join(_conclusion(kinds, without))
    )


def _conclusion(kinds: dict[int, list[str]], untrained: dict[str, Estimate]) -> list[str]:
    """Sentences about the controls that are above Banyan (1), not significantly different (0) and below (-1)."""
    said = []
    words = {1: "significantly worse than", 0: "not significantly different from", -1: "significantly better than"}
    for kind, how in words.items():
        if kinds[kind]:
            said.append(f"- On the English sentence sets, induced trees are {how} {listed(kinds[kind])}.")
    if all(one.values for one in untrained.values()):
        best = max(untrained, key=lambda told: untrained[told].mean)
        said.append(f"- Without training, the best on sentences is {best}: {untrained[best].mean:.2f}.")
    if any(kinds.values()):
        said.append(
            "- In brackets: the control minus Banyan. Significant: by more than two standard deviations of the "
            "difference between seeds or, for a control with one seed, if Banyan's mean lies outside its interval."
        )
    return said


def _apart(control: Estimate, base: Estimate) -> int:
    """1 if the control is significantly above Banyan, -1 if below, 0 if neither.

    The limit is two standard deviations of the difference between seeds or, if the control has one seed, its bootstrap
    interval.
    """
    return clearly(control, {"mean": base.mean, "sd": base.sd}) or 0
