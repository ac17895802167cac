"""Cross-lingual retrieval: the right translation is found among all, in both directions."""

from __future__ import annotations

import numpy as np
import pytest

from banyan.errors import BanyanError
from banyan.evaluate import translation as module
from banyan.evaluate.similarity import NoVectors
from banyan.evaluate.translation import Translations, translation


def measured(vectors: dict[str, list[float]], pairs: list[tuple[str, str]]) -> dict[str, list[bool]]:
    outcomes = translation(lambda texts: np.array([vectors[text] for text in texts]), Translations.of(pairs), "t")
    return {outcome.metric: outcome.items.tolist() for outcome in outcomes}


def test_each_direction_has_its_own_recall():
    # B and a are nearest to each other, so neither finds its own; b finds B and A finds a.
    vectors = {"a": [1, 0.1], "b": [0, 1], "A": [1, -2.0], "B": [1, 1]}
    found = measured(vectors, [("a", "A"), ("b", "B")])
    assert found["R@1 source to target"] == [False, True]
    assert found["R@1 target to source"] == [True, False]
    assert found["R@10 source to target"] == found["R@10 target to source"] == [True, True]


def test_recall_agrees_with_a_sorted_list(monkeypatch):
    monkeypatch.setattr(module, "QUERIES", 7)  # several blocks
    rng = np.random.default_rng(0)
    source = rng.normal(size=(60, 8))
    target = source + 1.2 * rng.normal(size=(60, 8))
    vectors = {f"s{i}": row for i, row in enumerate(source)} | {f"t{i}": row for i, row in enumerate(target)}
    found = measured(vectors, [(f"s{i}", f"t{i}") for i in range(60)])
    cosines = (source @ target.T) / np.linalg.norm(source, axis=1)[:, None] / np.linalg.norm(target, axis=1)
    for way, matrix in ("source to target", cosines), ("target to source", cosines.T):
        place = (np.argsort(-matrix, axis=1) == np.arange(60)[:, None]).argmax(1)
        for cut in (1, 10):
            assert found[f"R@{cut} {way}"] == (place < cut).tolist()
            assert 0 < np.mean(place < cut) < 1


def test_a_pair_with_an_equal_text_on_either_side_counts_as_right():
    vectors = {"a": [1, 0], "A": [0, 1], "A2": [1, 0], "b": [0, 1], "b2": [1, 0]}
    assert measured(vectors, [("a", "A"), ("a", "A2")])["R@1 source to target"] == [True, True]  # equal sources
    assert measured(vectors, [("a", "A"), ("b", "A")])["R@1 target to source"] == [True, True]  # equal targets
    assert measured(vectors, [("b", "A2"), ("b2", "A")])["R@1 source to target"] == [False, False]


def test_a_model_without_differences_finds_nothing():
    pairs = Translations([f"s{i}" for i in range(20)], [f"t{i}" for i in range(20)])
    for value in (0, 1):
        outcomes = translation(lambda texts, value=value: np.full((len(texts), 3), value), pairs, "t")
        assert [outcome.value for outcome in outcomes] == [0, 0, 0, 0]


def test_one_pair_and_a_model_without_vectors_are_refused():
    with pytest.raises(BanyanError, match="t has one pair"):
        translation(lambda texts: np.ones((len(texts), 2)), Translations(["a"], ["A"]), "t")
    with pytest.raises(NoVectors):
        translation(object(), Translations(["a", "b"], ["A", "B"]), "t")
