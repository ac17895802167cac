"""Two crops of every sentence of a batch, which are to find each other by their roots (objective.agreement).

A crop is a run of its sentence's tokens. Where it begins and ends is a function of the seed, the step, the place of the
sentence in the batch, and whether it is the first or the second: every device draws the same, a resumed run too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from banyan.config import Config
from banyan.graph import runs_of_tokens
from banyan.reference import RIGHT_MESSAGE, Dropout, mix

FIRST, SECOND = RIGHT_MESSAGE + 1, RIGHT_MESSAGE + 2  # streams of a step, beside those of its dropout


class Cut(NamedTuple):
    """How sentences are cropped: the least share of a sentence that a crop is (a token at least), and whether the two
    are its parts, before and after a place in it. Of a sentence of one token, both are that."""

    shortest: float
    parts: bool = False


def cut_of(config: Config) -> Cut | None:
    return Cut(config.crop_shortest, config.crop_kind == "parts") if config.crops else None


def draw(lengths: np.ndarray, dropouts: Sequence[Dropout], cut: Cut) -> tuple[np.ndarray, np.ndarray]:
    """Of sentences of these lengths [steps, B], where in them their crops begin, and how long they are [steps, 2, B].

    dropouts: of each step, whose seed and number they have."""
    streams = np.array([[dropout.stream(FIRST), dropout.stream(SECOND)] for dropout in dropouts], np.uint64)
    bits = mix(streams[:, :, None] + np.arange(lengths.shape[1], dtype=np.uint64))
    length = lengths[:, None].astype(np.uint64)
    least = np.maximum(np.ceil(cut.shortest * length), 1).astype(np.uint64)
    if cut.parts:
        return _parts(lengths, least[:, 0], bits[:, 0])
    size = least + _below(length - least + 1, bits & 0xFFFFFFFF)
    begin = _below(length - size + 1, bits >> 32)
    return begin.astype(np.int64), size.astype(np.int64)


def _parts(lengths: np.ndarray, least: np.ndarray, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    length = lengths.astype(np.uint64)
    least = np.maximum(np.minimum(least, length // 2), 1)
    first = (least + _below(length + 1 - 2 * least, bits & 0xFFFFFFFF)).astype(np.int64)
    begin = np.where(lengths > 1, first, 0)
    return np.stack([np.zeros_like(begin), begin], 1), np.stack([first, lengths - begin], 1)


def _below(n: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """32 random bits as a number below n, each about as likely."""
    return bits * n >> 32


def with_crops(
    starts: np.ndarray, lengths: np.ndarray, dropouts: Sequence[Dropout], cut: Cut
) -> tuple[np.ndarray, np.ndarray]:
    """Where batches of sentences [steps, B] begin and how long they are; after them their first crops, and then their
    second ones [steps, 3·B]."""
    begin, size = draw(lengths, dropouts, cut)
    begin += starts[:, None]
    steps = len(lengths)
    return np.hstack([starts, begin.reshape(steps, -1)]), np.hstack([lengths, size.reshape(steps, -1)])


def batch_with_crops(
    tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout, cut: Cut
) -> tuple[np.ndarray, np.ndarray]:
    """A ragged batch with its crops: B sentences, then B first crops, then B second ones."""
    starts, lengths = with_crops(offsets[None, :-1], np.diff(offsets)[None], [dropout], cut)
    return runs_of_tokens(tokens, starts[0], lengths[0])
