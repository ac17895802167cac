"""Adam that skips the rows of a matrix that have never had a gradient. Adam would not move them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from banyan.backends._numba import adam
from banyan.model import BanyanModel
from banyan.support import devices


def optimiser_of(model: BanyanModel, several: bool) -> torch.optim.Adam:
    """RowAdam on a CPU, if the gradient of the embedding can be sparse: an output layer has gradients of all tokens,
    and neither clipping nor several processes take sparse ones. Otherwise torch's Adam."""
    config, on_cpu = model.config, model.backend.name == "numba"
    model.sparse_gradients = on_cpu and config.objective == "none" and not config.clip_grad_norm and not several
    if model.sparse_gradients:
        return RowAdam(model.parameters(), config.lr)
    return devices.adam(model.parameters(), config.lr, config.lr_decays)


class RowAdam(torch.optim.Adam):
    """Adam on the CPU. A sparse gradient, of some rows of a matrix, gives the weights that the dense one would give, up
    to rounding. (torch's SparseAdam gives others: it lets the averages of rows without a gradient rest.)

    Its state is that of torch's Adam. What else it knows is found again in that state."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, lr=lr, fused=True)
        self.register_step_pre_hook(self._step_of_sparse)
        self._moving: dict[Tensor, np.ndarray] = {}  # which rows have had a gradient, bool [V]
        self._stays: dict[Tensor, tuple[np.ndarray, float]] = {}

    def stay_near(self, weights: Tensor, before: np.ndarray, factor: float) -> None:
        """Add the gradient of factor · |weights - before|² to sparse gradients of the weights, as optimisers do it for
        weight decay. No row has been elsewhere before its first gradient."""
        self._stays[weights] = before, 2 * factor

    @torch.no_grad()
    def _step_of_sparse(self, *given: Any) -> None:
        """Make the step of parameters with a sparse gradient, which the step that follows leaves alone."""
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None and weights.grad.is_sparse:
                    self._step_of_rows(weights, weights.grad, group)
                    weights.grad = None

    def _step_of_rows(self, weights: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        indices, gradients = gradient._indices()[0].numpy(), gradient._values().numpy()
        state = self.state[weights]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weights), torch.zeros_like(weights)
        averages, squares = state["exp_avg"], state["exp_avg_sq"]
        if weights not in self._moving:  # squares of tiny gradients may be zero, so both count
            self._moving[weights] = ((averages != 0) | (squares != 0)).any(1).numpy()
        self._moving[weights][indices] = True
        state["step"] += 1
        arrays = weights.detach().numpy(), averages.numpy(), squares.numpy()
        rows = np.flatnonzero(self._moving[weights])
        beta1, beta2 = group["betas"]
        how = adam.How(int(state["step"]), float(group["lr"]), beta1, beta2, group["eps"])
        adam.step(*arrays, rows, indices, gradients, how, *self._stays.get(weights, (arrays[0], 0.0)))
