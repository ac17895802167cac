"""How the epochs of a run stand on its evaluation pairs (--eval), beside the model before training and TF-IDF."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.evaluate.similarity import Encode, Pairs

TFIDF = "tfidf_spearman"  # in the row of metrics.jsonl from before the first step
SPEARMAN = "pairs_spearman"  # of that row, and of the row of each epoch
KEPT = "kept_epoch"  # the epoch that was best so far
_BELOW = (
    "The model is below TF-IDF of character n-grams on these pairs, which needs no training. More text helps, and "
    "so does text of the kind that is compared; docs/which.md says when to use TF-IDF."
)


def before_training(encode: Encode, sentences: Iterable[str], pairs: Pairs) -> tuple[dict[str, Any], str]:
    """Measure the model, and TF-IDF of characters counted in the first sentences of the text. Return a row for
    metrics.jsonl and a note for the terminal."""
    from banyan.baselines.tfidf import LINES, TfIdf
    from banyan.evaluate.similarity import spearman

    row = {"step": 0, SPEARMAN: spearman(encode, pairs)}
    try:
        row[TFIDF] = spearman(TfIdf(islice(sentences, LINES)), pairs)
        beside = f"TF-IDF of characters {row[TFIDF]:.2f}"
    except BanyanError as error:  # without scikit-learn, or without text
        beside = f"TF-IDF is left out ({error})"
    return row, f"before training: Spearman on the pairs {row[SPEARMAN]:.2f}, {beside}"


def rows(metrics: Iterable[Mapping[str, Any]]) -> list[tuple[str, float, bool]]:
    """Name, figure, and whether its model is kept, of TF-IDF and of each epoch; none for a run without pairs."""
    measured = [row for row in metrics if SPEARMAN in row]
    found = [("TF-IDF of characters", row[TFIDF], False) for row in measured if TFIDF in row]
    kept = measured[-1].get(KEPT) if measured else None
    for row in measured:
        epoch = row.get("finished_epoch", 0)
        name = f"epoch {epoch}" if epoch else "epoch 0 (before training)"
        found.append((name, row[SPEARMAN], bool(epoch) and epoch == kept))
    return found


def text(rows: Sequence[tuple[str, float, bool]]) -> str:
    """The rows as a table for a terminal, with what they mean for whoever trains."""
    width = max(len(name) for name, _, _ in rows)
    lines = [f"  {name:{width}}  {value:6.2f}{'  kept' * kept}" for name, value, kept in rows]
    return "\n".join(["Spearman × 100 on the pairs:", *lines, *remarks(rows)])


def markdown(rows: Sequence[tuple[str, float, bool]]) -> str:
    """The same for the model card."""
    lines = [f"| {name} | {value:.2f}{' (kept)' * kept} |" for name, value, kept in rows]
    table = "\n".join(["| | Spearman × 100 on the evaluation pairs |", "|---|---|", *lines])
    return "\n\n".join([table, *remarks(rows)])


def remarks(rows: Sequence[tuple[str, float, bool]]) -> list[str]:
    """What a user must know who would otherwise take a poor model for a good one."""
    kept = [value for _, value, kept in rows if kept]
    beside = {name.split(" ")[0]: value for name, value, _ in rows if not name.startswith("epoch") or "0 (" in name}
    if not kept:
        return []
    found = [_BELOW] if kept[0] < beside.get("TF-IDF", -100) else []
    if kept[0] < beside.get("epoch", -100):
        found.append("Training made the model worse on these pairs: before it, epoch 0 was better than every epoch.")
    return found
