"""Pairs of words: scores are numbers, and a word is a text."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from banyan.errors import BanyanError
from banyan.evaluate.word_similarity import word_similarity

ANGLE = {"a": 0.0, "b": 0.4, "c": 1.1, "d": 1.9, "e": 2.6, "ice cream": 3.0}


def encode(texts):
    return np.array([[np.cos(ANGLE[text]), np.sin(ANGLE[text])] for text in texts])


LINES = ["a\tb\t10.0", "a\tc\t9.5", "a\td\t-2", "a\te\t0.31", "a\tice cream\t1.58"]


@pytest.mark.parametrize("header", ["", "word1\tword2\tscore\n"])
def test_scores_are_numbers_not_text(tmp_path, header):
    (tmp_path / "list.txt").write_text(header + "\n".join(LINES) + "\n")
    outcome = word_similarity(encode, tmp_path / "list.txt", "mine")
    scores = [float(line.split("\t")[2]) for line in LINES]
    cosines = np.cos([ANGLE[line.split("\t")[1]] for line in LINES])
    assert outcome.value == pytest.approx(100 * stats.spearmanr(scores, cosines).statistic)
    as_text = stats.spearmanr(stats.rankdata(np.argsort(np.argsort([str(score) for score in scores]))), cosines)
    assert outcome.value != pytest.approx(100 * as_text.statistic)  # "10.0" < "9.5"
    assert (outcome.task, outcome.metric, outcome.n) == ("mine", "spearman", 5)


def test_a_list_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(BanyanError, match=r"cannot read pairs from .*none\.tsv"):
        word_similarity(encode, tmp_path / "none.tsv", "mine")
