"""A plain sentence for each figure and each claim: whether what the paper says holds here. All of it from the rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from experiments.pages.markdown import cell, listed
from experiments.records.estimates import CLEAR, Estimate
from experiments.records.material import Material
from experiments.training.runs import CHANNELS, EXPERIMENTS

STEADY = 1.0  # points: with a larger deviation over seeds, a width of channels is not called stable

Row = dict[str, Any]


def in_short(key: str, content: dict[str, Any], material: Material) -> str:
    """The sentence for an entry of figures.json or claims.json; none where there is nothing to judge."""
    if key == "stability":
        return stable(material)
    rows = [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]
    return _JUDGED[key](rows) if key in _JUDGED and rows else ""


# --- Figures ---------------------------------------------------------------------------------------------------------


def _nodes(rows: list[Row]) -> str:
    times = [row["plain / entangled"] for row in rows]
    grows = all(smaller < larger for smaller, larger in pairwise(times))
    told = "As the paper says, what" if grows else "Other than the paper says, it is not always so that what"
    return (
        f"{told} entangling saves grows with the batch: plain trees have {times[0]:.2f} times as many nodes at "
        f"{rows[0]['sentences']:,} sentences, {times[-1]:.2f} times at {rows[-1]['sentences']:,}."
    )


def _uniformity(rows: list[Row]) -> str:
    at = {row["model"]: row for row in rows}
    if not {"contrastive, linear", "CE, linear", "CE, diagonal"} <= set(at):
        return ""
    contrastive, linear, diagonal = (at[name] for name in ("contrastive, linear", "CE, linear", "CE, diagonal"))
    align, spread = "alignment", "uniformity, mean of both"
    closer = diagonal[align] < linear[align]
    even = max(linear[spread], diagonal[spread]) < contrastive[spread]
    nearest = contrastive[align] < diagonal[align]
    told = (
        f"Cross-entropy {'spreads' if even else 'does not spread'} embeddings more evenly than the contrastive loss, "
        f"and diagonal functions {'bring' if closer else 'do not bring'} the two embeddings of a node closer than "
        f"linear ones ({diagonal[align]:.2f} against {linear[align]:.2f})"
    )
    agreed = f"{told}{', as the paper says' if even and closer else ', other than the paper says'}"
    return agreed + (f"; the contrastive loss brings them closer still ({contrastive[align]:.2f})." if nearest else ".")


def _umap(rows: list[Row]) -> str:
    at = {row["model"]: row for row in rows}
    if not {"CE, linear", "CE, diagonal"} <= set(at):
        return ""
    linear, diagonal = at["CE, linear"], at["CE, diagonal"]
    metrics = "cosine", "Euclidean"
    apart, mixed = ([row[f"in the picture, {metric}"] for metric in metrics] for row in (linear, diagonal))
    robust = max(apart) < 0.05 and min(mixed) > 0.2
    told = "As in the paper, and with both metrics, up" if robust else "Not as clearly as in the paper, up"
    shares = [f"{share:.0%} ({metric})" for share, metric in zip(mixed, metrics, strict=True)]
    themselves = [f"{diagonal[f'overlap, {metric}']:.0%}" for metric in metrics]
    return (
        f"{told} and down embeddings lie apart in UMAP's plane with linear functions and overlap with diagonal ones: "
        f"there, {listed(shares)} of a point's neighbours are of the other kind; mixed would be about 50%. Among the "
        f"embeddings themselves far fewer are: {listed(themselves)}."
    )


# --- Claims ----------------------------------------------------------------------------------------------------------


def _norms(rows: list[Row]) -> str:
    """Whether means grow and shrink from end to end, and at each step."""
    up, down = ({name: _told(rows, name, column) for name in _models(rows)} for column in ("norm up", "norm down"))
    grown = all(values[-1] > values[0] for values in up.values())
    shrunk = all(values[-1] < values[0] for values in down.values())
    return (
        f"Up, mean norms {'grow' if grown else 'do not always grow'} from the leaves to the highest nodes: "
        f"{_ends(up)}. Down, they {'shrink' if shrunk else 'do not always shrink'}: {_ends(down)}. "
        "Of single merges it is no law: the shares are under the table."
    )


def _ends(means: dict[str, list[float]]) -> str:
    return listed([f"{values[0]:.1f} to {values[-1]:.1f} ({name})" for name, values in means.items()])


def _models(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows))


def _told(rows: list[Row], model: str, column: str) -> list[float]:
    return [row[column] for row in rows if row["model"] == model and row[column] is not None]


def _unbiased(rows: list[Row]) -> str:
    """The last row is the population."""
    *sizes, whole = rows
    biased = all(row["bias"] > CLEAR * row["chance"] for row in sizes)
    usual = EXPERIMENTS["banyan"].config(0).batch_size
    shown = [row for row in sizes if row["sentences"] in (sizes[0]["sentences"], usual, sizes[-1]["sentences"])]
    off = [f"{row['bias']:.2f} with {row['sentences']:,} sentences" for row in shown]
    told = (
        f"The estimate is {'biased, at every batch size' if biased else 'not clearly biased at every batch size'}: the "
        f"mean over batches is off by {listed(off)}, as a share of the embedding's length (chance would allow "
        f"{max(row['chance'] for row in sizes):.2f} at most)."
    )
    if whole["loss"] is None:
        return told
    losses = [f"{row['loss']:.2f} with {row['sentences']:,}" for row in shown]
    return f"{told} The loss of a leaf, of one and the same model, is {listed(losses)}; {whole['loss']:.2f} with all."


def _inference(rows: list[Row]) -> str:
    at = {row["what"]: row["figure"] for row in rows}
    speed, memory = at["sentences a second, 1 thread"], at["peak memory of the process, 1 thread, MB"]
    return f"It holds: {cell(round(speed))} sentences a second on one thread of a CPU, in {memory:.0f} MB."


_JUDGED: dict[str, Callable[[list[Row]], str]] = {
    "nodes": _nodes, "uniformity": _uniformity, "umap": _umap, "norms": _norms, "unbiased": _unbiased,
    "inference": _inference,
}  # fmt: skip


# --- K and U ---------------------------------------------------------------------------------------------------------


class Width(NamedTuple):
    """The seeds of one width U of a channel."""

    width: int
    sentences: Estimate
    words: Estimate
    losses: tuple[float, ...]  # of training, seed by seed
    paper: dict[str, Any] | None  # its score of the sentences

    @property
    def steady(self) -> bool:
        return (self.sentences.sd or 0) <= STEADY

    def told(self) -> str:
        paper = f"; the paper's deviation: {self.paper['sd']:g}" if self.paper and self.paper["sd"] is not None else ""
        return f"U = {self.width} ({listed([f'{value:.1f}' for value in self.sentences.values])}{paper})"


def widths(material: Material) -> list[Width]:
    """Those with several seeds, the narrowest channels first."""
    found = []
    for k in CHANNELS:
        run = "banyan" if k == EXPERIMENTS["banyan"].config(0).channels else f"channels-{k}"
        sentences, words = (material.records.score(run, group) for group in ("sts", "words"))
        losses = tuple(record["training"]["train_loss"] for record in material.records[run])
        if sentences.n > 1:
            paper = material.cell("ku", str(k), "STS Score")
            found.append(Width(EXPERIMENTS[run].config(0).width, sentences, words, losses, paper))
    return sorted(found)


def stable(material: Material) -> str:
    found = widths(material)
    steady, others = [one for one in found if one.steady], [one for one in found if not one.steady]
    if not steady:
        return ""
    most = max(one.sentences.sd or 0 for one in steady)
    means = [one.sentences.mean for one in steady]
    small = not others or steady[-1].width < others[0].width
    parts = [
        f"{'Small U is stable, as the paper says' if small else 'What is stable is not small U alone'}: with U = "
        f"{listed([str(one.width) for one in steady])}, the score of the sentences deviates by {most:.2f} at most over "
        f"seeds, and its means lie between {min(means):.1f} and {max(means):.1f}."
    ]
    if others:
        parts.append(f"Wide channels are not: {listed([one.told() for one in others])}.")
        parts.append(_fit_better(others))
    apart = [one.words.sd for one in found if one.words.sd is not None]
    if apart:
        parts.append(f"The score of the words deviates by {min(apart):.1f} to {max(apart):.1f}, small U or not.")
    return " ".join(part for part in parts if part)


def _fit_better(widths_: list[Width]) -> str:
    """Are the low seeds those that were not trained well?"""
    for one in widths_:
        lowest = one.sentences.values.index(min(one.sentences.values))
        if one.losses[lowest] > min(one.losses):
            return ""
    told = [f"{min(one.losses):.2f} against {max(one.losses):.2f}, U = {one.width}" for one in widths_]
    return f"Where seeds differ so, the one with the lowest score has the lowest training loss ({'; '.join(told)})."


def far_apart(material: Material) -> list[str]:
    """For the table of K and U: a deviation that hides a difference is explained."""
    others = [one.told() for one in widths(material) if not one.steady]
    if not others:
        return []
    told = f"- Seeds lie far apart at {listed(others)}"
    return [f"{told}: a mean and a deviation over so few say little there. More under 10."]
