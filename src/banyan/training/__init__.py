"""From raw text to a model folder.

trainer      train(): check what was asked for, prepare the text, run
run          the training loop
epochs       how many epochs suit a corpus
row_adam     an optimiser that skips the token vectors that do not occur
passages     the passages of an epoch, and the held-out text
beginning    initial weights: statistics of the corpus, or the vectors of a teacher
teaching     the options of train() for teachers and translations
lessons      texts and the vectors that a teacher gives them
interrupts   Ctrl-C
metrics      metrics.jsonl and what the progress bar shows
standing     how the epochs stand on evaluation pairs, beside TF-IDF
plots        loss.png
folder       the run's folder: its lock, its settings, what must not be lost
checkpoint   the state of a run in one file
distributed  several processes that train one model
writing      the model folder, also while training goes on
card         the model card
taught_by    what the card and `banyan info` say about a teacher
gpu_steps    steps recorded as CUDA graphs
gpu_windows  batches drawn on the GPU
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banyan.training.interrupts import Interrupted
    from banyan.training.trainer import train

__all__ = ["Interrupted", "train"]
_HOMES = {"Interrupted": "banyan.training.interrupts", "train": "banyan.training.trainer"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
