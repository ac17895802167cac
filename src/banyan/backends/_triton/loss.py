"""The output layer on the GPU: loss and gradients in one sweep. Nearly all of the cost is the three matrix products.

Only P = exp(logits - shift) is stored, once, in the precision of the products and for one block of rows at a time. In
bf16 the exponential is taken while the product is still in registers. In float32 and TF32 the product is the library's,
and the exponential is a second sweep. The division by the row's total and the "- 1 at the target" of the gradient are
applied to the small matrices, not to P.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import kernel
from banyan.backends.losses import SCALE, product
from banyan.support.rows import blocks

LOGITS = 1 << 30  # the most bytes of logits held at a time
LARGEST = 70.0  # exp of this, even summed over many, is far from overflow in float32, and exp(-LARGEST) from underflow
HALF = torch.bfloat16  # Triton's interpreter does not support it, so tests replace it with float32 there
_ROWS, _COLUMNS, _STEP, _WARPS, _STAGES = 128, 256, 64, 8, 3  # of a block of P
_SMALL = 8  # rows [E] per program in the small kernels


@kernel
def _cast_kernel(weight, bias, cast, largest, V, pitch, E, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Copy rows of the weight in the precision of the products, and find their greatest norm and absolute bias."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    inside = (i < V)[:, None] & (j < E)[None, :]
    room = (i < pitch)[:, None] & (j < E)[None, :]
    row = tl.load(weight + i.to(tl.int64)[:, None] * E + j[None, :], mask=inside, other=0.0)
    tl.store(cast + i.to(tl.int64)[:, None] * E + j[None, :], row.to(cast.dtype.element_ty), mask=room)
    tl.store(largest + 2 * tl.program_id(0), tl.sqrt_rn(tl.max(tl.sum(row * row, 1), 0)))
    tl.store(largest + 2 * tl.program_id(0) + 1, tl.max(tl.abs(tl.load(bias + i, mask=i < V, other=0.0)), 0))


@kernel
def _rows_kernel(
    x, weight, bias, target, cast, logit, norm, count, E, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Copy rows of x in the precision of the products. Compute each row's norm and target logit in float32."""
    n = tl.load(count)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    inside = (i < n)[:, None] & (j < E)[None, :]
    place = i.to(tl.int64)[:, None] * E + j[None, :]
    row = tl.load(x + place, mask=inside, other=0.0)
    t = tl.load(target + i, mask=i < n, other=0)
    wanted = tl.load(weight + t.to(tl.int64)[:, None] * E + j[None, :], mask=inside, other=0.0)
    tl.store(cast + place, row.to(cast.dtype.element_ty), mask=inside)
    tl.store(logit + i, tl.sum(row * wanted, 1) + tl.load(bias + t, mask=i < n, other=0.0), mask=i < n)
    tl.store(norm + i, tl.sqrt_rn(tl.sum(row * row, 1)), mask=i < n)


