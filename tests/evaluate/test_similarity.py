"""Spearman of cosines: what scipy says, with and without ties, and quick enough to be drawn a thousand times."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from banyan.errors import BanyanError
from banyan.evaluate.similarity import Pairs, ranks, read_pairs, rho, similarity, spearman

VECTORS = np.random.default_rng(0).normal(size=(60, 8))


def encode(texts):
    return VECTORS[[int(text) for text in texts]]


def some_pairs(n: int = 300, seed: int = 1) -> Pairs:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, len(VECTORS), (2, n)).astype(str).tolist()
    return Pairs(first, second, rng.integers(0, 6, n) / 2)  # people's scores are full of ties


def cosines(pairs: Pairs) -> np.ndarray:
    a, b = encode(pairs.first), encode(pairs.second)
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


@given(st.lists(st.tuples(st.integers(-4, 4), st.floats(-3, 3)), min_size=2, max_size=40))
@settings(deadline=None, max_examples=200)
def test_rho_and_ranks_are_those_of_scipy(rows):
    items = np.array(rows, float)
    for column in items.T:
        np.testing.assert_array_equal(ranks(column), stats.rankdata(column))
    if np.ptp(items[:, 0]) == 0 or np.ptp(items[:, 1]) == 0:
        assert rho(items) == 0
    else:
        assert rho(items) == pytest.approx(100 * stats.spearmanr(*items.T).statistic, abs=1e-9)


def test_similarity_is_the_correlation_of_cosines_with_scores():
    pairs = some_pairs()
    outcome = similarity(encode, pairs, "mine")
    assert (outcome.task, outcome.metric, outcome.n) == ("mine", "spearman", 300)
    np.testing.assert_allclose(outcome.items, np.column_stack([pairs.score, cosines(pairs)]), rtol=1e-6)
    expected = stats.spearmanr(cosines(pairs).astype(np.float32), pairs.score).statistic
    assert outcome.value == pytest.approx(100 * expected)
    assert spearman(encode, pairs) == outcome.value


def test_pairs_of_equal_texts_tie():
    texts = [str(i) for i in range(len(VECTORS))]
    outcome = similarity(encode, Pairs(texts, texts, np.arange(60.0)), "mine")
    assert set(outcome.items[:, 1]) == {1.0}
    assert outcome.value == 0


def test_a_thousand_draws_of_the_largest_set_take_seconds():
    rng = np.random.default_rng(2)
    outcome = similarity(encode, some_pairs(5500), "semrel")
    outcome.items[:, 1] = rng.normal(size=5500)  # no ties: the slower case
    started = time.perf_counter()
    interval = outcome.interval()
    assert time.perf_counter() - started < 10
    assert interval.low < outcome.value < interval.high


def test_what_is_constant_ranks_nothing():
    pairs = some_pairs()
    assert spearman(lambda texts: np.ones((len(texts), 3)), pairs) == 0
    assert spearman(lambda texts: np.zeros((len(texts), 3)), pairs) == 0
    assert spearman(encode, pairs._replace(score=np.ones(300))) == 0


def test_a_model_of_nan_has_no_figure():
    pairs = some_pairs()
    broken = lambda texts: np.full((len(texts), 3), np.nan)  # noqa: E731
    assert math.isnan(spearman(broken, pairs))
    with pytest.raises(BanyanError, match="mine: the model returned embeddings that are not finite"):
        similarity(broken, pairs, "mine")


def test_pairs_are_read_with_and_without_header_and_errors_name_the_line(tmp_path):
    (tmp_path / "a.csv").write_text('sent1,sent2,score,label\n"one, two",b,3.5,1\nc,d,-1,0\n')
    assert read_pairs(tmp_path / "a.csv")[:2] == (["one, two", "c"], ["b", "d"])
    (tmp_path / "b.txt").write_text('say "hi\tb\t1\nc\td\t2\n')
    assert read_pairs(tmp_path / "b.txt").first == ['say "hi', "c"]
    (tmp_path / "d.tsv").write_text("id\tgenre\tscore\tSentence 1\tsentence_2\n7\tnews\t2.5\ta\tb\n8\tnews\t3\tc\td\n")
    assert read_pairs(tmp_path / "d.tsv")[:2] == (["a", "c"], ["b", "d"])
    assert read_pairs(tmp_path / "d.tsv").score.tolist() == [2.5, 3]
    (tmp_path / "e.tsv").write_text("1\ta\tb\t2\n2\tc\td\t3\n")
    with pytest.raises(BanyanError, match=r"e\.tsv, line 2: .*a first line of sentence1, sentence2 and score"):
        read_pairs(tmp_path / "e.tsv")
    (tmp_path / "c.tsv").write_text("a\tb\t1\nc\td\tmuch\n")
    with pytest.raises(BanyanError, match=r"c\.tsv, line 2: expected two texts and a finite number"):
        read_pairs(tmp_path / "c.tsv")
