"""The model folder that a run writes: at its end and, marked as unfinished, after Ctrl-C and after epochs.

After an epoch, at most every 5 s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from banyan.corpus.store import Store
from banyan.encoder import Banyan
from banyan.support import files
from banyan.training import card, plots
from banyan.training.beginning import carried_over
from banyan.training.folder import CARD, LOSS, METRICS, Given

if TYPE_CHECKING:
    from banyan.model.objective import Term


def write(model: Banyan, out: Path, text: str, terms: Sequence[Term], given: Given | None = None) -> None:
    """Write the model, its card and the plot of its losses. text: what the card says about the training text.

    given: the inputs of the run, which may state the language and the licence of the text."""
    model.save_pretrained(out)
    plots.loss_curve(out / METRICS, out / LOSS, terms)
    told = card.model_card(model, text, out / METRICS)
    languages = given.language.replace(",", " ").split() if given and given.language else None
    files.write_text(out / CARD, card.stated(told, languages, given.license if given else None))


def carry_over(weights: dict[str, np.ndarray], width: int, lessons: Store) -> None:
    """Give tokens that the lessons lack a place in the taught part of the embedding, its first `width` columns."""
    rows = weights["embedding"]
    taught = carried_over(rows[:, :width], rows[:, width:], np.asarray(lessons.tokens))
    weights["embedding"] = np.hstack([taught, rows[:, width:]])
