"""Tuning a small model on pairs of sentences about the same place, of which it knows nothing yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import banyan
from banyan import Banyan, BanyanError, backends
from banyan.config import Config
from banyan.evaluate.outcome import Outcome, percent
from banyan.model.word_ngrams import BUCKETS
from banyan.support import devices
from banyan.training import checkpoint
from banyan.training.folder import Given, RunFolder
from banyan.tuning import run
from banyan.tuning.batches import prepared
from banyan.tuning.examples import Examples, paired_by_label
from banyan.tuning.finding import Found
from banyan.tuning.split import split
from banyan.tuning.tuner import recounted
from tests.helpers.models import tiny_model
from tests.helpers.training import adam_with_a_tensor, digest, interrupted_at, metrics

HOW = {"quiet": True, "device": "cpu", "batch_size": 32, "lr": 0.01, "epochs": 8, "stay_weight": 0.0}


def words(n: int, seed: int = 0) -> Examples:
    """Texts belong together if they are about the same two words, which look nothing alike; the rest is filler."""
    topics = np.array([("cat", "sat"), ("dog", "slept"), ("mat", "runs"), ("house", "slowly"), ("tree", "quickly")])
    filler = "the a on green over under".split()
    rng = np.random.default_rng(seed)
    label = rng.integers(0, len(topics), n)
    chosen = topics[label, rng.integers(0, 2, n)]
    texts = [" ".join(rng.permutation([word, *rng.choice(filler, 4)])) for word in chosen]
    return paired_by_label(texts, label)[0]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A random model with lexical dimensions."""
    tiny = tiny_model()
    config = replace(tiny.config, lexical_dim=8, lexical_ngrams="words", lexical_weight=0.5)
    model = Banyan(config, tiny.tokenizer, {**tiny.weights, "lexical_idf": np.zeros(BUCKETS, np.uint8)})
    model.taught_by = {"name": "tests/teacher", "kind": "hub", "licence": "cc0-1.0", "texts": 5}
    folder = tmp_path_factory.mktemp("base") / "model"
    model.save_pretrained(folder)
    (folder / "README.md").write_text("## Training text\nA few words.\n\n## Training\n")
    return folder


def found(model: Banyan) -> float:
    """How much more similar texts of the same label are than texts of different labels."""
    fresh = words(100, seed=9)
    cosines, same = model.similarity(fresh.first, fresh.first), fresh.label[:, None] == fresh.label
    return float(cosines[same].mean() - cosines[~same].mean())


def test_a_tuned_model_finds_new_pairs_better_and_stops_by_itself(base, tmp_path, capsys):
    before = Banyan.from_pretrained(base)
    tuned = before.tune(words(400), tmp_path / "tuned", **{**HOW, "quiet": False})
    assert found(tuned) > found(before) + 0.1
    rows = [row for row in metrics(tmp_path / "tuned") if "finished_epoch" in row]
    figures = [row["held_out_ndcg"] for row in rows]
    assert f"held-out partners found {figures[-1]:.2f}" in capsys.readouterr().err  # not nDCG@10 of the table
    assert len(rows) == 8 or max(figures) == figures[-3]
    again = Banyan.from_pretrained(tmp_path / "tuned")
    assert (again.fingerprint(), again.taught_by) == (tuned.fingerprint(), before.taught_by)
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert "Tuned on texts that belong together" in card
    assert "## Before and after tuning" in card
    assert "It started from a model with this training text: A few words." in card


def test_tuning_takes_roots_of_lexical_sums_and_training_from_the_tuned_model_keeps_them(base, tmp_path):
    tuned = banyan.tune(base, words(100), tmp_path / "tuned", **{**HOW, "epochs": 1})
    assert (Banyan.from_pretrained(base).config.lexical_root, tuned.config.lexical_root) == (False, True)
    without = banyan.tune(base, words(100), tmp_path / "without", lexical_root=False, **{**HOW, "epochs": 1})
    assert not without.config.lexical_root
    config, _ = RunFolder(tmp_path / "next").settle({"preset": "light"}, Given.of(init=tmp_path / "tuned"), False)
    assert config.lexical_root


