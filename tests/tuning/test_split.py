"""Hold-out by group: never the same text on both sides, whatever links the examples."""

from __future__ import annotations

import numpy as np
import pytest

from banyan.tuning.examples import Examples, paired_by_label
from banyan.tuning.split import halved, split


def texts_of(examples: Examples) -> set[str]:
    return {*examples.first, *examples.second, *(examples.negative or ())} - {""}


def chained(n: int) -> Examples:
    """Chains of three examples: a-b, c-b, c-d."""
    first = [f"{'acc'[i % 3]}{i // 3}" for i in range(n)]
    return Examples.of(first, [f"{'bbd'[i % 3]}{i // 3}" for i in range(n)])


def test_whole_groups_are_held_out():
    examples = chained(300)
    train, held_out = split(examples, seed=0)
    assert len(train) + len(held_out) == 300
    assert len(held_out) == 30
    assert not texts_of(train) & texts_of(held_out)
    assert not set(train.group.tolist()) & set(held_out.group.tolist())


def test_the_seed_decides_which():
    examples = chained(300)
    chosen = [split(examples, seed)[1].first for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_at_most_so_many_are_held_out():
    examples = chained(300)
    assert len(split(examples, 0, most=12)[1]) == 12
    assert len(split(examples, 0, most=2)[1]) == 0  # a group of three is not divided
    assert len(split(examples, 0, share=0.5)[1]) == 150


def test_examples_that_measure_share_no_text_with_those_that_choose():
    choosing, measuring = halved(chained(600), seed=0)
    assert (len(choosing), len(measuring)) == (300, 300)
    assert not texts_of(choosing) & texts_of(measuring)
    texts = [f"text {i}" for i in range(600)]
    choosing, measuring = halved(paired_by_label(texts, np.arange(600) % 7)[0], seed=0)
    assert len(measuring) >= 100
    assert not texts_of(choosing) & texts_of(measuring)


def test_few_held_out_examples_choose_and_measure():
    few = chained(300)
    assert halved(few, seed=0) == (few, few)
    linked = Examples.of(["a"] * 500, [f"text {i}" for i in range(500)])  # cannot be divided
    assert halved(linked, seed=0) == (linked, linked)


@pytest.mark.parametrize("n", [1, 2, 29])
def test_nothing_is_held_out_of_few_examples(n):
    train, held_out = split(chained(n), 0)
    assert (len(train), len(held_out)) == (n, 0)
    labelled, _ = paired_by_label([f"text {i}" for i in range(n)], np.zeros(n, np.int64))
    assert len(split(labelled, 0)[1]) == 0


def test_of_some_examples_enough_are_held_out_to_measure():
    assert len(split(chained(30), 0)[1]) == 9  # groups of three


def test_a_frequent_text_that_links_everything_stays_in_training():
    rng = np.random.default_rng(0)
    first = [f"title {i}" for i in range(200)] + [f"title {i}" for i in rng.permutation(200)[:150]]
    second = [f"body {i}" for i in range(200)] + ["No description."] * 150
    examples = Examples.of(first, second)
    assert np.bincount(examples.group).max() == 300
    train, held_out = split(examples, 0)
    assert len(held_out) == 35
    assert not texts_of(train) & texts_of(held_out)
    assert "No description." not in texts_of(held_out)
    assert len(train) >= 350 - 2 * 35


def test_nothing_is_held_out_if_every_example_has_a_frequent_text():
    examples = Examples.of([f"question {i}" for i in range(100)], ["yes", "no"] * 50)
    train, held_out = split(examples, 0)
    assert (len(train), len(held_out)) == (100, 0)


def test_a_negative_from_the_other_side_is_removed():
    n = 200
    pairs = [f"a{i}" for i in range(n)], [f"b{i}" for i in range(n)]
    train, held_out = split(Examples.of(*pairs, negative=[f"b{(i + 1) % n}" for i in range(n)]), 0)
    assert len(train) + len(held_out) == n
    assert len(held_out) == 20
    assert not texts_of(train) & texts_of(held_out)
    assert train.negative.count("") <= 20


def test_texts_that_differ_only_in_case_are_on_one_side():
    first, second = [f"a{i}" for i in range(200)], [f"b{i}" for i in range(200)]
    train, held_out = split(Examples.of([*first, *map(str.upper, first)], [*second, *second]), 0)
    assert held_out
    assert not {text.lower() for text in texts_of(train)} & {text.lower() for text in texts_of(held_out)}


@pytest.mark.parametrize(("labels", "held"), [(4, 40), (80, 40), (200, 40)])
def test_pairs_by_label_are_held_out_by_text(labels, held):
    n = 400
    examples, _ = paired_by_label([f"text {i}" for i in range(n)], np.arange(n) % labels)
    train, held_out = split(examples, 0)
    assert (len(train), len(held_out)) == (n - held, held)
    assert not texts_of(train) & texts_of(held_out)
    if labels < 100:
        assert set(held_out.label.tolist()) <= set(train.label.tolist())
