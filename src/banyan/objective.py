"""What is learnt: rebuild every leaf, told apart by the output layer from the other tokens."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from banyan.model import BanyanModel, Passes

if TYPE_CHECKING:
    from banyan.backends._triton.passes import Passes as DevicePasses

LOGITS = 1 << 26  # that exist at one time, in numbers: 256 MB in float32. More hardly make the products faster
LARGEST = 60.0  # a logit whose exponential, and the sum of many such, is far from overflow in float32


def reconstruction(model: BanyanModel, passes: Passes | DevicePasses) -> Tensor:
    """Mean cross-entropy of the rebuilt leaves, over the vocabulary or over the batch's own distinct tokens."""
    if not isinstance(passes, Passes):
        return _on_gpu(model, passes)
    token = torch.from_numpy(passes.graph.token).long()
    device = passes.down.device
    if model.config.candidates == "all":
        return cross_entropy(passes.rebuilt, model.out_weight, model.out_bias, token.to(device))
    candidates, target = (part.to(device) for part in torch.unique(token, return_inverse=True))
    return cross_entropy(passes.rebuilt, model.out_weight[candidates], model.out_bias[candidates], target)


def _on_gpu(model: BanyanModel, passes: DevicePasses) -> Tensor:
    from banyan.backends._triton import loss

    graph, rebuilt = passes.graph, passes.rebuilt
    token, count, entangled = graph.token, graph.counts[3:], not graph.plain
    weight, bias = model.out_weight, model.out_bias
    if model.config.candidates == "all":
        return loss.cross_entropy(rebuilt, weight, bias, token, model.precision, count, distinct=entangled)
    if entangled:  # the candidates are the leaves themselves: no need to ask the device how many there are
        candidates, target = token, torch.arange(len(token), device=token.device)
    else:
        candidates, target = torch.unique(token[: int(count)], return_inverse=True)
        rebuilt = rebuilt[: len(target)]
    own_weight, own_bias = weight.index_select(0, candidates), bias.index_select(0, candidates)
    return loss.cross_entropy(
        rebuilt, own_weight, own_bias, target, model.precision, count, distinct=entangled, limited=entangled
    )


def cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """The mean over rows of -log softmax(x @ weight.T + bias)[target], never holding more than LOGITS at a time."""
    return _CrossEntropy.apply(x, weight, bias, target, torch.is_grad_enabled())


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one sweep over blocks of rows, so that the three matrix products are nearly all it costs.

    Softmax is P·factor / total, where P = exp(x @ weight.T) and factor = exp(bias) of each candidate: the factor, the
    division by the total and the "- 1 at the target" of the gradient are left to the small matrices. Logits that could
    overflow take the usual way instead: the bias added, the highest subtracted, and a factor of 1.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, target: Tensor, with_gradients: bool) -> Tensor:
        n = len(x)
        safe = bool(x.norm(dim=1).max() * weight.norm(dim=1).max() + bias.abs().max() < LARGEST)
        factor = bias.exp() if safe else torch.ones_like(bias)
        weight_and_factor = weight * factor[:, None]
        losses = torch.empty_like(x[:, 0])
        g_x, g_weight, g_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        for block, rows in enumerate(blocks(n, LOGITS // len(weight))):
            p = torch.mm(x[rows], weight.T, out=_room_for_logits(len(x[rows]), weight))
            highest = torch.zeros_like(losses[rows])
            if not safe:
                highest = p.add_(bias).amax(1)
                p.sub_(highest[:, None])
            total = p.exp_().mv(factor)
            at_target = (x[rows] * weight[target[rows]]).sum(1) + bias[target[rows]]
            losses[rows] = total.log() + highest - at_target
            if with_gradients:
                share = (total * n).reciprocal()[:, None]
                torch.mm(p, weight_and_factor, out=g_x[rows]).mul_(share)
                torch.addmm(g_weight, p.T, x[rows] * share, beta=min(block, 1), out=g_weight)
                torch.addmv(g_bias, p.T, share.squeeze(1), beta=min(block, 1), out=g_bias)
        if with_gradients:
            g_x.sub_(weight[target], alpha=1 / n)
            g_weight.mul_(factor[:, None]).index_add_(0, target, x, alpha=-1 / n)
            g_bias.mul_(factor).index_add_(0, target, torch.ones_like(losses), alpha=-1 / n)
            ctx.save_for_backward(g_x, g_weight, g_bias)
        return losses.mean()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        saved = ctx.saved_tensors
        return *(saved if g == 1 else (g * tensor for tensor in saved)), None, None


def blocks(n: int, most: int) -> list[slice]:
    """n rows, in as few blocks of about equal size as there can be of at most so many (or one)."""
    size = -(-n // -(-n // max(most, 1)))
    return [slice(start, start + size) for start in range(0, n, size)]


_kept = threading.local()


def _room_for_logits(rows: int, weight: Tensor) -> Tensor:
    """Kept from step to step: getting so much fresh memory from the system would cost as much as the exponentials."""
    room = getattr(_kept, "room", None)
    if room is None or (room.device, room.dtype) != (weight.device, weight.dtype) or room.numel() < rows * len(weight):
        room = _kept.room = weight.new_empty(rows * len(weight))
    return room[: rows * len(weight)].view(rows, len(weight))
