"""The two parts of every sentence or passage of a batch: the positive pairs of InfoNCE (objective.infonce).

Where a sentence is split depends only on the seed, the step and the sentence's place in the batch, so every device
and every resumed run draws the same parts. A sentence of one token is both of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from banyan.config import Config
from banyan.model.dropout import RIGHT_MESSAGE, Dropout, mix
from banyan.model.graph import runs_of_tokens

STREAM = RIGHT_MESSAGE + 1  # random numbers of a step, beside those of its dropout


class Cut(NamedTuple):
    """How the sentences of a batch are cut."""

    smallest: float  # the smallest share of a sentence that a part may have
    whole: bool  # whether the sentences themselves are in the batch too

    @property
    def texts(self) -> int:
        """The texts in a batch for each sentence."""
        return 3 if self.whole else 2


def cut(config: Config) -> Cut | None:
    """How sentences are cut under these settings; None if they are not."""
    return Cut(config.infonce_min_part, config.needs_sentences) if config.infonce_weight else None


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
    starts: np.ndarray, lengths: np.ndarray, dropouts: Sequence[Dropout], smallest: float, whole: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of batches of passages [steps, B], followed by those of all first and of all second parts
    [steps, 3·B]. Without whole, only those of the parts [steps, 2·B]."""
    begin, size = draw(lengths, dropouts, smallest)
    begin += starts[:, None]
    begin, size = begin.reshape(len(lengths), -1), size.reshape(len(lengths), -1)
    return (np.hstack([starts, begin]), np.hstack([lengths, size])) if whole else (begin, size)


def batch_with_crops(
    tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout, smallest: float, whole: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """A ragged batch of B sentences (without whole, none), then their B first parts, then their B second parts."""
    starts, lengths = with_crops(offsets[None, :-1], np.diff(offsets)[None], [dropout], smallest, whole)
    return runs_of_tokens(tokens, starts[0], lengths[0])