@pytest.mark.parametrize(("enough", "also_chose"), [(400, True), (30, False)])
def test_the_table_says_whether_its_examples_also_chose(base, tmp_path, monkeypatch, enough, also_chose):
    monkeypatch.setattr("banyan.tuning.split.ENOUGH", enough)
    examples = words(400)
    banyan.tune(base, examples, tmp_path / "tuned", **{**HOW, "epochs": 1})
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert ("These examples also chose the epoch, the lexical weight and the share of vectors" in card) == also_chose
    held_out = len(split(examples, 0)[1])
    assert (f"{held_out} held out" in card) == also_chose


class Killed(BaseException):
    pass


def test_an_interrupted_or_killed_run_ends_in_the_same_bits(base, tmp_path, monkeypatch):
    how = {**HOW, "epochs": 3, "checkpoint_seconds": 0, "hard_negatives": 1}
    banyan.tune(base, words(200), tmp_path / "whole", **how)
    steps = metrics(tmp_path / "whole")[-1]["step"] // 3
    with interrupted_at(2):
        banyan.tune(base, words(200), tmp_path / "stopped", **how)
    saves, save = [], checkpoint.save

    def die_after_the_second_epoch(*state):
        """When its weights have been found to be the best, and before they are saved."""
        saves.append(state)
        if state[3].epoch == 2:
            raise Killed
        save(*state)

    monkeypatch.setattr(checkpoint, "save", die_after_the_second_epoch)
    with pytest.raises(Killed):
        banyan.tune(base, words(200), tmp_path / "stopped", resume=True, **how)
    assert len(saves) > steps
    monkeypatch.undo()
    banyan.tune(base, words(200), tmp_path / "stopped", resume=True, **how)
    assert digest(tmp_path / "stopped") == digest(tmp_path / "whole")
    assert (tmp_path / "stopped/config.json").read_bytes() == (tmp_path / "whole/config.json").read_bytes()


def outcome(value: float, noise: float = 0.0) -> Outcome:
    """A figure; those of single examples differ by chance."""
    items = np.random.default_rng(int(value * 100)).normal(size=50)
    return Outcome("held out", "held_out_ndcg", value / 100 + noise * (items - items.mean()), percent)


def test_the_latest_epoch_within_one_standard_error_of_the_best_is_kept(base, tmp_path, monkeypatch):
    noise = 0.5
    for figures, kept in (([50, 60, 60.03, 59.97, 59.9], 4), ([50, 60, 40, 59.98], 3), ([50, 60, 40, 41], 1)):
        values = iter(figures)
        monkeypatch.setattr(run, "figure", lambda model, held_out, v=values: Found(outcome(next(v), noise), 0.7))
        banyan.tune(base, words(100), tmp_path / str(kept), **{**HOW, "epochs": 8})
        done = checkpoint.verify(tmp_path / str(kept) / "training/checkpoint.safetensors")
        assert (done.best_epoch, done.highest_epoch) == (kept, 2 if kept == 4 else 1)
        assert done.epoch == len(figures) - 1


@pytest.mark.parametrize(("figures", "best"), [([50, 40, 60, 55, 55], 2), ([50, 40, 40], 0)])
def test_it_stops_when_held_out_examples_no_longer_improve_and_keeps_the_best_epoch(
    base, tmp_path, monkeypatch, figures, best
):
    def tuned_with(values, out, **more):
        values = iter(values)  # the first is that of the model before
        monkeypatch.setattr(run, "figure", lambda model, held_out: Found(outcome(next(values)), 0.7))
        banyan.tune(base, words(100), tmp_path / out, final_lr_frac=1.0, **{**HOW, **more})
        return load_file(tmp_path / out / "model.safetensors")

    kept = tuned_with(figures, "stopped")
    assert Config.from_file(tmp_path / "stopped/config.json").lexical_weight == 0.7
    assert metrics(tmp_path / "stopped")[-1]["finished_epoch"] == len(figures) - 1
    expected = tuned_with([1, 2, 3], "as long", epochs=best) if best else load_file(base / "model.safetensors")
    same = [name for name in kept if best or not name.startswith(("lexical", "embedding"))]  # epoch 0 is recounted
    assert all(np.array_equal(kept[name], expected[name]) for name in same)


