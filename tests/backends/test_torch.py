"""What only plain torch must do: mix keys without unsigned numbers, and run on devices without float64.

What every back end must do is in test_behaviours.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from banyan.backends import _torch
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.model.objective import reconstruction
from tests.helpers.batches import random_batch

ACCELERATOR = torch.accelerator.current_accelerator(check_available=True)

if_accelerated = pytest.mark.skipif(ACCELERATOR is None, reason="torch sees no accelerator here")
on_every_device = pytest.mark.parametrize(
    "device",
    [
        pytest.param(torch.device("cpu"), id="cpu"),
        pytest.param(ACCELERATOR, id="accelerator", marks=[if_accelerated, pytest.mark.kernels]),
    ],
)


@on_every_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("rate", "leaf_rate"), [(0.0, None), (0.1, None), (0.7, None), (0.1, 0.0), (0.0, 0.2)])
def test_masks_are_exactly_those_of_the_reference(rate, leaf_rate, dtype, device):
    if device.type == "mps" and dtype == torch.float64:
        pytest.skip("mps has no float64")
    keys = np.random.default_rng(0).integers(0, 2**64, 50, np.uint64)
    keys[:2] = 0, 2**64 - 1
    dropout = Dropout(rate, 3, 5, leaf_rate)
    for place in range(4):
        expected = np.array([dropout.mask(place, int(key), 300) for key in keys])
        got = _torch.masks(dropout, place, keys, 300, device, dtype)
        assert (got.device.type, got.dtype) == (device.type, dtype)
        np.testing.assert_array_equal(got.cpu(), torch.from_numpy(expected).to(dtype))


class WithoutFloat64(TorchDispatchMode):
    """A device that has none (mps)."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert torch.float64 not in [x.dtype for x in tree_leaves(result) if isinstance(x, torch.Tensor)], func
        return result


@pytest.mark.parametrize("candidates", ["all", "batch"])
def test_a_step_in_float32_needs_no_float64(candidates):
    model, dropout = BanyanModel(Config(dim=6, channels=3, candidates=candidates), 8, "torch"), Dropout(0.1)
    graph = model.structure(*random_batch(np.random.default_rng(9), 4, 8, 6), dropout)
    with WithoutFloat64():
        reconstruction(model, model(graph, dropout)).backward()
