"""The back end for CUDA GPUs: structure, passes and losses all run on the device.

Given trees come as a Graph on the host; their passes and losses run in plain torch.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from banyan.backends import losses
from banyan.backends._torch import Torch
from banyan.backends._triton import entangling, lexical, loss, trees
from banyan.backends._triton.batch import Batch, Noise
from banyan.backends._triton.passes import Passes, UpAndDown, rows
from banyan.backends.interface import Encoder, LexicalSums
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions
from banyan.model.graph import Graph


class Triton(Torch):
    name = "triton"
    on_device = True

    def structure(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        embedding: Tensor,
        functions: tuple[Tensor, ...],
        dropout: Dropout = NO_DROPOUT,
        plain: bool = False,
        structure: str = "induced",
        halves: str = "side",
        joined: np.ndarray | None = None,
    ) -> Any:
        device, table = embedding.device, embedding.detach()
        batch, noise = Batch.of(tokens, offsets, device, plain), Noise.of(dropout, device)
        inside = None if joined is None else torch.from_numpy(joined.astype(np.int32)).to(device)
        how: dict[str, Any] = {"structure": structure, "halves": halves, "joined": inside}
        graphs = (entangling.structure(batch, table, functions, noise, plain, salt, **how) for salt in count())
        return next(graph for graph in graphs if not graph.collided)

    def up_and_down(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        if isinstance(graph, Graph):
            return super().up_and_down(graph, embedding, functions, dropout)
        return Passes(graph, *UpAndDown.apply(graph, embedding, *functions))  # the graph holds its dropout

    def up(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        if isinstance(graph, Graph):
            return super().up(graph, embedding, functions, dropout)
        return self.up_and_down(graph, embedding, functions, dropout)  # the kernels of both passes are one function

    def cross_entropy(
        self, passes: Any, weight: Tensor, bias: Tensor, candidates: str, mean_over: str, precision: str
    ) -> Tensor:
        if not isinstance(passes, Passes):
            return super().cross_entropy(passes, weight, bias, candidates, mean_over, precision)
        graph, rebuilt = passes.graph, passes.rebuilt
        token, n_leaves, entangled, share = graph.token, graph.counts[3:], not graph.plain, None
        if graph.plain and mean_over == "tokens":
            here = torch.arange(len(token), device=token.device) < n_leaves
            share = losses.shares(token, len(bias), here)
        if candidates == "all":
            return loss.cross_entropy(rebuilt, weight, bias, token, precision, n_leaves, entangled, share=share)
        if entangled:  # the candidates are the leaves themselves, so the host need not know their number
            own, target = token, torch.arange(len(token), device=token.device)
        else:
            own, target = torch.unique(token[: int(n_leaves)], return_inverse=True)
            rebuilt, share = rebuilt[: len(target)], None if share is None else share[: len(target)]
        layer = weight.index_select(0, own), bias.index_select(0, own)
        return loss.cross_entropy(rebuilt, *layer, target, precision, n_leaves, entangled, entangled, share)

    def contrastive(self, passes: Any, inner: bool, precision: str) -> Tensor:
        if not isinstance(passes, Passes):
            return super().contrastive(passes, inner, precision)
        up, down = rows(passes.up), rows(passes.down)
        n_nodes, n_leaves = passes.graph.counts[0], passes.graph.counts[3]
        node = torch.arange(len(up), device=up.device)
        here = (node < n_nodes) & (node >= n_leaves) if inner else node < n_nodes
        exponentials = loss.exponentials if precision == "bf16" else losses.exponentials
        with loss.products_in(precision):
            return losses.contrastive(up, down, here, exponentials)

    def encoder(
        self, embedding: np.ndarray, functions: Functions, structure: str, device: torch.device | str
    ) -> Encoder:
        return trees.Encoder(embedding, functions, torch.device(device), structure)

    def lexical_sums(self, table: np.ndarray, weight: float, device: torch.device | str) -> LexicalSums:
        return lexical.LexicalSums(table, weight, device)
