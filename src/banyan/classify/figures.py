"""How well a classifier does: precision, recall and F1 of each class, and which classes it confuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from banyan.classify.calibration import calibration_error, log_loss
from banyan.support.drawing import shorten, terminal_width, visible

_SHOWN = 40  # classes in a table


def predicted(p: np.ndarray, several: bool) -> np.ndarray:
    """The classes that probabilities stand for, 0 or 1 [n, C]: the most probable one or, with several labels a text,
    those with a probability of at least one half."""
    if several:
        return (p >= 0.5).astype(np.int64)
    chosen = np.zeros(p.shape, np.int64)
    chosen[np.arange(len(p)), p.argmax(1)] = 1
    return chosen


@dataclass(frozen=True)
class Figures:
    """Figures of texts whose labels are known. All are × 100, except the log loss."""

    classes: list[str]
    several: bool
    texts: int
    support: np.ndarray  # int64 [C]: the texts of each class
    precision: np.ndarray  # float64 [C]
    recall: np.ndarray
    f1: np.ndarray
    accuracy: float  # with several labels a text: of texts with exactly the right labels
    macro_f1: float
    micro_f1: float
    log_loss: float
    calibration_error: float
    also_chose: bool  # whether these texts chose the epoch, too, and calibrated the probabilities
    confusion: np.ndarray | None  # int64 [C, C]: true class by predicted class; None with several labels a text

    @classmethod
    def of(
        cls,
        scores: np.ndarray,
        p: np.ndarray,
        target: np.ndarray,
        classes: list[str],
        several: bool,
        also_chose: bool = False,
    ) -> Figures:
        """scores: after calibration. p: probabilities. target: 0 or 1 [n, C]."""
        chosen, truth = predicted(p, several), target.astype(np.int64)
        hits, support, found = (chosen * truth).sum(0), truth.sum(0), chosen.sum(0)
        f1 = 200 * hits / np.maximum(support + found, 1)
        known = (support + found) > 0
        return cls(
            classes,
            several,
            len(p),
            support,
            100 * hits / np.maximum(found, 1),
            100 * hits / np.maximum(support, 1),
            f1,
            100 * float((chosen == truth).all(1).mean()),
            float(f1[known].mean()) if known.any() else 0.0,
            200 * float(hits.sum() / max(support.sum() + found.sum(), 1)),
            log_loss(scores, target, several),
            100 * calibration_error(p, target, several),
            also_chose,
            None if several else truth.T @ chosen,
        )

    @property
    def told(self) -> str:
        """Which texts these are."""
        role = "also chose the epoch and calibrated the probabilities" if self.also_chose else "chose nothing"
        return f"{self.texts:,} held-out texts, which {role}"

    def summary(self) -> dict[str, float]:
        names = ("accuracy", "macro_f1", "micro_f1", "log_loss", "calibration_error")
        return {"texts": self.texts, **{name: round(float(getattr(self, name)), 4) for name in names}}

    def to_dict(self) -> dict[str, Any]:
        rows = zip(self.classes, self.precision, self.recall, self.f1, self.support, strict=True)
        each = {
            label: {"precision": round(p, 2), "recall": round(r, 2), "f1": round(f, 2), "texts": int(n)}
            for label, p, r, f, n in rows
        }
        return {**self.summary(), "classes": each}

    def rows(self) -> list[tuple[str, ...]]:
        """A row per class, those with most texts first if there are many classes; then the means."""
        order = np.arange(len(self.classes))
        if len(order) > _SHOWN:
            order = np.sort(np.argsort(-self.support, kind="stable")[:_SHOWN])
        each = self.precision, self.recall, self.f1
        found = [
            (self.classes[c], *(f"{value[c]:.1f}" if self.support[c] else "-" for value in each),
             f"{self.support[c]:,}")
            for c in order
        ]  # fmt: skip
        if len(order) < len(self.classes):
            found.append((f"({len(self.classes) - len(order)} more)", "", "", "", ""))
        mean = [f"{value[self.support > 0].mean():.1f}" for value in each]
        return [*found, ("mean of classes", *mean, f"{self.texts:,}")]

    def sentence(self) -> str:
        right = "Texts with exactly the right labels" if self.several else "Accuracy"
        return (
            f"{right}: {self.accuracy:.1f}. Macro F1: {self.macro_f1:.1f}. Log loss: {self.log_loss:.3f}. "
            f"Calibration error: {self.calibration_error:.1f}."
        )

    def to_text(self) -> str:
        """A table for the terminal."""
        rows = [("class", "precision", "recall", "F1", "texts"), *self.rows()]
        rows = [(shorten(visible(first), 40), *others) for first, *others in rows]
        indent = max(terminal_width(row[0]) for row in rows)
        lines = [row[0] + " " * (indent - terminal_width(row[0])) + "".join(f"{cell:>11}" for cell in row[1:])
                 for row in rows]  # fmt: skip
        return "\n".join([*(line.rstrip() for line in lines), self.sentence()])

    def to_markdown(self) -> str:
        lines = ["| class | precision | recall | F1 | texts |", "|---|---|---|---|---|"]
        lines += [f"| {visible(row[0]).replace('|', '/')} | {' | '.join(row[1:])} |" for row in self.rows()]
        return "\n".join([*lines, "", self.sentence()])
