"""The lexical dimensions of an embedding: what the tree composes stands first, then the sum of its leaves' sketches.

A sketch tells how a token is spelt (banyan.initial). It is not learnt, and no gate shortens it: these dimensions hold a
text's characters as TF-IDF would compare them, and leave the others free for what is learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from banyan import threads
from banyan.backends._numba import kernel
from banyan.graph import runs_of_sentences

if TYPE_CHECKING:
    import torch


@kernel
def _add(tokens, offsets, table, first, end, out):
    """Add the sketches of sentences first..end to the last columns of their rows, one token after another."""
    size = np.uint64(table.shape[1])
    beside = np.uint64(out.shape[1]) - size
    for sentence in range(first, end):
        for at in range(offsets[sentence], offsets[sentence + 1]):
            token = tokens[at]
            for column in range(size):
                out[sentence, beside + column] += table[token, column]


class Sums:
    """Adds to the last columns of embeddings, which are 0, the sketches of the tokens of each text."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def add(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        jobs = [(tokens, offsets, self.table, *run, out) for run in runs_of_sentences(offsets, 8192)]
        threads.run(_add, jobs, n_threads)


class SumsOnGpu:
    """The same where the trees are made on a GPU."""

    def __init__(self, table: np.ndarray, device: torch.device) -> None:
        import torch

        self.table = torch.from_numpy(table).to(device)

    def add(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: Any = None) -> None:
        import torch

        ids, starts = (torch.from_numpy(array.astype(np.int64)).to(self.table.device) for array in (tokens, offsets))
        sums = torch.nn.functional.embedding_bag(ids, self.table, starts, mode="sum", include_last_offset=True)
        out[:, -self.table.shape[1] :] = sums.cpu().numpy()
