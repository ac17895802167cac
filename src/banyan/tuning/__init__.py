"""Tune a trained model on texts that belong together.

tuner      tune(): check what was asked for, read the examples, run
run        the training loop on batches of examples, which stops by itself
batches    batches of examples, and which of their texts are no negatives of each other
mining     hard negatives
finding    how well a model finds the second texts of held-out examples: when to stop
layout     which columns of a table hold texts, scores, negatives and labels
reading    examples from files, data frames and lists
examples   Examples: texts that belong together, and groups of linked examples
split      hold out by group
measuring  whether tuning paid: before, after, words alone, both together
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banyan.tuning.tuner import tune

__all__ = ["tune"]


def __getattr__(name: str) -> Any:
    if name != "tune":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from banyan.tuning.tuner import tune

    return tune
