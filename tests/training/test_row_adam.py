"""Adam on sparse gradients does what Adam does on dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from banyan.training.row_adam import RowAdam

V, E = 1300, 20  # more rows than a job has


def gradients(steps: int) -> list[torch.Tensor]:
    """Sparse ones, of rows below 1,000. Some rows occur twice."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(steps):
        rows, values = torch.from_numpy(rng.integers(0, 1000, (1, 600))), torch.from_numpy(rng.normal(size=(600, E)))
        found.append(torch.sparse_coo_tensor(rows, values.float(), (V, E), check_invariants=True))
    return found


def start() -> nn.Parameter:
    return nn.Parameter(torch.randn(V, E, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_rows_move_as_under_dense_gradients(weight):
    ours, theirs, before = start(), start(), start().detach()
    row_adam, adam = RowAdam([ours], 0.01), torch.optim.Adam([theirs], 0.01)
    row_adam.stay_near(ours, before.numpy(), weight)
    for gradient in gradients(5):
        for group in (*row_adam.param_groups, *adam.param_groups):
            group["lr"] *= 0.8
        ours.grad, theirs.grad = gradient, gradient.to_dense() + 2 * weight * (theirs.detach() - before)
        row_adam.step()
        adam.step()
    np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=0, atol=1e-6)
    assert (ours[:1000] - before[:1000]).abs().max() > 0.01
    assert torch.equal(ours[1000:], before[1000:])
    for key, value in adam.state[theirs].items():
        np.testing.assert_allclose(row_adam.state[ours][key], value, rtol=1e-4, atol=1e-6, err_msg=key)


def test_a_restored_optimiser_goes_on_with_the_same_bits():
    whole, cut = start(), start()
    one, first = RowAdam([whole], 0.01), RowAdam([cut], 0.01)
    for i, gradient in enumerate(gradients(4)):
        if i == 2:  # as checkpoint.load restores it
            second = RowAdam([cut], 0.01)
            second.state[cut] = {key: value.clone() for key, value in first.state[cut].items()}
            first = second
        whole.grad, cut.grad = gradient, gradient
        one.step()
        first.step()
    assert torch.equal(whole, cut)


def test_parameters_with_dense_gradients_are_moved_too():
    sparse, dense = start(), nn.Parameter(torch.ones(3))
    optimiser = RowAdam([sparse, dense], 0.01)
    sparse.grad, dense.grad = gradients(1)[0], torch.ones(3)
    optimiser.step()
    np.testing.assert_allclose(dense.detach(), 0.99, atol=1e-6)
    assert sparse.grad is None  # the next backward pass begins anew
