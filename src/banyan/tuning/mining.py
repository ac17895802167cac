"""Hard negatives: second texts of other examples that the model finds too similar to a first text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from banyan.corpus.store import shuffled
from banyan.support.rows import slices
from banyan.tuning.batches import NONE, Batches

if TYPE_CHECKING:
    from banyan.encoder import Banyan

CANDIDATES = 1 << 14  # second texts that are searched, drawn anew for every epoch
MARGIN = 0.05  # a text this close to the cosine of the own second text, or closer, may belong to the first text as well
_BLOCK = 1024  # first texts compared at a time


def hard_negatives(model: Banyan, examples: Batches, count: int, seed: int, epoch: int) -> np.ndarray:
    """The numbers of the hard negatives of each example, int64 [n, count]; NONE where there are too few."""
    first, second = examples.table[:, :2].T
    candidates = np.unique(second[shuffled(len(second), seed, epoch)[:CANDIDATES]])
    known = examples.known
    among = _vectors(model, examples, candidates)
    found = np.full((len(first), count), NONE)
    for rows in slices(len(first), _BLOCK):
        own, other = _vectors(model, examples, first[rows]), _vectors(model, examples, second[rows])
        cosines = own @ among.T
        row, column = np.nonzero(known.group[first[rows], None] == known.group[candidates])
        cosines[row, column] = -np.inf  # linked, directly or in a chain
        cosines[cosines > (own * other).sum(1, keepdims=True) - MARGIN] = -np.inf
        best = np.argpartition(-cosines, min(count, len(candidates) - 1), axis=1)[:, :count]
        there = np.take_along_axis(cosines, best, 1) > -np.inf
        found[rows, : best.shape[1]] = np.where(there, candidates[best], NONE)
    return found


def _vectors(model: Banyan, examples: Batches, texts: np.ndarray) -> np.ndarray:
    return model.encode_tokens(*examples.store.batch(texts), normalize=True)
