"""What the figures, claims and baselines compute; not how it looks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from banyan import reference
from banyan.config import Config
from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.evaluate.classification import Labelled
from banyan.model.graph import Forest, disentangled, entangle, from_merges
from banyan.tokenizer import Tokenizer
from experiments.figures import claims, drawing
from experiments.figures import paper_figures as figures
from experiments.measuring import baselines, graphs
from experiments.places import RESULTS
from experiments.records.entries import keep
from experiments.training import weights
from tests.helpers.batches import random_batch, random_functions

TEXT = [*drawing.SENTENCES, "night and day", "sweet night"] * 4


@pytest.fixture(scope="module")
def model() -> Banyan:
    """Untrained, with an output layer."""
    tokenizer = Tokenizer.train(TEXT, vocab_size=400)
    rng = np.random.default_rng(0)
    config = Config(dim=8, channels=4, min_pieces=1)
    shape = tokenizer.vocab_size, config.dim
    weights = {name: rng.normal(size=shape).astype(np.float32) for name in ("embedding", "out_weight")}
    weights["out_bias"] = np.zeros(tokenizer.vocab_size, np.float32)
    functions = random_functions(rng, config.width)
    weights |= {name: vector.astype(np.float32) for name, vector in functions._asdict().items()}
    return Banyan(config, tokenizer, weights)


def a_forest(seed: int = 0, sentences: int = 12) -> Forest:
    rng = np.random.default_rng(seed)
    tokens, offsets = random_batch(rng, sentences, 6, 7)
    return reference.greedy(tokens, offsets, rng.normal(size=(6, 4)), random_functions(rng, 2))


# --- Baselines -------------------------------------------------------------------------------------------------------


def test_majority_answers_the_frequent_class_of_the_training_data():
    train = Labelled(["a"] * 3, ["b"] * 3, np.array([1, 1, 0]))
    test = Labelled(["a"] * 4, ["b"] * 4, np.array([1, 0, 0, 0]))
    accuracy, f1 = baselines.always(train, test, "toy")
    assert accuracy.value == 25
    assert f1.value == pytest.approx(100 * 2 * 1 / (1 + 4))


@pytest.mark.slow
@pytest.mark.data
def test_tfidf_reproduces_the_means_of_the_data(data_folder):
    for suite, mean in ("sts", 68.0), ("languages", 66.4):
        entry = baselines.pair_suite(data_folder, suite)
        assert entry["rows"][-1][entry["columns"].index("TF-IDF")] == pytest.approx(mean, abs=0.05)


# --- Text, graphs, models --------------------------------------------------------------------------------------------


def test_part_of_a_forest_has_the_same_trees():
    forest = a_forest()
    for start, end in (0, 12), (3, 7), (11, 12):
        part = graphs.part(forest, start, end)
        assert_array_equal(part.tokens, forest.tokens[forest.offsets[start] : forest.offsets[end]])
        assert _phrases(part) == _phrases(forest)[start:end]


def test_selected_sentences_keep_their_trees_in_the_order_asked_for():
    forest = a_forest()
    order = [5, 2, 2, 11]
    assert _phrases(graphs.select(forest, order)) == [_phrases(forest)[i] for i in order]


def _phrases(forest: Forest) -> list[str]:
    """Each sentence in brackets."""
    nodes = [str(token) for token in forest.tokens]
    for left, right in forest.children:
        nodes.append(f"({nodes[left]} {nodes[right]})")
    return [nodes[root] for root in forest.root]


def test_weights_in_npz_are_the_model_of_the_folder(model, tmp_path):
    model.save_pretrained(tmp_path)
    arrays = {name: array for name, array in model.weights.items() if not name.startswith("out")}
    np.savez(tmp_path / "run.npz", config=json.dumps(model.config.to_dict()), **arrays)
    loaded = weights.load(tmp_path / "run.npz")
    assert loaded.config == model.config
    assert_array_equal(loaded.encode(TEXT), weights.load(tmp_path).encode(TEXT))


def test_output_layer_beside_an_npz_comes_with_it(model, tmp_path):
    model.tokenizer.save(tmp_path / "tokenizer.json")
    output = {name: model.weights[name] for name in weights.OUTPUT}
    arrays = {name: array for name, array in model.weights.items() if name not in output}
    np.savez(tmp_path / "run-0.npz", config=json.dumps(model.config.to_dict()), **arrays)
    np.savez(tmp_path / "other-0.output.npz", **output)
    assert not set(output) & set(weights.load(tmp_path / "run-0.npz").weights)
    np.savez(tmp_path / "run-0.output.npz", **output)
    loaded = weights.load(tmp_path / "run-0.npz").weights
    for name, array in model.weights.items():
        assert_array_equal(loaded[name], array)


def test_npz_without_settings_takes_those_of_its_run(model, tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "RESULTS", tmp_path)
    model.tokenizer.save(tmp_path / "tokenizer.json")
    np.savez(tmp_path / "banyan-0.npz", **model.weights)
    with pytest.raises(BanyanError, match="has no settings"):
        weights.load(tmp_path / "banyan-0.npz")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "banyan-0.json").write_text(json.dumps({"settings": model.config.to_dict()}))
    assert weights.load(tmp_path / "banyan-0.npz").config == model.config


def test_settings_of_earlier_versions_are_read_under_their_present_names():
    before = {"preset": "default", "pieces": "unigram", "lexical": 512, "repeats": False, "ngrams": 0, "output": 1.0}
    config = weights.config_of(before)
    assert (config.subword_model, config.lexical_dim, config.sublinear_tf) == ("unigram", 512, True)


def test_result_of_one_name_leaves_the_others(tmp_path):
    path = tmp_path / "figures.json"
    for key, value in ("a", 1), ("b", 2), ("a", 3):
        keep(path, key, {"title": key, "columns": ["x"], "rows": [[value]]})
    assert {key: entry["rows"] for key, entry in json.loads(path.read_text()).items()} == {"a": [[3]], "b": [[2]]}


# --- Figures ---------------------------------------------------------------------------------------------------------


def test_nodes_of_a_toy_batch_are_counted():
    left_branching = [[(0, 1), (3, 2)]] * 4
    forest = from_merges(np.array([0, 1, 2, 0, 1, 3] * 2), np.arange(0, 13, 3), left_branching)
    counts = figures.count_nodes(forest, 2)
    assert counts == figures.Nodes(batch_size=2, batches=2, plain=10, entangled=4 + 1 + 2, leaves=4)
    assert figures.count_nodes(forest, 4).entangled == 7  # the second half says nothing new
    with pytest.raises(BanyanError, match="too few for a batch of 5"):
        figures.count_nodes(forest, 5)


def test_alignment_is_of_directions():
    a = np.array([[1.0, 0], [0, 2]])
    assert figures.alignment(a, 3 * a) == pytest.approx(0)
    assert figures.alignment(a, -a) == pytest.approx(4)
    assert figures.alignment(a, a[::-1]) == pytest.approx(2)


def test_uniformity_of_known_vectors():
    assert figures.uniformity(np.array([[1.0, 0], [5, 0]])) == pytest.approx(0)
    assert figures.uniformity(np.array([[1.0, 0], [-1, 0]])) == pytest.approx(-8)
    three = np.array([[1.0, 0], [-1, 0], [0, 1]])
    assert figures.uniformity(three) == pytest.approx(np.log((np.exp(-8) + 2 * np.exp(-4)) / 3))


def test_overlap_is_none_where_kinds_lie_apart_and_half_where_they_mix():
    rng = np.random.default_rng(0)
    up, down = rng.normal(size=(2, 400, 5))
    for metric in figures.METRICS:
        assert figures.overlap(up, down, metric) == pytest.approx(0.5, abs=0.03)
        assert figures.overlap(up + 20, down - 20, metric) == 0


def test_overlap_of_directions_does_not_see_lengths():
    rng = np.random.default_rng(0)
    up, down = rng.normal(size=(2, 400, 5))
    up, down = figures.unit(up), 50 * figures.unit(down)
    assert figures.overlap(up, down, "cosine") == pytest.approx(0.5, abs=0.03)
    assert figures.overlap(up, down, "euclidean") < 0.3


def test_graph_of_about_as_many_nodes_as_wanted(model):
    graph = figures.graph_of_about(model, TEXT, 20)
    assert 20 <= graph.n_nodes <= 40


def test_drawing_knows_what_occurs_more_than_once(model):
    forest = graphs.forest_of(model, drawing.SENTENCES)
    words = drawing.words_of(model, entangle(forest), forest)
    for root, sentence in zip(words.graph.root, drawing.SENTENCES, strict=True):
        assert words.phrase[root] == sentence
    shared = drawing.shared_node(words)
    assert len(words.sentences[shared]) > 1
    assert len(drawing.parents_of(words.graph, shared)) == words.graph.messages[shared] > 1


def test_leaf_order_without_crossings_is_found(model):
    alone = graphs.forest_of(model, ["some are born to sweet delight"])
    words = drawing.words_of(model, disentangled(alone), alone)
    order = words.graph.node_of[: len(alone.tokens)].tolist()
    assert drawing.best_order(words, set(), alone, starts=2) == order


# --- Claims ----------------------------------------------------------------------------------------------------------


def test_depth_is_the_fewest_steps_from_a_root():
    forest = from_merges(np.array([0, 1, 2, 0, 1]), np.array([0, 3, 5]), [[(0, 1), (3, 2)], [(0, 1)]])
    graph = entangle(forest)  # 0, 1, 2, (0 1), ((0 1) 2): the second sentence is inside the first
    assert_array_equal(claims.heights(graph), [0, 0, 0, 1, 2])
    assert_array_equal(claims.depths(graph), [2, 2, 1, 1, 0])


def test_means_leave_out_what_is_too_rare():
    steps = np.repeat([0, 1], [claims.FEWEST, claims.FEWEST - 1])
    assert claims.means_by(steps, np.full(len(steps), 3.0)) == {0: (claims.FEWEST, 3.0)}


def test_whole_population_as_one_batch_is_no_estimate(model):
    forest = graphs.forest_of(model, TEXT)
    tokens = np.unique(forest.tokens)[:4]
    population = claims.leaves_down(model, forest, tokens)
    assert list(population) == tokens.tolist()
    one = claims.estimate(model, [claims.in_batches(model, forest, len(TEXT), tokens)], population)
    assert one[:4] == pytest.approx((1, 0, 0, 0))
    assert one.loss == pytest.approx(one.loss_of_mean)


def test_bias_is_told_from_chance(model):
    """Unbiased samples show no more than chance; a shift of half the length is found."""
    rng = np.random.default_rng(0)
    target = np.full(8, 1.0)
    for shift in (0.0, 0.5):
        shuffles = [{0: target + shift + rng.normal(size=(50, 8))} for _ in range(8)]
        found = claims.estimate(model, shuffles, {0: target})
        assert found.bias == pytest.approx(shift, abs=0.05)
        assert found.chance == pytest.approx(1 / np.sqrt(50 * 8), rel=0.5)


def test_mean_of_losses_exceeds_the_loss_of_the_mean(model):
    rng = np.random.default_rng(0)
    found = claims.estimate(model, [{0: rng.normal(size=(50, 8))}], {0: np.ones(8)})
    assert found.loss > found.loss_of_mean


def test_loss_of_a_leaf_is_the_references_cross_entropy(model):
    rows = np.random.default_rng(0).normal(size=(3, 8))
    weight, bias = model.weights["out_weight"], model.weights["out_bias"]
    expected, _ = reference.cross_entropy(rows, np.array([2, 2, 2]), weight, bias)
    assert claims._loss(model, rows, 2).mean() == pytest.approx(expected, rel=1e-5)


def test_seeds_of_one_width_are_taken_together(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    for stem, channels, score in ("channels-4-0", 4, 50.0), ("channels-4-1", 4, 52.0), ("banyan-0", 128, 60.0):
        record = {"settings": {"channels": channels, "dim": 256}}
        record["scores"] = {group: {"value": score} for group in ("sts", "words")}
        (tmp_path / "runs" / f"{stem}.json").write_text(json.dumps(record))
    (tmp_path / "runs" / "banyan-untrained-0.json").write_text("{}")
    monkeypatch.setattr(claims, "RESULTS", tmp_path)
    expected = [[4, 64, 2, 51.0, 1.41, 51.0, 1.41], [128, 2, 1, 60.0, None, 60.0, None]]
    assert claims.stability({}, [], tmp_path)["rows"] == expected


def test_stability_as_kept_is_that_of_the_runs_that_are_there():
    kept = json.loads((RESULTS / "claims.json").read_text(encoding="utf-8"))["stability"]
    command = "python -m experiments.figures.claims stability"
    assert kept["rows"] == claims.stability({}, [], Path())["rows"], f"run {command}"
