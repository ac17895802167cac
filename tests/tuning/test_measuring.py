"""Whether tuning paid: figures with known answers, and the sentence that says what won."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from banyan.baselines.bm25 import Bm25, Collection
from banyan.config import Config
from banyan.errors import BanyanError
from banyan.evaluate import outcome
from banyan.tuning import measuring
from banyan.tuning.examples import Examples, paired_by_label
from banyan.tuning.measuring import BEFORE, BM25, BOTH_TUNED, CHARACTERS, TUNED, VectorsAndWords, measure

N = 40
FIRST, SECOND = ([f"{side} {'abcdefgh'[i % 8]}{'klmno'[i // 8]}" for i in range(N)] for side in ("query", "reply"))
APART = [f"word{i}" for i in range(N)]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(outcome, "RESAMPLES", 50)


def knowing(*columns: list[str]) -> SimpleNamespace:
    """A model that gives the texts in the same row of these columns the same vector, and others random ones."""
    row_of = {text: row for texts in columns for row, text in enumerate(texts)}
    vectors = np.random.default_rng(0).standard_normal((N, 64))

    def encode(texts):
        known = [vectors[row_of[text]] if text in row_of else None for text in texts]
        ignorant = np.random.default_rng(len(texts[0]))
        return np.array([ignorant.standard_normal(64) if vector is None else vector for vector in known], np.float32)

    return SimpleNamespace(encode=encode, config=Config())


def values(measured, system: str) -> dict[str, float]:
    return {metric: round(outcome.value, 1) for metric, outcome in measured.systems[system].items()}


def test_each_first_text_is_searched_among_all_second_texts():
    measured = measure(knowing(), knowing(FIRST, APART), Examples.of(FIRST, APART))
    assert values(measured, TUNED) == {"R@1": 100, "R@10": 100, "nDCG@10": 100}
    assert values(measured, BEFORE)["nDCG@10"] < 30
    assert values(measured, BM25)["R@1"] < 30  # no word in common
    assert measured.verdict.startswith("Tuning raised nDCG@10 of the vectors from ")
    assert "Highest are the tuned vectors with nDCG@10 100.0, though not clearly, ahead of vectors" in measured.verdict
    line = next(line for line in measured.table.lines if (line.group, line.metric) == (TUNED, "R@1"))
    assert line.difference.low > 50


def test_words_that_win_are_said_to_win():
    measured = measure(knowing(FIRST, SECOND), knowing(), Examples.of(FIRST, SECOND))
    assert values(measured, BM25)["R@1"] == values(measured, CHARACTERS)["R@1"] == 100
    assert "Tuning lowered nDCG@10 of the vectors from 100.0 to " in measured.verdict
    assert "Best are words alone (BM25) with nDCG@10 100.0, ahead of vectors and words together" in measured.verdict
    same = measure(knowing(FIRST, SECOND), knowing(FIRST, SECOND), Examples.of(FIRST, SECOND)).verdict
    assert "did not clearly change nDCG@10 of the vectors: from 100.0 to 100.0 (+0.0" in same
    assert "Highest are the tuned vectors with nDCG@10 100.0, though not clearly, ahead of words alone" in same


def test_the_table_has_a_row_for_each_system_and_ends_with_the_verdict():
    measured = measure(knowing(), knowing(FIRST, SECOND), Examples.of(FIRST, SECOND))
    lines = [line.rstrip() for line in measured.to_text(120).splitlines() if line.strip()]
    assert lines[0].split() == ["40", "held", "out", "R@1", "difference", "R@10", "difference", "nDCG@10", "difference"]
    assert [line.split("  ")[1] for line in lines[2:8]] == list(measured.systems)
    assert lines[-1] == measured.verdict
    assert measured.to_markdown().splitlines()[2].startswith(f"| {BEFORE} | ")


def test_every_second_text_of_an_equal_first_text_is_right():
    first, second = ["q", "q", *FIRST], [SECOND[0], SECOND[1], *SECOND]
    data = measuring.as_retrieval(Examples.of(first, second))
    assert len(data.documents) == N
    assert data.judgements["q0"] == data.judgements["q1"] == {"d0": 1, "d1": 1}


def test_texts_that_differ_only_in_case_find_the_same():
    data = measuring.as_retrieval(Examples.of(["q a", "Q A"], ["b", "c"]))
    assert data.judgements["q0"] == data.judgements["q1"] == {"d0": 1, "d1": 1}
    labels = np.array([0, 0, 1, 1])
    of_two = measuring.as_retrieval(Examples.of(["x", "y", "x", "z"], ["y", "x", "z", "x"], label=labels))
    assert of_two.documents == ["y", "x", "z"]
    assert of_two.judgements["q0"] == {"d0": 1, "d2": 1}  # x has both labels


def test_a_text_with_a_label_finds_others_of_its_label_but_not_itself():
    examples, _ = paired_by_label(APART, np.arange(N) % 4)
    knows = SimpleNamespace(encode=lambda texts: np.eye(4)[[APART.index(text) % 4 for text in texts]], config=Config())
    measured = measure(knowing(), knows, examples)
    assert values(measured, TUNED) == {"nDCG@1": 100, "nDCG@10": 100}
    data = measuring.as_retrieval(examples)
    assert {len(judged) for judged in data.judgements.values()} == {N // 4 - 1}


def test_scored_pairs_are_ranked_not_searched():
    score = np.linspace(0, 1, N)
    angle = dict.fromkeys(FIRST, 0.0) | dict(zip(APART, 1 - score, strict=True))
    knows = SimpleNamespace(
        encode=lambda texts: np.array([[np.cos(angle[t]), np.sin(angle[t])] for t in texts]), config=Config()
    )
    measured = measure(knowing(), knows, Examples.of(FIRST, APART, score=score))
    assert values(measured, TUNED) == {"Spearman": 100}
    assert list(measured.systems) == [BEFORE, TUNED, BM25, CHARACTERS]
    assert "raised Spearman" in measured.verdict


def test_vectors_and_words_are_fused_as_a_search_fuses_them():
    model, documents = knowing(FIRST, SECOND), SECOND[:30]
    bm25 = Bm25(Collection.of(text.split() for text in documents))
    scores = VectorsAndWords(model.encode, bm25, 0.7).index(documents)(FIRST[:3])
    vectors = [rows / np.linalg.norm(rows, axis=1)[:, None] for rows in map(model.encode, (FIRST[:3], documents))]
    by_words = bm25.index(documents)(FIRST[:3])
    expected = 0.7 * vectors[0] @ vectors[1].T + 0.3 * by_words / by_words.max(1, keepdims=True)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_only_the_best_by_vectors_and_by_words_are_fused(monkeypatch):
    monkeypatch.setattr(measuring, "DEPTH", 1)
    model = SimpleNamespace(
        encode=lambda texts: np.array([[text.count("x") + 1, 1.0] for text in texts]), config=Config()
    )
    documents = ["one fish", "x y", "y x x x x x", "two fish"]
    scores = VectorsAndWords(model.encode, Bm25(Collection.of([["fish"]])), 0.5).index(documents)(["one fish xxxxx"])
    assert np.isfinite(scores[0]).tolist() == [True, False, True, False]


def test_what_cannot_be_measured_says_why(monkeypatch):
    def missing(lines):
        raise BanyanError("The TF-IDF baseline needs scikit-learn")

    monkeypatch.setattr(measuring, "TfIdf", missing)
    measured = measure(knowing(), knowing(FIRST, SECOND), Examples.of(FIRST, SECOND))
    assert CHARACTERS not in measured.systems
    assert BOTH_TUNED in measured.systems
    assert "not measured" in measured.to_text()
    assert f"{CHARACTERS}: The TF-IDF baseline needs scikit-learn" in measured.to_text()
    with pytest.raises(BanyanError, match="at least two are needed"):
        measure(knowing(), knowing(), Examples.of(["a"], ["b"]))