@triton.jit
def _products(x, weight, i, v, n, E, STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Products of rows i of x and rows v of weight, which is padded to hold all rows v."""
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, E, STEP):
        j = start + tl.arange(0, STEP)
        a = tl.load(x + i.to(tl.int64)[:, None] * E + j[None, :], mask=(i < n)[:, None] & (j < E)[None, :], other=0.0)
        b = tl.load(weight + v.to(tl.int64)[None, :] * E + j[:, None], mask=(j < E)[:, None], other=0.0)
        total = tl.dot(a, b, total)
    return total


@triton.jit
def _greatest(values, count, stride, BLOCK: tl.constexpr):
    p = tl.arange(0, BLOCK)
    highest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        highest = tl.maximum(highest, tl.load(values + (start + p) * stride, mask=start + p < count, other=0.0))
    return tl.max(highest, 0)


@kernel
def _shift_kernel(
    x, weight, bias, logit, norm, of_weight, shift, count, before, n, n_of_weight, V, E, limit,
    LIMITED: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute the shift to subtract from each row of logits, so that no exponential overflows and not all underflow.

    No logit exceeds |x|·max|weight| + max|bias|, and the highest is at least the target's. The two bounds are nearly
    always close enough to derive the shift from the first. If not, the shift is the row's highest logit."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = (i < n) & (before + i < tl.load(count))
    bound = tl.load(norm + i, mask=here, other=0.0) * _greatest(of_weight, n_of_weight, 2, 1024)
    bound += _greatest(of_weight + 1, n_of_weight, 2, 1024)
    known = tl.load(logit + i, mask=here, other=0.0)
    near = bound - known <= 2 * limit
    if tl.min((near | (here == 0)).to(tl.int32), 0) > 0:
        tl.store(shift + i, tl.maximum(bound - limit, 0.0), mask=i < n)
    else:
        if LIMITED:
            V = tl.load(count)
        highest = tl.full((ROWS,), float("-inf"), tl.float32)
        for start in range(0, V, COLUMNS):
            v = start + tl.arange(0, COLUMNS)
            logits = _products(x, weight, i, v, n, E, STEP, ROWS, COLUMNS)
            logits += tl.load(bias + v, mask=v < V, other=float("-inf"))[None, :]
            highest = tl.maximum(highest, tl.max(logits, 1))
        tl.store(shift + i, highest, mask=i < n)


@kernel
def _exp_kernel(
    x, weight, bias, shift, p, total, count, before, n, V, E, pitch,
    LIMITED: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute a block of P and its part of each row's total. Rows beyond `count` become 0. LIMITED: so do columns,
    because the candidates are the rows' own tokens."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    v = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    if LIMITED:
        V = tl.load(count)
    logits = _products(x, weight, i, v, n, E, STEP, ROWS, COLUMNS)
    logits += tl.load(bias + v, mask=v < V, other=float("-inf"))[None, :]
    value = tl.exp(logits - tl.load(shift + i, mask=i < n, other=0.0)[:, None])
    value = tl.where((before + i < tl.load(count))[:, None], value, 0.0)
    tl.store(p + i.to(tl.int64)[:, None] * pitch + v[None, :], value.to(p.dtype.element_ty), mask=(i < n)[:, None])
    tl.store(total + tl.program_id(1) * n + i, tl.sum(value, 1), mask=i < n)


@kernel
def _softmax_kernel(p, bias, shift, total, count, before, V, pitch, LIMITED: tl.constexpr, COLUMNS: tl.constexpr):
    """Turn one row of logits into one row of P."""
    i = tl.program_id(0)
    here = before + i < tl.load(count)
    if LIMITED:
        V = tl.load(count)
    p += i.to(tl.int64) * pitch
    v = tl.arange(0, COLUMNS)
    highest = tl.full((COLUMNS,), float("-inf"), tl.float32)
    for start in range(0, V, COLUMNS):
        inside = here & (start + v < V)
        logits = tl.load(p + start + v, mask=inside, other=float("-inf"))
        highest = tl.maximum(highest, logits + tl.load(bias + start + v, mask=inside, other=0.0))
    top = tl.where(here, tl.max(highest, 0), 0.0)
    sums = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, pitch, COLUMNS):
        inside = here & (start + v < V)
        logits = tl.load(p + start + v, mask=inside, other=float("-inf"))
        value = tl.exp(logits + tl.load(bias + start + v, mask=inside, other=0.0) - top)
        tl.store(p + start + v, value, mask=start + v < pitch)
        sums += value
    tl.store(shift + i, top)
    tl.store(total + i, tl.sum(sums, 0))


@kernel
def _totals_kernel(
    x, logit, shift, total, given, loss, share, scaled, count, before, n, parts, E, extra,
    SHARES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EXTRA: tl.constexpr,
):  # fmt: skip
    """Compute each row's term of the loss, its factor share / total in the gradient, and x times that factor, followed
    by the factor itself: one product then gives the gradients with respect to both weight and bias. SHARES: the shares
    are given; otherwise they are equal."""
    n_all = tl.load(count)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    here = (i < n) & (before + i < n_all)
    sums = tl.zeros((ROWS,), tl.float32)
    for part in range(parts):
        sums += tl.load(total + part * n + i, mask=here, other=1.0)
    wanted, shifted = tl.load(logit + i, mask=here, other=0.0), tl.load(shift + i, mask=here, other=0.0)
    own = tl.where(here, 1.0 / n_all, 0.0)
    if SHARES:
        own = tl.load(given + i, mask=here, other=0.0)
    tl.store(loss + i, tl.where(here, (tl.log(sums) + shifted - wanted) * own, 0.0), mask=i < n)
    own /= sums
    tl.store(share + i, own, mask=i < n)
    row = tl.load(x + i.to(tl.int64)[:, None] * E + j[None, :], mask=here[:, None] & (j < E)[None, :], other=0.0)
    inside = (i < n)[:, None] & (j < E)[None, :]
    scaled += i.to(tl.int64)[:, None] * (E + extra)
    tl.store(scaled + j[None, :], (row * own[:, None]).to(scaled.dtype.element_ty), mask=inside)
    e = tl.arange(0, EXTRA)[None, :]
    tail = tl.where(e == 0, own[:, None], 0.0).to(scaled.dtype.element_ty)
    tl.store(scaled + E + e, tail, mask=(i < n)[:, None] & (e < extra))


@kernel
def _target_kernel(
    x, weight, target, given, share, g_x, g_layer, count, E, extra,
    DISTINCT: tl.constexpr, SHARES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Multiply g_x by its row factors and add the "- 1 at the target" to all three gradients (to those of weight and
    bias only if no two rows have the same target)."""
    n = tl.load(count)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    inside = (i < n)[:, None] & (j < E)[None, :]
    place = i.to(tl.int64)[:, None] * E + j[None, :]
    t = tl.load(target + i, mask=i < n, other=0).to(tl.int64)
    g = tl.load(g_x + place, mask=inside, other=0.0) * tl.load(share + i, mask=i < n, other=0.0)[:, None]
    own = tl.where(i < n, 1.0 / n, 0.0)[:, None]
    if SHARES:
        own = tl.load(given + i, mask=i < n, other=0.0)[:, None]
    tl.store(g_x + place, g - tl.load(weight + t[:, None] * E + j[None, :], mask=inside, other=0.0) * own, mask=inside)
    if DISTINCT:
        at = g_layer + t[:, None] * (E + extra) + j[None, :]
        row = tl.load(x + place, mask=inside, other=0.0)
        tl.store(at, tl.load(at, mask=inside, other=0.0) - row / n, mask=inside)
        at_bias = g_layer + t * (E + extra) + E
        tl.store(at_bias, tl.load(at_bias, mask=i < n, other=0.0) - 1.0 / n, mask=i < n)


def cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    target: Tensor,
    precision: str,
    count: Tensor | None = None,
    distinct: bool = False,
    limited: bool = False,
    share: Tensor | None = None,
) -> Tensor:
    """The mean over rows of -log softmax(x @ weight.T + bias)[target], with products in float32, tf32 or bf16.

    count: the actual number of rows, on the device; by default all.
    distinct: no two rows have the same target.
    limited: there are as many candidates as rows.
    share: the weight of each row in the mean; by default all are equal. Not to be combined with `distinct`.
    """
    if count is None:
        count = torch.full((1,), len(x), dtype=torch.int32, device=x.device)
    options = precision, count, distinct, limited, share, torch.is_grad_enabled()
    return _CrossEntropy.apply(x, weight, bias, target, *options)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        target: Tensor,
        precision: str,
        count: Tensor,
        distinct: bool,
        limited: bool,
        given: Tensor | None,
        learn: bool,
    ) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        n, (V, E) = len(x), weight.shape
        layer = (_Fused if precision == "bf16" else _TwoSweeps)(x, weight, bias, target, count, limited)
        small = {"SHARES": given is not None, "ROWS": _SMALL, "COLUMNS": triton.next_power_of_2(E)}
        extra = 8 + -E % 8
        loss, share, scaled = x.new_empty(n), x.new_empty(n), layer.x.new_empty(n, E + extra)
        g_x, g_layer = torch.empty_like(x), torch.empty(0)
        shares = share if given is None else given.contiguous()
        with products_in(precision):
            for rows in blocks(n, LOGITS // (layer.pitch * layer.x.itemsize)):
                p, shift, total = layer.exponentials(rows)
                _totals_kernel[(triton.cdiv(len(p), _SMALL),)](
                    x[rows], layer.logit[rows], shift, total, shares[rows], loss[rows], share[rows], scaled[rows],
                    count, rows.start, len(p), total.numel() // len(p), E, extra,
                    EXTRA=triton.next_power_of_2(extra), **small,
                )  # fmt: skip
                if learn:
                    product(p, layer.weight, out=g_x[rows])
                    of_block = product(p.T, scaled[rows])
                    g_layer = of_block if rows.start == 0 else g_layer.add_(of_block)
        if learn:
            _target_kernel[(triton.cdiv(n, _SMALL),)](
                x, weight, target, shares, share, g_x, g_layer, count, E, extra, DISTINCT=distinct, **small
            )
            g_weight, g_bias = g_layer[:V, :E], g_layer[:V, E]
            if not distinct:
                here = torch.arange(n, device=x.device) < count
                own = torch.where(here, 1 / count if given is None else given, 0)
                g_weight.index_put_((target,), torch.where(here[:, None], -x * own[:, None], 0), accumulate=True)
                g_bias.index_put_((target,), -own, accumulate=True)
            ctx.save_for_backward(g_x, g_weight, g_bias)
        return loss.sum()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return *(g * tensor for tensor in ctx.saved_tensors), None, None, None, None, None, None, None


class _Fused:
    """Takes the exponential while the product is in registers; operands and P are bf16."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor, target: Tensor, count: Tensor, limited: bool) -> None:
        n, (V, E) = len(x), weight.shape
        self.V, self.bias, self.count, self.limited = V, bias, count, limited
        self.pitch = triton.cdiv(V, _COLUMNS) * _COLUMNS
        self.weight, self.x = weight.new_empty(self.pitch, E, dtype=HALF), torch.empty_like(x, dtype=HALF)
        columns = triton.next_power_of_2(E)
        self.of_weight = weight.new_empty(triton.cdiv(self.pitch, 16), 2)
        _cast_kernel[(len(self.of_weight),)](
            weight, bias, self.weight, self.of_weight, V, self.pitch, E, ROWS=16, COLUMNS=columns
        )
        self.logit, self.norm = x.new_empty(n), x.new_empty(n)
        _rows_kernel[(triton.cdiv(n, _SMALL),)](
            x, weight, bias, target, self.x, self.logit, self.norm, count, E, ROWS=_SMALL, COLUMNS=columns
        )

    def exponentials(self, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return P of these rows, the shift of each row of logits, and the parts of each row's total."""
        x, E = self.x[rows], self.x.shape[1]
        n, step = len(x), min(_STEP, max(16, triton.next_power_of_2(E)))
        shape = {"STEP": step, "ROWS": _ROWS, "COLUMNS": _COLUMNS, "num_warps": _WARPS, "num_stages": _STAGES}
        programs, blocks = triton.cdiv(n, _ROWS), self.pitch // _COLUMNS
        shift = self.bias.new_empty(n)
        _shift_kernel[(programs,)](
            x, self.weight, self.bias, self.logit[rows], self.norm[rows], self.of_weight, shift, self.count, rows.start,
            n, len(self.of_weight), self.V, E, LARGEST, LIMITED=self.limited, **shape,
        )  # fmt: skip
        p, total = x.new_empty(n, self.pitch), self.bias.new_empty(blocks, n)
        _exp_kernel[(programs, blocks)](
            x, self.weight, self.bias, shift, p, total, self.count, rows.start, n, self.V, E, self.pitch,
            LIMITED=self.limited, **shape,
        )  # fmt: skip
        return p, shift, total


class _TwoSweeps:
    """The library's product in float32 or TF32, then a sweep over it: for use without bf16, and for comparison."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor, target: Tensor, count: Tensor, limited: bool) -> None:
        self.x, self.weight, self.bias, self.count, self.limited = x, weight, bias, count, limited
        self.pitch = len(weight)
        self.logit = (x * weight[target]).sum(1) + bias[target]

    def exponentials(self, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        p = torch.mm(self.x[rows], self.weight.T)
        shift, total = self.bias.new_empty(len(p)), self.bias.new_empty(len(p))
        _softmax_kernel[(len(p),)](
            p, self.bias, shift, total, self.count, rows.start, self.pitch, self.pitch,
            LIMITED=self.limited, COLUMNS=1024, num_warps=4,
        )  # fmt: skip
        return p, shift, total


def exponentials(a: Tensor, b: Tensor, here_a: Tensor | None, here_b: Tensor | None) -> tuple[Tensor, Tensor]:
    """losses.exponentials, with exp taken while the product is still in registers; operands and P are bf16."""
    (n, E), V = a.shape, len(b)
    pitch = triton.cdiv(V, _COLUMNS) * _COLUMNS
    x = (a * SCALE).to(HALF).contiguous()
    weight = torch.nn.functional.pad(b, (0, 0, 0, pitch - V)).to(HALF).contiguous()
    nothing = torch.full((), float("inf"), device=a.device)
    bias = b.new_zeros(V) if here_b is None else torch.where(here_b, 0, -nothing)
    shift = a.new_zeros(n) if here_a is None else torch.where(here_a, 0, nothing)
    count = torch.full((1,), n, dtype=torch.int32, device=a.device)
    p, total = x.new_empty(n, pitch), a.new_empty(pitch // _COLUMNS, n)
    step = min(_STEP, max(16, triton.next_power_of_2(E)))
    _exp_kernel[(triton.cdiv(n, _ROWS), pitch // _COLUMNS)](
        x, weight, bias, shift, p, total, count, 0, n, V, E, pitch, LIMITED=False,
        STEP=step, ROWS=_ROWS, COLUMNS=_COLUMNS, num_warps=_WARPS, num_stages=_STAGES,
    )  # fmt: skip
    return p[:, :V], total.sum(0)


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Allow TF32 in float32 matrix products, or forbid it, inside the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
