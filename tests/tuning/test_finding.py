"""How well a model finds the second texts of held-out examples."""

from __future__ import annotations

import numpy as np
import pytest

from banyan.config import Config
from banyan.support.rows import normalize_rows
from banyan.tuning import finding
from banyan.tuning.batches import prepared
from banyan.tuning.examples import Examples
from tests.helpers.models import tiny_model

NOBODY = Examples.of([], [])


def test_ndcg_ranks_the_own_second_text_among_those_that_do_not_belong_to_the_first():
    cosines = np.array([[0.9, 0.1, 0.2], [0.8, 0.5, 0.6], [0.3, 0.4, 0.2]])
    left_out = np.zeros((3, 3), bool)
    assert finding.ndcg(cosines, left_out).tolist() == pytest.approx([1, 0.5, 0.5])
    left_out[1, 0] = True
    assert finding.ndcg(cosines, left_out).tolist() == pytest.approx([1, 1 / np.log2(3), 0.5])
    assert finding.ndcg(-np.arange(11)[:, None] * np.ones(11), ~np.eye(11, dtype=bool)).tolist() == [1] * 11


class Informed:
    """A model whose learned part is noise for some texts, and whose lexical part tells which texts belong together."""

    def __init__(self, lexical_weight: float, noise: float) -> None:
        self.config = Config(dim=16, channels=8, lexical_dim=64, lexical_weight=lexical_weight)
        self.noise = noise

    def encode_tokens(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        rng, n = np.random.default_rng(0), (len(offsets) - 1) // 2
        lexical = np.tile(rng.standard_normal((n, 64)), (2, 1)) + self.noise * rng.standard_normal((2 * n, 64))
        learned = rng.standard_normal((2 * n, 16))
        return np.hstack([normalize_rows(learned), self.config.lexical_weight * normalize_rows(lexical)])


def test_the_lexical_weight_changes_only_if_another_one_is_clearly_better():
    words = [f"{a} {b}" for a in "cat dog sat mat runs".split() for b in "green tree house slowly over".split()]
    held_out = prepared(Examples.of(words, [f"the {word}" for word in words]), NOBODY, tiny_model().tokenizer, 512)[0]
    found = finding.figure(Informed(0.3, 0.1), held_out)
    assert found.lexical_weight > 0.5
    assert found.outcome.value > finding.figure(Informed(0.3, 50.0), held_out).outcome.value + 50
    assert finding.figure(Informed(0.3, 50.0), held_out).lexical_weight == 0.3


def test_scores_choose_the_lexical_weight_too():
    words = [f"{a} {b}" for a in "cat dog sat mat runs".split() for b in "green tree house slowly over".split()]
    score = np.zeros(25)
    score[::2] = 1  # Informed gives every second text the lexical part of its first; here, only some have it
    pairs = Examples.of(words, [f"the {word}" for word in words], score=score)
    held_out = prepared(pairs, NOBODY, tiny_model().tokenizer, 512)[0]
    informed = Informed(0.1, 0.1)
    encode = informed.encode_tokens

    def some_apart(tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        vectors = encode(tokens, offsets)
        vectors[26::2, 16:] *= -1
        return vectors

    informed.encode_tokens = some_apart
    found = finding.figure(informed, held_out)
    assert (found.outcome.metric, round(found.outcome.value)) == (finding.SPEARMAN, 87)  # the ranks of two values tie
    assert found.lexical_weight > 0.5
