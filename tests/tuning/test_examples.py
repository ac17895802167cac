"""Examples: groups of linked examples, pairs by label."""

from __future__ import annotations

import numpy as np

from banyan.tuning.examples import Examples, paired_by_label


def test_a_group_is_what_equal_texts_link_directly_or_in_a_chain():
    examples = Examples.of(["a", "c", "c", "x", "q"], ["b", "b", "d", "y", "a"], score=[0, 1, 2, 3, 4])
    same = examples.group[:, None] == examples.group[None]
    expected = np.zeros((5, 5), bool)
    expected[np.ix_([0, 1, 2, 4], [0, 1, 2, 4])] = expected[3, 3] = True
    assert (same == expected).all()
    assert len(Examples.of([], [])) == 0


def test_some_of_the_examples_keep_their_groups():
    examples = Examples.of(["a", "b", "c"], ["x", "x", "z"], ["n", "", "m"], np.array([1, 2, 3]))
    some = examples[np.array([2, 1])]
    assert (some.first, some.second, some.negative) == (["c", "b"], ["z", "x"], ["m", ""])
    assert some.score.tolist() == [3, 2]
    assert some.score.dtype == np.float64
    assert some.group.tolist() == examples.group[[2, 1]].tolist()
    assert examples[:2].first == examples[np.array([True, True, False])].first == ["a", "b"]


def test_each_text_is_paired_once_with_another_of_its_label():
    texts = [f"{label} {i}" for i in range(20) for label in ("x", "y")] + ["alone", "x 0"]
    labels = np.array([0, 1] * 20 + [2, 0])
    examples, left_out = paired_by_label(texts, labels)
    assert sorted(examples.first) == sorted(examples.second) == sorted(texts[:40])
    assert left_out == 2  # the only text of its label, and a repeated row
    assert all(a != b and a[0] == b[0] for a, b in zip(examples.first, examples.second, strict=True))
    assert [texts[0][0], texts[1][0]] == ["x", "y"]
    assert examples.label[:2].tolist() == [0, 1]
    assert len(set(examples.group.tolist())) == 2
    assert paired_by_label(texts, labels)[0].second == examples.second
