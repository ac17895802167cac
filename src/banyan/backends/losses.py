"""The losses in plain torch, each with its gradients in one sweep over blocks of rows."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from banyan.backends.passes import Passes, on_device
from banyan.support.rows import blocks

LOGITS = 1 << 26  # logits in memory at one time: 256 MB in float32. More would hardly make the products faster
LARGEST = 60.0  # a logit whose exponential, and the sum of many such, is far from overflow in float32
SCALE = math.exp(0.2)  # of the cosines: the temperature of Self-StrAE, a constant
HELD = {"cpu": 1 << 28, "other": 1 << 33}  # bytes of exponentials in memory at one time, by type of device
_ONES = 8  # columns of ones: one would do, but products are fast for multiples of 8 columns


# --- Cross-entropy ---------------------------------------------------------------------------------------------------


def cross_entropy_of_leaves(passes: Passes, weight: Tensor, bias: Tensor, candidates: str, mean_over: str) -> Tensor:
    """Backend.cross_entropy where the graph is on the host."""
    token = target = on_device(passes.graph.token, passes.down.device)
    share = shares(token, len(bias)) if mean_over == "tokens" else None
    if candidates == "batch":
        own, target = torch.unique(token, return_inverse=True)
        weight, bias = weight[own], bias[own]
    return cross_entropy(passes.rebuilt, weight, bias, target, share)


def shares(token: Tensor, vocab_size: int, here: Tensor | None = None) -> Tensor:
    """Return the weight of each leaf in the mean, such that all distinct tokens weigh the same. The weights add up to
    1."""
    there = torch.ones_like(token, dtype=torch.float32) if here is None else here.float()
    count = there.new_zeros(vocab_size).index_add_(0, token, there)
    return there / (count.index_select(0, token).clamp(min=1) * (count > 0).sum())


def cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor:
    """Return the mean over rows of -log softmax(x @ weight.T + bias)[target], with at most LOGITS logits in memory.

    share: the weight of each row in the mean; equal by default."""
    share = x.new_full((len(x),), 1 / len(x)) if share is None else share.to(x.dtype)
    return _CrossEntropy.apply(x, weight, bias, target, share, torch.is_grad_enabled())


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients together, in blocks of rows, at little more than the cost of three matrix products.

    Softmax is P·factor / total, where P = exp(x @ weight.T) and factor = exp(bias) of each candidate. The factor, the
    division by the total and the "- 1 at the target" of the gradient are applied to the small matrices. If logits could
    overflow, the usual formula is used instead: add the bias, subtract the highest, and take a factor of 1.
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
    """Return a buffer that is kept from step to step: allocating as much memory would cost as much as the
    exponentials."""
    room = getattr(_kept, "room", None)
    if room is None or (room.device, room.dtype) != (weight.device, weight.dtype) or room.numel() < rows * len(weight):
        room = _kept.room = weight.new_empty(rows * len(weight))
    return room[: rows * len(weight)].view(rows, len(weight))


# --- Contrast of every node with its reconstruction ------------------------------------------------------------------
# The predecessor's objective: a node on its way up must find itself among all nodes on their way down, and back.

# Takes unit vectors a and b and which of them exist (None: all). Returns P = exp(SCALE·a·b), 0 where either does not
# exist, and the totals of its rows.
Exponentials = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], tuple[Tensor, Tensor]]


def contrastive_of_nodes(passes: Passes, inner: bool) -> Tensor:
    """Backend.contrastive where the graph is on the host."""
    first = passes.graph.n_leaves if inner else 0
    return contrastive(passes.up[first:], passes.down[first:])


def exponentials(a: Tensor, b: Tensor, here_a: Tensor | None, here_b: Tensor | None) -> tuple[Tensor, Tensor]:
    p = torch.mm(a, b.T).mul_(SCALE).exp_()
    if here_a is not None and here_b is not None:
        p.mul_(here_a[:, None]).mul_(here_b)
    return p, p.sum(1)


def contrastive(
    up: Tensor, down: Tensor, here: Tensor | None = None, exponentials: Exponentials = exponentials
) -> Tensor:
    """Return the mean over nodes of -log softmax of cosine × SCALE at the node itself, half over all nodes on the way
    down and half over all nodes on the way up. here: which rows of up and down [N, E] are nodes; all by default."""
    if len(up) == 0:
        return up.sum()  # 0, with a gradient
    if here is not None:  # other rows may hold NaN
        up, down = (torch.where(here[:, None], rows, 0) for rows in (up, down))
    a, b = (rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12) for rows in (up, down))
    return _Contrastive.apply(a, b, here, exponentials, torch.is_grad_enabled())


class _Contrastive(torch.autograd.Function):
    """Loss and gradients together. Scaled cosines are at most SCALE, so their exponentials cannot overflow.

    The gradient of cosine (i, j) is P[i, j] / row i's total + P[i, j] / column j's total, less 2 where i = j, times
    SCALE / 2N. The totals are applied outside of the products with P, and the totals of columns come from a product
    with ones. If P does not fit into memory, its blocks of rows are computed twice.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, here: Tensor | None, exponentials: Exponentials, learn: bool) -> Tensor:
        N, E = a.shape
        parts = blocks(N, HELD.get(a.device.type, HELD["other"]) // (N * a.itemsize))

        def p_of(rows: slice) -> tuple[Tensor, Tensor]:
            return exponentials(a[rows], b, None if here is None else here[rows], here)

        row_total, ones = torch.empty_like(a[:, 0]), a.new_ones(N, _ONES)
        with_p = a.new_zeros(N, 2 * E + _ONES)
        for rows in parts:
            p, total = p_of(rows)
            row_total[rows] = total = total if here is None else torch.where(here[rows], total, 1)
            with_p += product(p.T, torch.cat([a[rows], a[rows] / total[:, None], ones[rows]], 1))
        column_total = with_p[:, -1] if here is None else torch.where(here, with_p[:, -1], 1)
        n = N if here is None else here.sum(dtype=a.dtype).clamp(min=1)
        at_itself = SCALE * (a * b).sum(1)
        each = (row_total.log() + column_total.log()) / 2 - at_itself  # 0 where there is no node
        if learn:
            other = torch.cat([b, b / column_total[:, None]], 1)
            with_b = torch.cat([product(p if len(parts) == 1 else p_of(rows)[0], other) for rows in parts])
            g_a = with_b[:, :E] / row_total[:, None] + with_b[:, E:] - 2 * b
            g_b = with_p[:, :E] / column_total[:, None] + with_p[:, E : 2 * E] - 2 * a
            ctx.save_for_backward(g_a * (SCALE / 2 / n), g_b * (SCALE / 2 / n))
        return each.sum() / n

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return *(g * saved for saved in ctx.saved_tensors), None, None, None


def product(p: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Multiply with a float32 result even if P is less precise (float64 if both are)."""
    if p.dtype != torch.bfloat16:
        return torch.mm(p, b, out=out)
    return torch.mm(p, b.to(p.dtype), out_dtype=torch.float32, out=out)
