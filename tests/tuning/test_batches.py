"""Batches of examples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from banyan import BanyanError
from banyan.tuning import mining
from banyan.tuning.batches import NONE, prepared
from banyan.tuning.examples import Examples, paired_by_label
from banyan.tuning.mining import hard_negatives
from banyan.tuning.reading import read_examples
from tests.helpers.models import tiny_model

NOBODY = Examples.of([], [])


def batches(*columns: list[str], **more):
    return prepared(Examples.of(*columns, **more), NOBODY, tiny_model().tokenizer, 512)[0]


def left_out(made) -> set[tuple[int, int]]:
    return {(int(row), int(column)) for row, column in zip(*np.nonzero(made.left_out()), strict=True)}


def test_texts_are_first_texts_then_second_texts_then_negatives():
    made = batches(["a cat", "a dog"], ["the cat", "the dog"], ["", "a tree"])
    offsets = np.asarray(made.store.offsets)
    tokens, ends = made.batch()
    expected = [tiny_model().tokenizer.encode([text])[0] for text in ("a cat", "a dog", "the cat", "the dog", "a tree")]
    assert [tokens[a:b].tolist() for a, b in pairwise(ends)] == [row.tolist() for row in expected]
    assert made.counts.tolist() == [2, 3]
    assert len(offsets) == 6


def test_texts_that_belong_together_by_another_example_are_no_negatives():
    #                       0      1      2      3      4
    made = batches(["cat", "cat", "dog", "mat", "sat"], ["tree", "house", "house", "cat", "green"])
    # cat has tree, house and (as a second text) mat; dog has house. Nothing links sat with the others.
    assert left_out(made) == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 1), (0, 3), (1, 3)}
    assert left_out(made[np.array([4, 2])]) == set()


def test_links_count_when_the_example_that_makes_them_is_in_another_batch():
    made = batches(["cat", "cat", "dog"], ["tree", "house", "house"])
    assert left_out(made[np.array([0, 2])]) == {(0, 1)}  # cat and house are example 1


def test_a_negative_that_belongs_to_a_first_text_is_left_out():
    made = batches(["cat", "dog"], ["tree", "house"], ["mat", "tree"])
    assert left_out(made) == {(0, 3)}


def test_texts_that_differ_only_in_case_are_one_text():
    made = batches(["a cat", "A Cat", "the mat"], ["a dog", "a house", "A DOG"], ["", "", "A HOUSE"])
    # Both cats have the dog and the house; the mat has the dog.
    assert left_out(made) == {(0, 1), (1, 0), (0, 2), (1, 2), (2, 0), (0, 3), (1, 3)}


def test_a_text_with_two_labels_has_no_negatives_of_either():
    rows = {"text": ["cat", "dog", "cat", "mat", "house", "tree"], "label": list("aabbcc")}
    for source in (rows, {"text": ["cat", "dog", "mat", "house", "tree"], "label": [["a", "b"], "a", "b", "c", "c"]}):
        examples = read_examples(source).examples
        made = prepared(examples, NOBODY, tiny_model().tokenizer, 512)[0]
        labels = {"cat": "ab", "dog": "a", "mat": "b", "house": "c", "tree": "c"}
        expected = {
            (row, column)
            for row, text in enumerate(examples.first)
            for column, other in enumerate(examples.second)
            if row != column and set(labels[text]) & set(labels[other])
        }
        assert left_out(made) == expected


def test_texts_of_one_label_are_no_negatives():
    examples, _ = paired_by_label(["cat", "dog", "mat", "tree", "house", "sat"], np.array([0, 0, 0, 1, 1, 1]))
    made = prepared(examples, NOBODY, tiny_model().tokenizer, 512)[0]
    label = examples.label
    expected = (label[:, None] == label) & ~np.eye(6, dtype=bool)
    assert np.array_equal(made.left_out(), expected)


def test_examples_without_tokens_are_dropped_and_long_texts_are_cut():
    examples = Examples.of(["cat", " ", "mat"], ["the cat sat on the mat " * 20, "dog", "house"])
    made = prepared(examples, NOBODY, tiny_model().tokenizer, 7)[0]
    assert made.indices.tolist() == [0, 2]
    assert made.spans()[1].max() == 7
    with pytest.raises(BanyanError, match="nothing to tune on"):
        prepared(Examples.of(["", "cat"], ["dog", " "]), NOBODY, tiny_model().tokenizer, 7)


def test_hard_negatives_are_similar_second_texts_that_do_not_belong_to_the_first(monkeypatch):
    model = tiny_model()
    texts = ["the cat sat", "a dog slept", "a mat", "green house", "tree runs", "slowly under", "quickly over"]
    made = batches(texts[:-1], texts[1:])  # each is linked with the next, so all are
    assert (hard_negatives(model, made, 2, 0, 0) == NONE).all()
    made = batches(texts[:3], texts[3:6])
    monkeypatch.setattr(mining, "MARGIN", -3.0)
    found = hard_negatives(model, made, 1, 0, 0)
    cosines = model.similarity(texts[:3], texts[3:6])
    np.fill_diagonal(cosines, -np.inf)
    assert found[:, 0].tolist() == made.table[cosines.argmax(1), 1].tolist()
    monkeypatch.setattr(mining, "MARGIN", 3.0)
    assert (hard_negatives(model, made, 2, 0, 0) == NONE).all()
    assert made.with_negatives(found).texts().tolist() == [*made.texts(), *found[:, 0]]
