"""The losses: reconstruction of the leaves, contrast of every node with its reconstruction, and InfoNCE.

To add one: write a function of the model and a batch's passes, and add a line to `terms`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from banyan.config import Config
from banyan.model import BanyanModel, Passes
from banyan.model.contrastive import blocks, contrastive

if TYPE_CHECKING:
    from banyan.backends._triton.passes import Passes as DevicePasses

LOGITS = 1 << 26  # that exist at one time, in numbers: 256 MB in float32. More hardly make the products faster
LARGEST = 60.0  # a logit whose exponential, and the sum of many such, is far from overflow in float32


class Term(NamedTuple):
    """One part of the loss."""

    name: str
    title: str  # for plots and the model card
    weight: float
    compute: Callable[[BanyanModel, Any], Tensor]


def terms(config: Config) -> list[Term]:
    """The parts of the loss that these settings ask for. The loss is their weighted sum."""
    share = 0.5 if config.objective == "both" else 1.0
    found = []
    if config.objective != "cross-entropy":
        found.append(Term("contrastive", "contrastive loss over nodes", share, recognition))
    if config.objective != "contrastive":
        found.append(Term("reconstruction", "cross-entropy of reconstructed leaves", share, reconstruction))
    if config.infonce_weight:
        found.append(Term("infonce", "InfoNCE between sentence parts", config.infonce_weight, agreement))
    return found


def losses(model: BanyanModel, passes: Passes | DevicePasses) -> tuple[Tensor, Tensor]:
    """The loss of a step, and its parts, unweighted and in the order of `terms`, without their gradients. With
    InfoNCE, the batch must hold the parts of its sentences (banyan.model.crops)."""
    asked = terms(model.config)
    found = [term.compute(model, passes) for term in asked]
    total = found[0] if asked[0].weight == 1 else asked[0].weight * found[0]
    for term, value in zip(asked[1:], found[1:], strict=True):
        total = total + term.weight * value
    return total, torch.stack([value.detach() for value in found])


def loss(model: BanyanModel, passes: Passes | DevicePasses) -> Tensor:
    """The loss of a step."""
    return losses(model, passes)[0]


def agreement(model: BanyanModel, passes: Passes | DevicePasses) -> Tensor:
    return infonce(passes.roots, model.config.infonce_temperature)


def infonce(roots: Tensor, temperature: float) -> Tensor:
    """InfoNCE between the first and the second parts of sentences, with the other sentences of the batch as negatives,
    averaged over both directions.

    roots: of B sentences, of their first parts, and of their second parts [3·B, E]."""
    first, second = torch.nn.functional.normalize(roots[len(roots) // 3 :]).chunk(2)
    logits = first @ second.T / temperature
    return ((logits.logsumexp(1) + logits.logsumexp(0)) / 2 - logits.diagonal()).mean()


def recognition(model: BanyanModel, passes: Passes | DevicePasses) -> Tensor:
    """The contrastive loss over all nodes; over inner nodes only, where reconstruction takes care of the leaves."""
    inner = model.config.objective == "both"
    if isinstance(passes, Passes):
        first = passes.graph.n_leaves if inner else 0
        return contrastive(passes.up[first:], passes.down[first:])
    from banyan.backends._triton import loss

    up, down = (rows.permute(1, 0, 2).flatten(1) for rows in (passes.up, passes.down))  # of slabs
    n_nodes, n_leaves = passes.graph.counts[0], passes.graph.counts[3]
    node = torch.arange(len(up), device=up.device)
    here = (node < n_nodes) & (node >= n_leaves) if inner else node < n_nodes
    with loss.products_in(model.precision):
        if model.precision == "bf16":
            return contrastive(up, down, here, loss.exponentials)
        return contrastive(up, down, here)


def reconstruction(model: BanyanModel, passes: Passes | DevicePasses) -> Tensor:
    """Mean cross-entropy of the rebuilt leaves, over the vocabulary or over the batch's own distinct tokens."""
    if not isinstance(passes, Passes):
        return _on_gpu(model, passes)
    device = passes.down.device
    token = torch.from_numpy(passes.graph.token).long().to(device)
    weight: Tensor = model.out_weight
    bias: Tensor = model.out_bias
    target = token
    if model.config.candidates == "batch":
        candidates, target = torch.unique(token, return_inverse=True)
        weight, bias = weight[candidates], bias[candidates]
    share = _shares(token, len(model.out_bias)) if model.config.mean_over == "tokens" else None
    return cross_entropy(passes.rebuilt, weight, bias, target, share)


