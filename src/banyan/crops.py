"""Two crops of every sentence of a batch, which are to find each other by their roots (objective.agreement).

A crop is a run of its sentence's tokens. Where it begins and ends is a function of the seed, the step, the place of the
sentence in the batch, and whether it is the first or the second: every device draws the same, a resumed run too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from banyan.graph import runs_of_tokens
from banyan.reference import RIGHT_MESSAGE, Dropout, mix

FIRST, SECOND = RIGHT_MESSAGE + 1, RIGHT_MESSAGE + 2  # streams of a step, beside those of its dropout


def draw(lengths: np.ndarray, dropouts: Sequence[Dropout], shortest: float) -> tuple[np.ndarray, np.ndarray]:
    """Of sentences of these lengths [steps, B], where in them their crops begin, and how long they are [steps, 2, B].

    dropouts: of each step, whose seed and number they have.
    shortest: share of a sentence that a crop can be; a token at least."""
    streams = np.array([[dropout.stream(FIRST), dropout.stream(SECOND)] for dropout in dropouts], np.uint64)
    bits = mix(streams[:, :, None] + np.arange(lengths.shape[1], dtype=np.uint64))
    length = lengths[:, None].astype(np.uint64)
    least = np.maximum(np.ceil(shortest * length), 1).astype(np.uint64)
    size = least + _below(length - least + 1, bits & 0xFFFFFFFF)
    begin = _below(length - size + 1, bits >> 32)
    return begin.astype(np.int64), size.astype(np.int64)


def _below(n: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """32 random bits as a number below n, each about as likely."""
    return bits * n >> 32


def with_crops(
    starts: np.ndarray, lengths: np.ndarray, dropouts: Sequence[Dropout], shortest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where batches of sentences [steps, B] begin and how long they are; after them their first crops, and then their
    second ones [steps, 3·B]."""
    begin, size = draw(lengths, dropouts, shortest)
    begin += starts[:, None]
    steps = len(lengths)
    return np.hstack([starts, begin.reshape(steps, -1)]), np.hstack([lengths, size.reshape(steps, -1)])


def batch_with_crops(
    tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout, shortest: float
) -> tuple[np.ndarray, np.ndarray]:
    """A ragged batch with its crops: B sentences, then B first crops, then B second ones."""
    starts, lengths = with_crops(offsets[None, :-1], np.diff(offsets)[None], [dropout], shortest)
    return runs_of_tokens(tokens, starts[0], lengths[0])
