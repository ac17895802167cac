"""The head: a linear layer on dense features, and a weight per class for each bucket of n-grams.

The head is linear, so a score is exactly a sum over the words of a text (decision)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banyan.classify.calibration import probabilities
from banyan.classify.features import Features, Ragged, Sparse


@dataclass(frozen=True)
class Head:
    weight: np.ndarray  # float32 [D, C]
    bias: np.ndarray  # float32 [C]
    table: np.ndarray  # float32 [buckets, C]

    @classmethod
    def zeros(cls, width: int, buckets: int, bias: np.ndarray) -> Head:
        C = len(bias)
        return cls(np.zeros((width, C), np.float32), bias.astype(np.float32), np.zeros((buckets, C), np.float32))

    def scores(self, dense: np.ndarray, sparse: Sparse) -> np.ndarray:
        """float32 [n, C]. The sums of a text do not depend on the other texts, as those of a matrix product may."""
        found = np.einsum("nd,cd->nc", dense, np.ascontiguousarray(self.weight.T))
        found += self.bias
        for c in range(len(self.bias)):
            found[:, c] += np.bincount(sparse.row, sparse.value * self.table[sparse.bucket, c], minlength=len(dense))
        return found


def scores_of(features: Features, head: Head, texts: tuple[Ragged, ...]) -> np.ndarray:
    """The scores of texts, in blocks [n, C]."""
    found = np.empty((len(texts[0]), len(head.bias)), np.float32)
    for rows in features.blocks(texts):
        block = tuple(part.take(rows) for part in texts)
        found[rows] = head.scores(features.dense(block), features.vocabulary.sparse(block))
    return found


def gradient_of_scores(
    scores: np.ndarray, target: np.ndarray, several: bool, class_weight: np.ndarray | None
) -> np.ndarray:
    """The gradient of the mean log loss [n, C]. class_weight: of the classes that a text has."""
    g = (probabilities(scores, several) - target) / np.float32(len(scores))
    if class_weight is not None and several:
        g *= np.where(target > 0, class_weight, np.float32(1))
    elif class_weight is not None:
        g *= (target @ class_weight)[:, None]
    return g


def gradient_of_table(sparse: Sparse, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The buckets that occur, and the gradients of their weights [k, C]."""
    bucket, place = np.unique(sparse.bucket, return_inverse=True)
    columns = [np.bincount(place, sparse.value * g[sparse.row, c], minlength=len(bucket)) for c in range(g.shape[1])]
    return bucket, np.stack(columns, 1).astype(np.float32)