def test_texts_with_scores_and_negatives(base, tmp_path, capsys):
    pairs = words(200)[:90]
    alike = np.tile([1.0, 0.0, 0.5], 30).astype(np.float32)
    second = [text if score else "the a on" for text, score in zip(pairs.second, alike, strict=True)]
    how = {**HOW, "epochs": 2, "quiet": False}
    banyan.tune(base, Examples.of(pairs.first, second, score=alike), tmp_path / "scores", **how)
    figure = metrics(tmp_path / "scores")[-1]["held_out_spearman"]
    assert f"Spearman of held-out pairs {figure:.2f}" in capsys.readouterr().err
    negatives = Examples.of(pairs.first, pairs.second, ["", "green", "the mat"] * 30)
    banyan.tune(base, negatives, tmp_path / "triples", **{**HOW, "epochs": 2})
    assert np.isfinite(metrics(tmp_path / "triples")[-1]["train_loss"])


def test_a_model_without_lexical_dimensions_can_be_tuned(tmp_path):
    tiny_model().save_pretrained(tmp_path / "model")
    tuned = banyan.tune(tmp_path / "model", words(200), tmp_path / "tuned", **{**HOW, "epochs": 2, "stay_weight": 1.0})
    assert found(tuned) > found(tiny_model())


def test_staying_keeps_token_vectors_where_they_were(base, tmp_path):
    model = Banyan.from_pretrained(base)
    store = prepared(*split(words(200), 0), model.tokenizer, 512)[0].store
    before = recounted(model, store)["embedding"]

    def moved(weight: float) -> float:
        banyan.tune(base, words(200), tmp_path / str(weight), **{**HOW, "epochs": 2, "stay_weight": weight})
        after = load_file(tmp_path / str(weight) / "training/checkpoint.safetensors")["model.embedding"]
        return float(np.square(after - before).sum())

    assert moved(100.0) < moved(0.0) / 4


