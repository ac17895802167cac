"""The lexical dimensions of embeddings, summed on a GPU."""

from __future__ import annotations

import numpy as np
import torch

from banyan.backends._numba.lexical import scale_rows


class LexicalSums:
    """Has the same bits as on the CPU: float32 adds integers up to 2²⁴ exactly, and the CPU scales the rows."""

    def __init__(self, table: np.ndarray, weight: float, device: torch.device | str) -> None:
        self.table, self.weight = torch.from_numpy(table).to(device).float(), weight

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        ids, starts = (torch.from_numpy(array.astype(np.int64)).to(self.table.device) for array in (tokens, offsets))
        sums = torch.nn.functional.embedding_bag(ids, self.table, starts, mode="sum", include_last_offset=True)
        size = self.table.shape[1]
        out[:, -size:] = sums.cpu().numpy()
        scale_rows(out, size, self.weight)
