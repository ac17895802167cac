"""What is learnt: rebuild every leaf, told apart by the output layer from the other tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from banyan.model import BanyanModel, Passes

ROWS = 512  # of the logits that exist at one time


def reconstruction(model: BanyanModel, passes: Passes) -> Tensor:
    """Mean cross-entropy of the rebuilt leaves, over the vocabulary or over the batch's own distinct tokens."""
    token = torch.from_numpy(passes.graph.token).long()
    if model.config.candidates == "all":
        return cross_entropy(passes.rebuilt, model.out_weight, model.out_bias, token)
    candidates, target = torch.unique(token, return_inverse=True)
    return cross_entropy(passes.rebuilt, model.out_weight[candidates], model.out_bias[candidates], target)


def cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """The mean over rows of -log softmax(x @ weight.T + bias)[target], never holding more than ROWS rows of logits."""
    return _CrossEntropy.apply(x, weight, bias, target, torch.is_grad_enabled())


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one sweep over blocks of rows, so that the three matrix products are all it costs.

    With P = exp(logits - max) and S its row sums, softmax is P/S; the division and the "- 1 at the target" of the
    gradient are left to the small matrices.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, target: Tensor, with_gradients: bool) -> Tensor:
        losses = torch.empty_like(x[:, 0])
        g_x, g_weight, g_bias = torch.empty_like(x), torch.zeros_like(weight), torch.zeros_like(bias)
        logits = x.new_empty(min(ROWS, len(x)), len(weight))
        for block in torch.arange(len(x)).split(ROWS):
            rows = slice(int(block[0]), int(block[-1]) + 1)
            p = torch.addmm(bias, x[rows], weight.T, out=logits[: len(block)])
            highest = p.amax(1, keepdim=True)
            at_target = p.gather(1, target[rows, None])
            total = p.sub_(highest).exp_().sum(1, keepdim=True)
            losses[rows] = (total.log() + highest - at_target).squeeze(1)
            if with_gradients:
                torch.mm(p, weight, out=g_x[rows]).div_(total)
                g_weight.addmm_(p.T, x[rows] / total)
                g_bias.addmv_(p.T, total.squeeze(1).reciprocal())
        if with_gradients:
            g_x -= weight[target]
            g_weight.index_add_(0, target, x, alpha=-1)
            g_bias.index_add_(0, target, torch.ones_like(losses), alpha=-1)
            ctx.save_for_backward(*(g.div_(len(x)) for g in (g_x, g_weight, g_bias)))
        return losses.mean()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return *(g * saved for saved in ctx.saved_tensors), None, None
