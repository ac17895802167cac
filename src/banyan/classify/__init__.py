"""Classify texts, or pairs of texts, on top of a trained model.

trainer      train_classifier(): read labelled texts, learn, measure, write the folder
labelled     Labelled: texts with their labels, from files, data frames and lists
split        hold out texts that no text to learn from repeats or contains
features     what the head sees of a text or of a pair
head         the weights of the head: its scores, its loss and their gradients
settings     how a classifier learns
learning     the training loop: head and leaves together, checkpoints, when to stop
calibration  probabilities from scores
figures      precision, recall and F1 of each class; the confusion matrix
picture      the confusion matrix as a picture
classifier   Classifier: what a folder with a classifier predicts, and why
decision     Decision: what Classifier.explain returns
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banyan.classify.classifier import Classifier
    from banyan.classify.trainer import train_classifier

__all__ = ["Classifier", "train_classifier"]
_HOMES = {"Classifier": "banyan.classify.classifier", "train_classifier": "banyan.classify.trainer"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
