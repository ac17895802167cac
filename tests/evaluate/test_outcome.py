"""Bootstrap intervals of a figure, and of the difference of two models on the same items."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome, mean


def of(values, task="t") -> Outcome:
    return Outcome(task, "mean", np.asarray(values, float), lambda items: float(items.mean()))


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        interval = of(rng.normal(3, 1, 60)).interval()
        covered += interval.low <= 3 <= interval.high
    assert 88 <= covered <= 99


def test_an_interval_is_about_as_wide_as_theory_says():
    values = np.random.default_rng(1).normal(0, 1, 400)
    interval = of(values).interval()
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_pairing_takes_away_what_is_hard_for_both():
    rng = np.random.default_rng(2)
    hard = rng.normal(0, 10, 200)
    ours, theirs = of(hard + 1 + rng.normal(0, 0.5, 200)), of(hard)
    difference, interval = ours.difference(theirs)
    assert difference == pytest.approx(1, abs=0.2)
    assert 0.8 < interval.low < interval.high < 1.2
    alone = ours.interval()
    assert alone.high - alone.low > 2


def test_a_correlation_is_drawn_by_pairs():
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    items = np.stack([x, x + rng.normal(size=300)], 1)
    outcome = Outcome("t", "spearman", items, lambda i: float(stats.spearmanr(i[:, 0], i[:, 1]).statistic))
    interval = outcome.interval()
    assert interval.low < outcome.value < interval.high
    assert interval.high - interval.low < 0.25


def test_the_mean_of_sets_is_surer_than_each():
    rng = np.random.default_rng(4)
    sets = [of(rng.normal(i, 1, 100), f"t{i}") for i in range(4)]
    value, interval = mean(sets)
    assert value == pytest.approx(np.mean([s.value for s in sets]))
    alone = sets[0].interval()
    assert interval.high - interval.low < 0.7 * (alone.high - alone.low)


def test_the_same_seed_draws_the_same_and_other_sets_are_not_compared():
    outcome = of(np.arange(50))
    assert outcome.interval() == outcome.interval()
    assert outcome.interval() != outcome.interval(seed=1)
    with pytest.raises(BanyanError, match="cannot be compared"):
        outcome.difference(of(np.arange(49)))
