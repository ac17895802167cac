"""The predecessor's objective: a node on its way up must find itself among all nodes on their way down, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SCALE = math.exp(0.2)  # of the cosines: Self-StrAE's temperature, which it does not learn
HELD = {"cpu": 1 << 28, "other": 1 << 33}  # bytes of exponentials that exist at one time, by the kind of device
_ONES = 8  # columns of ones; one would do, but products of a multiple of 8 columns are the fast ones

# Of unit vectors a and b, and which of them are there (None: all): P = exp(SCALE·a·b), 0 where either is not, and the
# totals of its rows.
Exponentials = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], tuple[Tensor, Tensor]]


def exponentials(a: Tensor, b: Tensor, here_a: Tensor | None, here_b: Tensor | None) -> tuple[Tensor, Tensor]:
    p = torch.mm(a, b.T).mul_(SCALE).exp_()
    if here_a is not None and here_b is not None:
        p.mul_(here_a[:, None]).mul_(here_b)
    return p, p.sum(1)


def contrastive(
    up: Tensor, down: Tensor, here: Tensor | None = None, exponentials: Exponentials = exponentials
) -> Tensor:
    """The mean over nodes of -log softmax of cosine × SCALE at the node itself, half over all that come down and half
    over all that go up. here: which of the rows of up and down [N, E] are nodes; without it, all."""
    if len(up) == 0:
        return up.sum()  # 0, of no node at all
    if here is not None:  # what stands in the other rows may not be a number
        up, down = (torch.where(here[:, None], rows, 0) for rows in (up, down))
    a, b = (rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12) for rows in (up, down))
    return _Contrastive.apply(a, b, here, exponentials, torch.is_grad_enabled())


class _Contrastive(torch.autograd.Function):
    """Loss and gradients in one sweep. No scaled cosine is above SCALE, so its exponential needs no care.

    The gradient by cosine (i, j) is P[i, j] / row i's total + P[i, j] / column j's total, less 2 where i = j, times
    SCALE / 2N. The totals stay outside of the products with P, and those of the columns are one of the products, with
    ones. Where P is too large to be held, blocks of its rows are made twice.
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
    """In float32 also where P is less precise; in float64 where all is."""
    if p.dtype != torch.bfloat16:
        return torch.mm(p, b, out=out)
    return torch.mm(p, b.to(p.dtype), out_dtype=torch.float32, out=out)


def blocks(n: int, most: int) -> list[slice]:
    """n rows, in as few blocks of about equal size as there can be of at most so many (or one)."""
    size = -(-n // -(-n // max(most, 1)))
    return [slice(start, start + size) for start in range(0, n, size)]
