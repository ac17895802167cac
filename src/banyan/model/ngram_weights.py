"""The weights of the n-grams of words (banyan.model.word_ngrams), learned in tuning.

A weight is learned as a factor exp(RATE · s). BanyanModel.lexical_scale holds s for each bucket of n-grams.
The sketch of a text is the sum of its n-grams or the roots of these sums, as it is in encoding, but without the
rotation, which cosines do not depend on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from banyan.model.word_ngrams import Spelling

RATE = 4.0  # weights learn faster than token vectors, by this factor
LARGEST = 255  # of a stored weight


class Hashed(NamedTuple):
    """The n-grams of a batch of texts."""

    place: Tensor  # int64 [N]: row · D + column of the sketches
    bucket: Tensor  # int64 [N]
    times: Tensor  # float32 [N]: the share of their weight that counts, with the sign
    texts: int


def hashed(
    tokens: np.ndarray, offsets: np.ndarray, spelt: Spelling, dim: int, sublinear_tf: bool, device: torch.device
) -> Hashed:
    """The n-grams of a batch of texts."""
    from banyan.backends._numba.word_ngrams import listed

    found = torch.from_numpy(listed(tokens, offsets, spelt, dim, sublinear_tf)).to(device)
    return Hashed(found[0].long(), found[1].long(), found[2] / 2, len(offsets) - 1)


def factors(scale: Tensor) -> Tensor:
    return (RATE * scale).exp()


def sketches(hashed: Hashed, weights: Tensor, scale: Tensor, dim: int, root: bool) -> Tensor:
    """The sketches of texts, of norm 1 [texts, D]. weights: before they are scaled [BUCKETS]. root: of the sums."""
    values = hashed.times * (weights * factors(scale)).index_select(0, hashed.bucket)
    sums = torch.zeros(hashed.texts * dim, device=values.device).index_add(0, hashed.place, values)
    if root:
        sums = sums * sums.abs().clamp(min=1).rsqrt()  # sums are whole numbers when a text is encoded
    return normalize(sums.view(hashed.texts, dim))


def stored(weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The scaled weights as a model stores them, uint8 [BUCKETS]. Only their ratios matter."""
    if not scale.any():
        return weights
    scaled = weights * factors(torch.from_numpy(scale)).numpy()
    with np.errstate(invalid="ignore"):  # NaN, if training went wrong: then the scale is not saved
        return np.rint(scaled * (LARGEST / scaled.max())).astype(np.uint8)
