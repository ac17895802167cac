"""The lexical dimensions of an embedding: what the tree composes stands first, then the sum of its leaves' sketches.

A sketch tells how a token is spelt (banyan.model.initial). It is not learnt, and no gate shortens it: these
dimensions hold a text's characters as TF-IDF would compare them, and leave the others free for what is learnt.

What is learnt gets length 1, and the sum the length `lexical_weight`, however long the text is: the cosine of two
embeddings is then a weighted mean of two, by meaning and by spelling. Sketches are kept in int8, so that a model is
small and their sums are exact, in any order and on any device.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.backends._numba import kernel, summing
from banyan.config import Config
from banyan.model.graph import runs_of_sentences
from banyan.support import threads

if TYPE_CHECKING:
    import torch

STEPS = 8  # of int8 to the deviation of a sketch's numbers


def rounded(sketches: np.ndarray) -> np.ndarray:
    """Sketches of length 1, on average, in int8 [V, L]."""
    steps = np.rint(sketches * (STEPS * math.sqrt(sketches.shape[1])))
    return steps.clip(-127, 127).astype(np.int8)


@kernel
def _add(tokens, offsets, table, weight, first, end, out):
    """Put the sums of sentences first..end into the last columns of their rows, and give both parts their length."""
    size = np.uint64(table.shape[1])
    beside = np.uint64(out.shape[1]) - size
    sums = np.zeros(table.shape[1], np.int32)
    for sentence in range(first, end):
        sums[:] = 0
        for at in range(offsets[sentence], offsets[sentence + 1]):
            token = tokens[at]
            for column in range(size):
                sums[column] += table[token, column]
        for column in range(size):
            out[sentence, beside + column] = sums[column]
        _scale(out[sentence, :beside], 1.0)
        _scale(out[sentence, beside:], weight)


@summing
def _scale(part, length):
    """Give it that length; zeros stay zeros."""
    square = 0.0
    for column in range(len(part)):
        square += np.float64(part[column]) * part[column]
    factor = np.float32(length / math.sqrt(square)) if square > 0 else np.float32(0)
    for column in range(len(part)):
        part[column] *= factor


@kernel
def _scale_rows(out, size, weight):
    for row in range(len(out)):
        _scale(out[row, :-size], 1.0)
        _scale(out[row, -size:], weight)


class Sums:
    """Completes embeddings whose first columns are roots: what the tokens' sketches add up to, and both lengths."""

    def __init__(self, table: np.ndarray, config: Config) -> None:
        self.table, self.weight = table, config.lexical_weight

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        fixed = tokens, offsets, self.table, self.weight
        threads.run(_add, [(*fixed, *run, out) for run in runs_of_sentences(offsets, 8192)], n_threads)


class SumsOnGpu:
    """The same bits where trees are made on a GPU: up to 2²⁴, float32 adds whole numbers exactly."""

    def __init__(self, table: np.ndarray, config: Config, device: torch.device) -> None:
        import torch

        self.table, self.weight = torch.from_numpy(table).to(device).float(), config.lexical_weight

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: Any = None) -> None:
        import torch

        ids, starts = (torch.from_numpy(array.astype(np.int64)).to(self.table.device) for array in (tokens, offsets))
        sums = torch.nn.functional.embedding_bag(ids, self.table, starts, mode="sum", include_last_offset=True)
        size = self.table.shape[1]
        out[:, -size:] = sums.cpu().numpy()
        _scale_rows(out, size, self.weight)