def _shares(token: Tensor, vocab_size: int, here: Tensor | None = None) -> Tensor:
    """Of each leaf, such that each distinct token has the same in all: they add up to 1."""
    there = torch.ones_like(token, dtype=torch.float32) if here is None else here.float()
    count = there.new_zeros(vocab_size).index_add_(0, token, there)
    return there / (count.index_select(0, token).clamp(min=1) * (count > 0).sum())


def _on_gpu(model: BanyanModel, passes: DevicePasses) -> Tensor:
    from banyan.backends._triton import loss

    graph, rebuilt = passes.graph, passes.rebuilt
    token, count, entangled = graph.token, graph.counts[3:], not graph.plain
    weight, bias, share = model.out_weight, model.out_bias, None
    if graph.plain and model.config.mean_over == "tokens":
        here = torch.arange(len(token), device=token.device) < count
        share = _shares(token, len(bias), here)
    if model.config.candidates == "all":
        return loss.cross_entropy(rebuilt, weight, bias, token, model.precision, count, entangled, share=share)
    if entangled:  # the candidates are the leaves themselves: no need to ask the device how many there are
        candidates, target = token, torch.arange(len(token), device=token.device)
    else:
        candidates, target = torch.unique(token[: int(count)], return_inverse=True)
        rebuilt, share = rebuilt[: len(target)], None if share is None else share[: len(target)]
    own_weight, own_bias = weight.index_select(0, candidates), bias.index_select(0, candidates)
    return loss.cross_entropy(
        rebuilt, own_weight, own_bias, target, model.precision, count, entangled, entangled, share
    )


def cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor:
    """The mean over rows of -log softmax(x @ weight.T + bias)[target], never holding more than LOGITS at a time.

    share: of each row in the mean; without it, they are equal."""
    share = x.new_full((len(x),), 1 / len(x)) if share is None else share.to(x.dtype)
    return _CrossEntropy.apply(x, weight, bias, target, share, torch.is_grad_enabled())


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one sweep over blocks of rows, so that the three matrix products are nearly all it costs.

    Softmax is P·factor / total, where P = exp(x @ weight.T) and factor = exp(bias) of each candidate: the factor, the
    division by the total and the "- 1 at the target" of the gradient are left to the small matrices. Logits that could
    overflow take the usual way instead: the bias added, the highest subtracted, and a factor of 1.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, target: Tensor, share: Tensor, with_gradients: bool
    ) -> Tensor:
        safe = bool(x.norm(dim=1).max() * weight.norm(dim=1).max() + bias.abs().max() < LARGEST)
        factor = bias.exp() if safe else torch.ones_like(bias)
        weight_and_factor = weight * factor[:, None]
        losses = torch.empty_like(x[:, 0])
        g_x, g_weight, g_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        for block, rows in enumerate(blocks(len(x), LOGITS // len(weight))):
            p = torch.mm(x[rows], weight.T, out=_room_for_logits(len(x[rows]), weight))
            highest = torch.zeros_like(losses[rows])
            if not safe:
                highest = p.add_(bias).amax(1)
                p.sub_(highest[:, None])
            total = p.exp_().mv(factor)
            at_target = (x[rows] * weight[target[rows]]).sum(1) + bias[target[rows]]
            losses[rows] = total.log() + highest - at_target
            if with_gradients:
                of_total = (share[rows] / total)[:, None]
                torch.mm(p, weight_and_factor, out=g_x[rows]).mul_(of_total)
                torch.addmm(g_weight, p.T, x[rows] * of_total, beta=min(block, 1), out=g_weight)
                torch.addmv(g_bias, p.T, of_total.squeeze(1), beta=min(block, 1), out=g_bias)
        if with_gradients:
            g_x.addcmul_(weight[target], share[:, None], value=-1)
            g_weight.mul_(factor[:, None]).index_add_(0, target, x * share[:, None], alpha=-1)
            g_bias.mul_(factor).index_add_(0, target, share, alpha=-1)
            ctx.save_for_backward(g_x, g_weight, g_bias)
        return losses @ share

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        saved = ctx.saved_tensors
        return *(saved if g == 1 else (g * tensor for tensor in saved)), None, None, None


_kept = threading.local()


def _room_for_logits(rows: int, weight: Tensor) -> Tensor:
    """Kept from step to step: getting so much fresh memory from the system would cost as much as the exponentials."""
    room = getattr(_kept, "room", None)
    if room is None or (room.device, room.dtype) != (weight.device, weight.dtype) or room.numel() < rows * len(weight):
        room = _kept.room = weight.new_empty(rows * len(weight))
    return room[: rows * len(weight)].view(rows, len(weight))
