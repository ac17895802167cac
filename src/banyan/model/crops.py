"""The two parts of every sentence or passage of a batch: the positive pairs of InfoNCE (objective.infonce).

Where a sentence is split depends only on the seed, the step and the sentence's place in the batch, so every device
and every resumed run draws the same parts. A sentence of one token is both of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from banyan.config import Config
from banyan.model.dropout import RIGHT_MESSAGE, Dropout, mix
from banyan.model.graph import runs_of_tokens

STREAM = RIGHT_MESSAGE + 1  # random numbers of a step, beside those of its dropout


def smallest_part(config: Config) -> float | None:
    """The smallest share of a sentence that a part may have; None if no parts are needed."""
    return config.infonce_min_part if config.infonce_weight else None


def draw(lengths: np.ndarray, dropouts: Sequence[Dropout], smallest: float) -> tuple[np.ndarray, np.ndarray]:
    """For sentences of these lengths [steps, B], where their parts begin, and how long they are [steps, 2, B].

    dropouts: one for each step; the parts take its seed and step number."""
    streams = np.array([dropout.stream(STREAM) for dropout in dropouts], np.uint64)
    bits = mix(streams[:, None] + np.arange(lengths.shape[1], dtype=np.uint64))
    length = lengths.astype(np.uint64)
    least = np.maximum(np.ceil(smallest * length), 1).astype(np.uint64)
    least = np.maximum(np.minimum(least, length // 2), 1)
    choices = length + 1 - 2 * least
    first = (least + ((bits & 0xFFFFFFFF) * choices >> 32)).astype(np.int64)  # 32 random bits as a number below choices
    begin = np.where(lengths > 1, first, 0)
    return np.stack([np.zeros_like(begin), begin], 1), np.stack([first, lengths - begin], 1)


def with_crops(
    starts: np.ndarray, lengths: np.ndarray, dropouts: Sequence[Dropout], smallest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of batches of passages [steps, B], followed by those of all first and of all second parts
    [steps, 3·B]."""
    begin, size = draw(lengths, dropouts, smallest)
    begin += starts[:, None]
    steps = len(lengths)
    return np.hstack([starts, begin.reshape(steps, -1)]), np.hstack([lengths, size.reshape(steps, -1)])


def batch_with_crops(
    tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout, smallest: float
) -> tuple[np.ndarray, np.ndarray]:
    """A ragged batch of B sentences, then their B first parts, then their B second parts."""
    starts, lengths = with_crops(offsets[None, :-1], np.diff(offsets)[None], [dropout], smallest)
    return runs_of_tokens(tokens, starts[0], lengths[0])
