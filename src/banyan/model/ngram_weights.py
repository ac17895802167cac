"""The weights of the n-grams of words (banyan.model.word_ngrams), learned in tuning.

A weight is learned as a factor exp(RATE · s). BanyanModel.lexical_scale holds s for each bucket of n-grams.
The sketch of a text is the sum of its n-grams, as it is in encoding, but without the rotation, which cosines do not
depend on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from banyan.model.graph import KEPT
from banyan.model.word_ngrams import DIGITS, Spelling, Words, bucket, changes, ngrams, number, words
from banyan.support.needs import needs

RATE = 4.0  # weights learn faster than token vectors, by this factor
LARGEST = 255  # of a stored weight


class Hashed(NamedTuple):
    """The n-grams of a batch of texts. Those of a text that are equal are one."""

    place: Tensor  # int64 [N]: row · D + column of the sketches
    bucket: Tensor  # int64 [N]
    times: Tensor  # float32 [N]: how often, with the sign
    texts: int


class NgramCounts:
    """The n-grams of many texts, found once."""

    def __init__(
        self, tokens: np.ndarray, offsets: np.ndarray, spelt: Spelling, dim: int, sublinear_tf: bool
    ) -> None:
        with needs("Tuning", "train"):
            from scipy.sparse import csr_matrix

        self.dim = dim
        found = words(tokens, offsets, spelt)
        _, chosen, word = np.unique(found.key, return_index=True, return_inverse=True)
        distinct = Words(*(of_words[chosen] for of_words in found))
        these = ngrams(tokens, distinct, spelt)
        numbers = np.flatnonzero(distinct.kind == DIGITS)
        hashes = np.append(these.hash, number(distinct.value[numbers]))
        hashes, ngram = np.unique(hashes, return_inverse=True)
        self._bucket = bucket(hashes)
        self._column, sign = changes(hashes, dim)
        times = np.append(np.ones(len(these.hash)), np.full(len(numbers), 1.5)) * sign[ngram]
        shape = len(chosen), len(hashes)
        self._of_word = csr_matrix((times.astype(np.float32), (np.append(these.word, numbers), ngram)), shape)
        text = np.searchsorted(offsets, found.first, "right") - 1
        pairs, count = np.unique(text * len(chosen) + word, return_counts=True)
        kept = np.searchsorted(KEPT, count, "right") if sublinear_tf else count
        which = np.divmod(pairs, max(len(chosen), 1))
        self._in_text = csr_matrix((kept.astype(np.float32), which), (len(offsets) - 1, len(chosen)))

    def of(self, texts: np.ndarray, device: torch.device) -> Hashed:
        """The n-grams of a batch of these texts."""
        found = self._in_text[texts] @ self._of_word
        row = np.repeat(np.arange(len(texts)), np.diff(found.indptr))
        place = row * self.dim + self._column[found.indices]
        buckets = self._bucket[found.indices]
        sent = [torch.tensor(array, device=device) for array in (place, buckets, found.data)]
        return Hashed(sent[0], sent[1], sent[2], len(texts))


def factors(scale: Tensor) -> Tensor:
    return (RATE * scale).exp()


def sketches(hashed: Hashed, weights: Tensor, scale: Tensor, dim: int) -> Tensor:
    """The sketches of texts, of norm 1 [texts, D]. weights: before they are scaled [BUCKETS]."""
    values = hashed.times * (weights * factors(scale)).index_select(0, hashed.bucket)
    sums = torch.zeros(hashed.texts * dim, device=values.device).index_add(0, hashed.place, values)
    return normalize(sums.view(hashed.texts, dim))


def stored(weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The scaled weights as a model stores them, uint8 [BUCKETS]. Only their ratios matter."""
    if not scale.any():
        return weights
    scaled = weights * factors(torch.from_numpy(scale)).numpy()
    return np.rint(scaled * (LARGEST / scaled.max())).astype(np.uint8)
