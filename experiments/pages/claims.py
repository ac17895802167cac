"""A sentence for each figure and each claim: whether what the paper says holds here. It is computed from the rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from experiments.pages.markdown import cell, listed
from experiments.records.estimates import CLEAR, Estimate
from experiments.records.material import Material
from experiments.training.runs import CHANNELS, EXPERIMENTS

STEADY = 1.0  # points: a width with a larger standard deviation over seeds is not called stable

Row = dict[str, Any]


def in_short(key: str, content: dict[str, Any], material: Material) -> str:
    """The sentence for an entry of figures.json or claims.json; empty if there is nothing to judge."""
    if key == "stability":
        return stable(material)
    rows = [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]
    return _JUDGED[key](rows) if key in _JUDGED and rows else ""


# --- Figures ---------------------------------------------------------------------------------------------------------


def _nodes(rows: list[Row]) -> str:
    times = [row["plain / entangled"] for row in rows]
    grows = all(smaller < larger for smaller, larger in pairwise(times))
    told = "As in the paper, the saving grows" if grows else "Unlike in the paper, the saving does not always grow"
    return (
        f"{told} with the batch: plain trees have {times[0]:.2f} times as many nodes as the entangled graph with "
        f"{rows[0]['sentences']:,} sentences, {times[-1]:.2f} times as many with {rows[-1]['sentences']:,}."
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
        f"and diagonal functions {'bring' if closer else 'do not bring'} the two embeddings of a node closer together "
        f"than linear ones (alignment {diagonal[align]:.2f} and {linear[align]:.2f})"
    )
    agreed = f"{told}{', as in the paper' if even and closer else ', unlike in the paper'}"
    return agreed + (f". The contrastive loss brings them closest ({contrastive[align]:.2f})." if nearest else ".")


def _umap(rows: list[Row]) -> str:
    at = {row["model"]: row for row in rows}
    if not {"CE, linear", "CE, diagonal"} <= set(at):
        return ""
    linear, diagonal = at["CE, linear"], at["CE, diagonal"]
    metrics = "cosine", "Euclidean"
    apart, mixed = ([row[f"in the picture, {metric}"] for metric in metrics] for row in (linear, diagonal))
    robust = max(apart) < 0.05 and min(mixed) > 0.2
    told = "As in the paper, with both metrics, up" if robust else "Less clearly than in the paper, up"
    shares = [f"{share:.0%} ({metric})" for share, metric in zip(mixed, metrics, strict=True)]
    themselves = [f"{diagonal[f'overlap, {metric}']:.0%}" for metric in metrics]
    return (
        f"{told} and down embeddings are separate in UMAP's plane with linear functions and overlap with diagonal "
        f"functions: with these, {listed(shares)} of a point's neighbours are of the other kind, where perfect mixing "
        f"would give about 50%. In the space of the embeddings the share is much lower: {listed(themselves)}."
    )


# --- Claims ----------------------------------------------------------------------------------------------------------


def _norms(rows: list[Row]) -> str:
    """Whether the mean norms grow upwards and shrink downwards."""
    up, down = ({name: _told(rows, name, column) for name in _models(rows)} for column in ("norm up", "norm down"))
    grown = all(values[-1] > values[0] for values in up.values())
    shrunk = all(values[-1] < values[0] for values in down.values())
    return (
        f"The mean norm of up embeddings {'grows' if grown else 'does not always grow'} from the leaves to the highest "
        f"nodes: {_ends(up)}. That of down embeddings {'shrinks' if shrunk else 'does not always shrink'} on the way "
        f"down: {_ends(down)}. This does not hold for every merge: the shares are below the table."
    )


def _ends(means: dict[str, list[float]]) -> str:
    return listed([f"{values[0]:.1f} to {values[-1]:.1f} ({name})" for name, values in means.items()])


def _models(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows))


def _told(rows: list[Row], model: str, column: str) -> list[float]:
    return [row[column] for row in rows if row["model"] == model and row[column] is not None]


def _unbiased(rows: list[Row]) -> str:
    """Whether the batch estimate is biased. The last row is the population."""
    *sizes, whole = rows
    biased = all(row["bias"] > CLEAR * row["chance"] for row in sizes)
    usual = EXPERIMENTS["banyan"].config(0).batch_size
    shown = [row for row in sizes if row["sentences"] in (sizes[0]["sentences"], usual, sizes[-1]["sentences"])]
    off = [f"{row['bias']:.2f} with {row['sentences']:,} sentences" for row in shown]
    told = (
        f"The estimate is {'biased' if biased else 'not significantly biased'} at every batch size: the "
        f"distance of the mean over batches is {listed(off)}, relative to the length of the embedding (sampling "
        f"error: at most {max(row['chance'] for row in sizes):.2f})."
    )
    if whole["loss"] is None:
        return told
    losses = [f"{row['loss']:.2f} with {row['sentences']:,}" for row in shown]
    losses.append(f"{whole['loss']:.2f} with all")
    return f"{told} With the same weights, the loss of a leaf is {listed(losses)}."


def _inference(rows: list[Row]) -> str:
    at = {row["measure"]: row["value"] for row in rows}
    speed, memory = at["sentences per second, 1 thread"], at["peak memory of the process, 1 thread, MB"]
    return f"The claim holds: {cell(round(speed))} sentences per second on one CPU thread, in {memory:.0f} MB."


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
    losses: tuple[float, ...]  # final training loss of each seed
    paper: dict[str, Any] | None  # the paper's score on sentences

    @property
    def steady(self) -> bool:
        return (self.sentences.sd or 0) <= STEADY

    def told(self) -> str:
        paper = f"; paper: sd {self.paper['sd']:g}" if self.paper and self.paper["sd"] is not None else ""
        return f"U = {self.width} ({listed([f'{value:.1f}' for value in self.sentences.values])}{paper})"


def widths(material: Material) -> list[Width]:
    """The widths with several seeds, the narrowest first."""
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
        f"{'Small U is stable, as in the paper' if small else 'Not only small U is stable'}: with U = "
        f"{listed([str(one.width) for one in steady])}, the score on sentences has a standard deviation of at most "
        f"{most:.2f} over seeds, and its means lie between {min(means):.1f} and {max(means):.1f}."
    ]
    if others:
        parts.append(f"Wide channels are not stable: {listed([one.told() for one in others])}.")
        parts.append(_fit_better(others))
    apart = [one.words.sd for one in found if one.words.sd is not None]
    if apart:
        span = f"{min(apart):.1f} to {max(apart):.1f}"
        parts.append(f"The standard deviation of the score on words is {span}, whatever U.")
    return " ".join(part for part in parts if part)


def _fit_better(widths_: list[Width]) -> str:
    """Whether the seeds with the lowest scores have the lowest training loss."""
    for one in widths_:
        lowest = one.sentences.values.index(min(one.sentences.values))
        if one.losses[lowest] > min(one.losses):
            return ""
    told = [f"{min(one.losses):.2f}, others up to {max(one.losses):.2f}, U = {one.width}" for one in widths_]
    return f"At these widths, the seed with the lowest score has the lowest training loss ({'; '.join(told)})."


def far_apart(material: Material) -> list[str]:
    """A note for the table of K and U about widths that are not stable."""
    others = [one.told() for one in widths(material) if not one.steady]
    if not others:
        return []
    told = f"- Scores vary strongly between seeds at {listed(others)}"
    return [f"{told}: a mean and a standard deviation over so few seeds say little. See section 10."]
