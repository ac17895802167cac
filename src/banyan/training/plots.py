"""Plots of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.support import files
from banyan.support.needs import needs

if TYPE_CHECKING:
    from banyan.model.objective import Term


def loss_curve(metrics: Path, out: Path, terms: Sequence[Term]) -> None:
    """Write loss.png: a panel for each part of the loss, with its value at each step and on held-out text."""
    with needs("Drawing the loss", "train"):
        from matplotlib.figure import Figure

    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    shown = [term for term in terms if any(term.name in row for row in rows)]
    if not shown:
        return
    figure = Figure(figsize=(7, 1 + 3 * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), sharex=True, squeeze=False)[:, 0]
    for axes, term in zip(panels, shown, strict=True):
        _panel(axes, rows, term)
    panels[0].legend(frameon=False)
    panels[-1].set_xlabel("step")
    with files.atomic(out) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def _panel(axes: Any, rows: Sequence[dict[str, Any]], term: Term) -> None:
    x, y = zip(*((row["step"], row[term.name]) for row in rows if term.name in row), strict=True)
    window = max(len(y) // 50, 5)
    axes.plot(x, y, color="#9cc7aa", linewidth=0.8, label="training, each step")
    axes.plot(x, _smoothed(y, window), color="#2c7a4b", linewidth=1.8, label=f"training, mean of {window} steps")
    held_out = [(row["step"], row[f"dev_{term.name}"]) for row in rows if f"dev_{term.name}" in row]
    if held_out:
        label = "held-out text, each epoch" + _smaller_batches(rows)
        axes.plot(*zip(*held_out, strict=True), "o-", color="#d9822b", markersize=4, label=label)
    weight = f", weight {term.weight:g}" if term.weight != 1 else ""
    axes.set(ylabel=f"{term.title}\n(nats{weight})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)


def _smaller_batches(rows: Sequence[dict[str, Any]]) -> str:
    """A remark if held-out batches are much smaller than those of training: they have fewer negatives."""
    size = max((row.get("dev_batch_size", 0) for row in rows), default=0)
    return f" (batches of {size})" if 0 < size < 0.9 * max(row.get("sentences", 0) for row in rows) else ""


def _smoothed(values: tuple[float, ...], window: int) -> list[float]:
    """The mean of the last `window` values at each point."""
    means, total = [], 0.0
    for i, value in enumerate(values):
        total += value - (values[i - window] if i >= window else 0)
        means.append(total / min(i + 1, window))
    return means
