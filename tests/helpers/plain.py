"""The model as plain autograd computes it, every node a tensor of its own: what every back end is held against."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from banyan.backends.losses import SCALE
from banyan.backends.passes import Passes
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.model.dropout import LEAF, LEFT_MESSAGE, NODE, RIGHT_MESSAGE, Dropout
from banyan.model.graph import Graph

VOCAB = 11
DROPOUT = Dropout(0.2, seed=3, step=5, leaf_rate=0.4)
BACKENDS = [
    ("numba", torch.float64),
    ("torch", torch.float64),
    ("torch", torch.float32),  # on the accelerator, if there is one
    ("triton", torch.float32),  # on the GPU, or in Triton's interpreter
]


def made(backend: str, dtype: torch.dtype, seed: int = 1, **settings: Any) -> BanyanModel:
    """A small model, with biases that are not 0 and leaves far apart."""
    device: Any = "cpu"
    if backend == "triton":
        pytest.importorskip("triton")
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif backend == "torch" and dtype == torch.float32:
        device = torch.accelerator.current_accelerator(check_available=True) or "cpu"
    model = BanyanModel(Config(**{"dim": 8, "channels": 4, **settings}), VOCAB, backend)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) / 3)
    return model.to(dtype).to(device)


def on_host(graph: Any) -> Graph:
    return graph if isinstance(graph, Graph) else graph.to_numpy()


def up_and_down(passes: Any) -> tuple[Tensor, Tensor]:
    """Every node on its way up and down [N, E]."""
    if isinstance(passes, Passes):
        return passes.up, passes.down
    from banyan.backends._triton.passes import rows

    n_nodes = int(passes.graph.n_nodes)
    return rows(passes.up)[:n_nodes], rows(passes.down)[:n_nodes]


def plain_passes(model: BanyanModel, graph: Graph, dropout: Dropout) -> tuple[list[Tensor], list[Tensor]]:
    """Every node on its way up and down, as the paper says."""
    config, L = model.config, graph.n_leaves
    K, E = config.channels, config.dim

    def mask(place: int, node: int) -> Tensor:
        kept = torch.from_numpy(dropout.mask(place, int(graph.key[node]), E))
        return kept.to(model.embedding.dtype).to(model.embedding.device)  # in this order: mps has no float64

    def through(gate: Tensor, x: Tensor) -> Tensor:
        channels = x.view(K, -1)
        return (channels @ gate if config.functions == "linear" else channels * gate.sigmoid()).flatten()

    def bias(vector: Tensor) -> Tensor:
        return vector.repeat(K)

    up = [model.embedding[token] * mask(LEAF, i) for i, token in enumerate(graph.token.tolist())]
    for m, (left, right) in enumerate(graph.children.tolist()):
        both = through(model.comp_l, up[left]) + through(model.comp_r, up[right]) + bias(model.comp_b)
        up.append(both * mask(NODE, L + m))
    messages: list[list[Tensor]] = [[] for _ in up]
    down = list(up)
    for node in reversed(range(len(up))):
        if messages[node]:
            down[node] = torch.stack(messages[node]).mean(0)
        if node >= L:
            first, second = graph.receivers[node - L].tolist()
            half_1 = through(model.decomp_l, down[node]) + bias(model.decomp_lb)
            half_2 = through(model.decomp_r, down[node]) + bias(model.decomp_rb)
            messages[first].append(half_1 * mask(LEFT_MESSAGE, node))
            messages[second].append(half_2 * mask(RIGHT_MESSAGE, node))
    return up, down


def plain_loss(model: BanyanModel, graph: Graph, dropout: Dropout) -> Tensor:
    """The objective that the settings ask for."""
    config, L = model.config, graph.n_leaves
    up, down = plain_passes(model, graph, dropout)

    def recognised(first: int) -> Tensor:
        a, b = torch.stack(up[first:]), torch.stack(down[first:])
        cosines = cosine_similarity(a[:, None], b[None], dim=-1)
        itself = torch.arange(len(a), device=a.device)
        return (cross_entropy(cosines * SCALE, itself) + cross_entropy(cosines.T * SCALE, itself)) / 2

    if config.objective == "contrastive":
        return recognised(0)
    token = torch.from_numpy(graph.token).long().to(model.embedding.device)
    own = token.unique() if config.candidates == "batch" else torch.arange(len(model.out_bias), device=token.device)
    logits = torch.stack(down[:L]) @ model.out_weight[own].T + model.out_bias[own]
    losses = cross_entropy(logits, torch.searchsorted(own, token), reduction="none")
    if config.mean_over == "tokens":
        rebuilt = torch.stack([losses[token == one].mean() for one in token.unique()]).mean()
    else:
        rebuilt = losses.mean()
    return rebuilt if config.objective == "cross-entropy" else (recognised(L) + rebuilt) / 2


def tolerance(model: BanyanModel) -> dict[str, float]:
    if model.embedding.dtype == torch.float64:
        return {}
    if model.precision == "bf16" and torch.cuda.is_available():  # float32 operands are rounded to TF32 there
        return {"rtol": 2e-2, "atol": 2e-4}
    return {"rtol": 2e-4, "atol": 2e-6}


def same_loss_and_gradients(model: BanyanModel, got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, **tolerance(model))
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = (torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in (got, expected))
    for name, a, b in zip(names, *gradients, strict=True):
        torch.testing.assert_close(a, b, msg=lambda text, name=name: f"{name}: {text}", **tolerance(model))
