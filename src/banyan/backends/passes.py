"""The results of both passes, or of the up pass alone, over a batch whose graph is on the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from banyan.model.graph import Graph


def on_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy indices to a device as int64, the only index type that every device supports."""
    return torch.from_numpy(array.astype(np.int64, copy=False)).to(device)


class Passes(NamedTuple):
    """The results of both passes over a batch."""

    graph: Graph
    up: Tensor  # [N, E]
    down: Tensor  # [N, E]

    @property
    def rebuilt(self) -> Tensor:
        """The reconstructed leaves [L, E]."""
        return self.down[: self.graph.n_leaves]

    @property
    def roots(self) -> Tensor:
        """One vector per sentence [B, E]. (Indexing would sum the gradients of a shared root in no fixed order.)"""
        return self.up.index_select(0, on_device(self.graph.root, self.up.device))


class UpPass(NamedTuple):
    """The result of the up pass alone."""

    roots: Tensor  # [B, E]
