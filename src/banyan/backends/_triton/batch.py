"""The kernels' inputs (a batch of sentences, the dropout of a step) and their compiler options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from banyan.model.dropout import LEAF, LEFT_MESSAGE, NODE, RIGHT_MESSAGE, Dropout

PLACES = (LEAF, NODE, LEFT_MESSAGE, RIGHT_MESSAGE)
ROWS = 8  # rows [E] per program in simple row-wise kernels

# Arguments that vary from batch to batch. Specializing on them would compile variants of a kernel for no benefit.
_VARIES = {
    "do_not_specialize": ["T", "B", "M", "N", "salt", "shift", "hash_bits", "n", "before", "parts"],
    "do_not_specialize_on_alignment": ["tokens", "offsets", "token", "leaf", "sizes", "streams", "target", "count"],
}


def kernel(function: Any) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return triton.jit(function, **{how: [name for name in which if name in names] for how, which in _VARIES.items()})


class Batch(NamedTuple):
    """Sentences on the device. The distinct tokens do not depend on the weights, so they are computed beforehand.

    The tensors may have room for more tokens and more leaves than there are, so that one CUDA graph can process
    batches of different sizes in the same memory."""

    tokens: Tensor  # int32 [T]
    offsets: Tensor  # int32 [B+1]
    token: Tensor  # int32 [L]: the token of each leaf
    leaf: Tensor  # int32 [T]: the leaf of each position
    sizes: Tensor  # int32 [2]: the actual numbers of tokens and leaves
    longest: int  # an upper bound on the length of a sentence, in tokens

    @classmethod
    def of(cls, tokens: np.ndarray, offsets: np.ndarray, device: torch.device, plain: bool = False) -> Batch:
        token, leaf = (tokens, np.arange(len(tokens))) if plain else np.unique(tokens, return_inverse=True)
        arrays = (tokens, offsets, token, leaf, np.array([len(tokens), len(token)]))
        tensors = [torch.from_numpy(array.astype(np.int32)).to(device) for array in arrays]
        return cls._make([*tensors, int(np.diff(offsets).max())])


class Noise(NamedTuple):
    """A Dropout as the kernels use it."""

    streams: Tensor  # int64 [6]: the streams of the four places, the threshold, and the threshold for leaves
    scale: float
    leaf_scale: float
    on: bool

    @classmethod
    def of(cls, dropout: Dropout, device: torch.device) -> Noise:
        return cls.at(dropout, cls.streams_of([dropout], device)[0])

    @classmethod
    def at(cls, dropout: Dropout, streams: Tensor) -> Noise:
        """The rates of a Dropout with the streams of any step. (At a rate of 0, all is kept, times exactly 1.)"""
        rate, leaf_rate = dropout.rate_at(NODE), dropout.rate_at(LEAF)
        return cls(streams, 1 / (1 - rate), 1 / (1 - leaf_rate), max(rate, leaf_rate) > 0)

    @staticmethod
    def streams_of(dropouts: Sequence[Dropout], device: torch.device) -> Tensor:
        """The streams and thresholds of many steps, copied to the device together [steps, 6]."""
        numbers = [[*map(d.stream, PLACES), *(int(d.rate_at(at) * 2**32) for at in (NODE, LEAF))] for d in dropouts]
        return torch.from_numpy(np.array(numbers, np.uint64).view(np.int64)).to(device)
