"""The lexical dimensions of embeddings, summed on a GPU."""

from __future__ import annotations

import numpy as np
import torch

from banyan.backends._numba.lexical import scale_rows


class LexicalSums:
    """The same bits as on the CPU: up to 2²⁴, float32 adds whole numbers exactly. The CPU sets the lengths."""

    def __init__(self, table: np.ndarray, weight: float, device: torch.device | str) -> None:
        self.table, self.weight = torch.from_numpy(table).to(device).float(), weight

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        ids, starts = (torch.from_numpy(array.astype(np.int64)).to(self.table.device) for array in (tokens, offsets))
        sums = torch.nn.functional.embedding_bag(ids, self.table, starts, mode="sum", include_last_offset=True)
        size = self.table.shape[1]
        out[:, -size:] = sums.cpu().numpy()
        scale_rows(out, size, self.weight)