def test_tokens_start_as_long_as_they_are_rare_in_the_examples(base):
    model = Banyan.from_pretrained(base)
    pairs = Examples.of(["the cat", "the dog"], ["the mat", "the the"])
    texts = prepared(pairs, pairs[:0], model.tokenizer, 512)[0].store
    start = recounted(model, texts)["embedding"]
    ratio = np.linalg.norm(start, axis=1) / np.linalg.norm(model.embedding, axis=1)
    the, cat = (model.tokenizer.encode([word])[0][0] for word in ("the", "cat"))
    assert ratio[cat] / ratio[the] == pytest.approx(1 + np.log(5 / 2), rel=1e-4)
    distinct = [np.unique(tokens) for tokens in np.split(texts.tokens, texts.offsets[1:-1])]
    counts = np.bincount(np.concatenate(distinct), minlength=len(ratio))
    norms = [counts @ np.linalg.norm(vectors, axis=1) for vectors in (start, model.embedding)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_sparse_gradients_teach_what_dense_ones_teach(base, tmp_path):
    """Clipping needs dense gradients. This one clips nothing."""
    how = {**HOW, "epochs": 2, "stay_weight": 5.0, "dropout": 0.1}
    for name, more in (("sparse", {}), ("dense", {"clip_grad_norm": 1e9})):
        banyan.tune(base, words(200), tmp_path / name, **{**how, **more})
    rows = [[row["loss"] for row in metrics(tmp_path / name) if "loss" in row] for name in ("sparse", "dense")]
    np.testing.assert_allclose(*rows, rtol=1e-4)
    stays = [[row["stay"] for row in metrics(tmp_path / name) if "stay" in row] for name in ("sparse", "dense")]
    np.testing.assert_allclose(*stays, rtol=1e-3, atol=1e-9)
    assert stays[0][-1] > 0


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.kernels
def test_a_run_by_the_gpu_kernels_is_that_of_the_cpu(base, tmp_path, monkeypatch):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    how = {**HOW, "batch_size": 12, "epochs": 1, "stay_weight": 1.0}
    banyan.tune(base, words(40), tmp_path / "cpu", **how)
    monkeypatch.setattr(backends, "choose", lambda *given: backends.named("triton"))
    monkeypatch.setattr(backends, "choose_precision", lambda *given: "float32")
    monkeypatch.setattr(devices, "window", lambda device: 2)
    monkeypatch.setattr(devices, "adam", adam_with_a_tensor)
    banyan.tune(base, words(40), tmp_path / "gpu", **{**how, "device": device})
    by_cpu, by_gpu = ([row for row in metrics(tmp_path / name) if "loss" in row] for name in ("cpu", "gpu"))
    assert len(by_cpu) == 3
    for a, b in zip(by_cpu, by_gpu, strict=True):
        for name in ("loss", "pairs", "stay"):
            assert b[name] == pytest.approx(a[name], rel=2e-3, abs=1e-6)
        assert (a["nodes"], a["tokens"]) == (b["nodes"], b["tokens"])
    figures = [metrics(tmp_path / name)[-1]["held_out_ndcg"] for name in ("cpu", "gpu")]
    assert figures[1] == pytest.approx(figures[0], abs=5)


def test_a_few_examples_are_all_learned_from(base, tmp_path, capsys):
    pairs = Examples.of(["cat", "dog", "mat"], ["tree", "house", "green"])
    how = {**HOW, "lr": 0.1, "quiet": False}
    before, tuned = Banyan.from_pretrained(base), banyan.tune(base, pairs, tmp_path / "tuned", **how)
    assert "held out: none (fewer than 30 examples)" in capsys.readouterr().err
    own = [np.diag(model.similarity(pairs.first, pairs.second)).mean() for model in (before, tuned)]
    assert own[1] > own[0] + 0.1
    for same in (pairs[:1], pairs[np.array([0, 0])], Examples.of(["cat", "dog", "cat"], ["tree", "tree", "tree"])):
        with pytest.raises(BanyanError, match="at least two pairs without a common text, or a negative"):
            banyan.tune(base, same, tmp_path / "one", **HOW)
    with pytest.raises(BanyanError, match="the same score, so there is nothing to rank"):
        banyan.tune(base, Examples.of(["cat", "dog"], ["tree", "mat"], score=np.ones(2)), tmp_path / "one", **HOW)
    with pytest.raises(BanyanError, match="at least two labels"):
        banyan.tune(base, paired_by_label(["cat", "dog", "mat"], np.zeros(3))[0], tmp_path / "one", **HOW)


def test_what_cannot_work_is_refused(base, tmp_path):
    with pytest.raises(BanyanError, match="must be in a folder"):
        tiny_model().tune(words(20), tmp_path / "out")
    with pytest.raises(BanyanError, match="pairs_weight must be above 0"):
        banyan.tune(base, words(20), tmp_path / "out", pairs_weight=0.0, infonce_weight=1.0, **HOW)
    with pytest.raises(BanyanError, match="batch_size must be at least 2 in tuning"):
        banyan.tune(base, words(20), tmp_path / "out", **{**HOW, "batch_size": 1})
    with pytest.raises(BanyanError, match="are for `banyan train`"):
        banyan.tune(base, words(20), tmp_path / "out", infonce_weight=1.0, **HOW)
    with pytest.raises(BanyanError, match="hard negatives are for examples without scores"):
        banyan.tune(base, replace(words(20), score=np.arange(20.0)), tmp_path / "out", hard_negatives=1, **HOW)
    with pytest.raises(BanyanError, match="settings of `banyan tune`"):
        banyan.train(tmp_path / "text.txt", tmp_path / "out", preset="tuned", quiet=True)
    with pytest.raises(BanyanError, match="there is no setting 'hard'; did you mean hard_negatives"):
        Banyan.from_pretrained(base).tune(words(20), tmp_path / "out", hard=2)
    with pytest.raises(BanyanError, match="there is no setting 'colums'; did you mean columns"):
        banyan.tune(base, words(20), tmp_path / "out", colums=["a", "b"])
