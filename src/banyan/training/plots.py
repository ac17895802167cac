"""Pictures of a run."""

from __future__ import annotations

import json
from pathlib import Path

from banyan.support import files
from banyan.support.needs import needs


def loss_curve(metrics: Path, out: Path) -> None:
    """loss.png: the loss of each step, smoothed, and the held-out loss of each epoch."""
    with needs("Drawing the loss", "train"):
        from matplotlib.figure import Figure

    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    steps = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    epochs = [(row["step"], row["dev_loss"]) for row in rows if "dev_loss" in row]
    if not steps:
        return
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    x, y = zip(*steps, strict=True)
    axes.plot(x, y, color="#9cc7aa", linewidth=0.8, label="loss of a step")
    axes.plot(x, _smoothed(y, max(len(y) // 50, 5)), color="#2c7a4b", linewidth=1.8, label="mean of the last steps")
    if epochs:
        axes.plot(*zip(*epochs, strict=True), "o-", color="#d9822b", markersize=4, label="held-out text")
    axes.set(xlabel="step", ylabel="cross-entropy of the rebuilt leaves")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False)
    with files.atomic(out) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def _smoothed(values: tuple[float, ...], window: int) -> list[float]:
    """The mean of the last `window` values at each point."""
    means, total = [], 0.0
    for i, value in enumerate(values):
        total += value - (values[i - window] if i >= window else 0)
        means.append(total / min(i + 1, window))
    return means
