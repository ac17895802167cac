"""The share of vectors beside words in a search, chosen on held-out examples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from banyan.config import Config
from banyan.tuning.examples import Examples
from banyan.tuning.sharing import SHARES, vectors_share

N = 60
FIRST, SECOND = ([f"{side} {'abcdefgh'[i % 8]}{'klmnopqr'[i // 8]}" for i in range(N)] for side in ("query", "reply"))
APART = [f"word{i}" for i in range(N)]


def model(second: list[str], cosine: float, share: float = 0.5) -> SimpleNamespace:
    """A model in which texts that belong together have this cosine, and others one of 0."""
    row_of = {text: row for texts in (FIRST, second) for row, text in enumerate(texts)}

    def encode(texts):
        vectors = np.zeros((len(texts), 3 * N), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            vector[row_of[text]] = np.sqrt(cosine)
            vector[row_of[text] + (N if text in FIRST else 2 * N)] = np.sqrt(1 - cosine)
        return vectors

    return SimpleNamespace(encode=encode, config=Config(vectors_share=share))


def test_words_keep_half_where_both_find_everything():
    assert vectors_share(model(SECOND, 0.9), Examples.of(FIRST, SECOND)) == 0.5


def test_vectors_get_as_much_as_they_need_to_win_over_misleading_words():
    misleading = SECOND[1:] + SECOND[:1]  # each query has the second word of another's reply
    share = vectors_share(model(misleading, 0.4), Examples.of(FIRST, misleading))
    assert share == SHARES[-1]
    assert share > vectors_share(model(misleading, 0.6), Examples.of(FIRST, misleading)) > SHARES[0]


@pytest.mark.parametrize(
    "examples",
    [
        Examples.of(FIRST, APART, score=np.linspace(0, 1, N)),
        Examples.of(FIRST[:1], APART[:1]),
        Examples.of(["...", "!", "?"], [".", ",", ";"]),
    ],
)
def test_a_share_that_cannot_be_chosen_stays(examples):
    known = SimpleNamespace(encode=lambda texts: np.ones((len(texts), 3), np.float32), config=Config(vectors_share=0.3))
    assert vectors_share(known, examples) == 0.3
