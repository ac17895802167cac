"""Arguments of the kernels: a batch of sentences and the dropout of a step. How kernels are compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from banyan.model.dropout import LEAF, LEFT_MESSAGE, NODE, RIGHT_MESSAGE, Dropout

PLACES = (LEAF, NODE, LEFT_MESSAGE, RIGHT_MESSAGE)
ROWS = 8  # rows of E numbers per program, in elementwise kernels

# Arguments that change from batch to batch: Triton must not compile variants of a kernel for their values.
_VARIES = {
    "do_not_specialize": ["T", "B", "M", "N", "salt", "shift", "hash_bits", "n", "before", "parts"],
    "do_not_specialize_on_alignment": ["tokens", "offsets", "token", "leaf", "sizes", "streams", "target", "count"],
}


def kernel(function: Any) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return triton.jit(function, **{how: [name for name in which if name in names] for how, which in _VARIES.items()})


class Batch(NamedTuple):
    """Sentences on the device. The distinct tokens do not depend on the weights, so they are found beforehand.

    The buffers may be larger than needed, so that batches of different sizes can share memory and a CUDA graph."""

    tokens: Tensor  # int32 [T]
    offsets: Tensor  # int32 [B+1]
    token: Tensor  # int32 [L]: of each leaf
    leaf: Tensor  # int32 [T]: of each position
    sizes: Tensor  # int32 [2]: how many tokens and leaves there really are
    longest: int  # the longest possible sentence, in tokens

    @classmethod
    def of(cls, tokens: np.ndarray, offsets: np.ndarray, device: torch.device, plain: bool = False) -> Batch:
        token, leaf = (tokens, np.arange(len(tokens))) if plain else np.unique(tokens, return_inverse=True)
        arrays = (tokens, offsets, token, leaf, np.array([len(tokens), len(token)]))
        tensors = [torch.from_numpy(array.astype(np.int32)).to(device) for array in arrays]
        return cls._make([*tensors, int(np.diff(offsets).max())])


class Noise(NamedTuple):
    """A Dropout as the kernels use it."""

    streams: Tensor  # int64: of the four places, the threshold, and that of leaves
    scale: float
    leaf_scale: float
    on: bool

    @classmethod
    def of(cls, dropout: Dropout, device: torch.device) -> Noise:
        return cls.at(dropout, cls.streams_of([dropout], device)[0])

    @classmethod
    def at(cls, dropout: Dropout, streams: Tensor) -> Noise:
        """Return the rates of a Dropout with the streams of any step. (At rate 0 everything is kept, times exactly
        1.)"""
        rate, leaf_rate = dropout.rate_at(NODE), dropout.rate_at(LEAF)
        return cls(streams, 1 / (1 - rate), 1 / (1 - leaf_rate), max(rate, leaf_rate) > 0)

    @staticmethod
    def streams_of(dropouts: Sequence[Dropout], device: torch.device) -> Tensor:
        """Copy the streams of many steps to the device together [steps, 6]."""
        numbers = [[*map(d.stream, PLACES), *(int(d.rate_at(at) * 2**32) for at in (NODE, LEAF))] for d in dropouts]
        return torch.from_numpy(np.array(numbers, np.uint64).view(np.int64)).to(device)
