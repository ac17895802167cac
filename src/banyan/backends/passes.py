"""A batch, up and down, whose graph is on the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from banyan.model.graph import Graph


def on_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Indices, as int64: not every device takes others."""
    return torch.from_numpy(array.astype(np.int64, copy=False)).to(device)


class Passes(NamedTuple):
    """A batch, up and down."""

    graph: Graph
    up: Tensor  # [N, E]
    down: Tensor  # [N, E]

    @property
    def rebuilt(self) -> Tensor:
        """The leaves as they come down [L, E]."""
        return self.down[: self.graph.n_leaves]

    @property
    def roots(self) -> Tensor:
        """The sentences [B, E]. (Indexing would add up the gradients of a root that they share in no fixed order.)"""
        return self.up.index_select(0, on_device(self.graph.root, self.up.device))
