"""Models of runs that go on, and the epoch that is kept."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from banyan import Banyan, BanyanError
from banyan.checking import check
from banyan.evaluate import similarity
from banyan.folders import unfinished_of
from banyan.training import card, checkpoint, standing, train
from banyan.training import run as training
from tests.helpers.corpora import lines
from tests.helpers.training import SMALL, digest, interrupted_at, metrics

SENTENCE = "The cat sees the dog in the garden."
HOW = {**SMALL, "preset": "paper"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    both = zip(lines(50, 1), lines(50, 2), strict=True)
    rows = [f"{a}\t{b}\t{len(set(a.split()) & set(b.split()))}" for a, b in both]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture
def figures(monkeypatch):
    """Lets the figures on the pairs be these: before training, of TF-IDF, and of each epoch."""

    def of(*values: float) -> None:
        given = iter(values)
        for module in (training, similarity):  # banyan.training.standing imports it when it needs it
            monkeypatch.setattr(module, "spearman", lambda encode, pairs: next(given))

    return of


def test_ctrl_c_leaves_a_model_that_encodes_and_says_that_it_is_unfinished(corpus, tmp_path, banyan, caplog):
    out = tmp_path / "out"
    with interrupted_at(3):
        train(corpus, out, epochs=2, **HOW)
    caplog.clear()  # if a library has lowered the level, the run's own messages are in it
    with caplog.at_level(logging.WARNING, "banyan"):
        assert np.isfinite(Banyan.from_pretrained(out).encode(SENTENCE)).all()
    (record,) = caplog.records
    assert "an unfinished model: it has had 3 of " in record.getMessage()
    told = banyan("info", out)[1]
    assert told.count("an unfinished model: it has had 3 of ") == 1
    assert (out / "README.md").read_text().count("an unfinished model") == 1
    assert str(check(out)) == f"{out}: an unfinished model and a training run, as written"
    with pytest.raises(BanyanError, match="holds an unfinished run: --resume continues it"):
        train(corpus, out, epochs=2, **HOW)
    train(corpus, out, epochs=2, resume=True, **HOW)
    train(corpus, tmp_path / "whole", epochs=2, **HOW)
    assert digest(out) == digest(tmp_path / "whole")
    for name in ("config.json", "README.md", "SHA256SUMS"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert unfinished_of(out) is None
    assert "unfinished" not in (out / "README.md").read_text() + banyan("info", out)[1]


def test_after_each_epoch_there_is_a_model_even_while_it_is_replaced(corpus, tmp_path, monkeypatch):
    """Whatever moment the run is killed at after the first epoch, the folder holds a model, and nothing is wrong."""
    out, found, replaced = tmp_path / "out", [], training.writing.files.os.replace

    def replace_and_look(source: Path, target: Path) -> None:
        replaced(source, target)
        if Path(target).parent == out and (found or unfinished_of_or_none(out)):
            assert np.isfinite(Banyan.from_pretrained(out).encode(SENTENCE)).all()
            assert check(out).problems == []
            found.append((Path(target).name, unfinished_of(out)))

    monkeypatch.setattr("banyan.support.files.os.replace", replace_and_look)
    train(corpus, out, epochs=3, checkpoint_seconds=0, **HOW)
    steps = metrics(out)[-1]["step"]
    weights = [mark["step"] for name, mark in found if name == "SHA256SUMS" and mark]
    assert weights == [steps // 3, 2 * steps // 3]
    assert found[-1][1] is None


def test_a_checkpoint_shortly_before_the_end_of_an_epoch_does_not_keep_its_model_back(corpus, tmp_path, monkeypatch):
    """By this clock, which moves at each look, checkpoints are made every few steps."""
    out, written = tmp_path / "out", []
    monkeypatch.setattr(training.time, "monotonic", iter(range(10**9)).__next__)
    monkeypatch.setattr(training.writing, "write", lambda model, *given: written.append(model.unfinished))
    monkeypatch.setattr(training.Run, "finish", lambda run: None)
    train(corpus, out, epochs=3, checkpoint_seconds=4, **HOW)
    steps = metrics(out)[-1]["step"]
    assert steps > 3 * 8
    assert [mark["step"] for mark in written] == [steps // 3, 2 * steps // 3]


def unfinished_of_or_none(out: Path) -> dict | None:
    return unfinished_of(out) if (out / "config.json").exists() else None


def test_a_model_in_the_making_is_not_taken_for_a_finished_one(corpus, tmp_path):
    out = tmp_path / "out"
    with interrupted_at(2):
        train(corpus, out, epochs=1, **HOW)
    Banyan.from_pretrained(out).save_pretrained(tmp_path / "copy")
    assert unfinished_of(tmp_path / "copy") == unfinished_of(out) != None  # noqa: E711


@pytest.mark.parametrize(("epochs", "best"), [([60, 70, 65], 2), ([50, 40, 40], 1), ([float("nan"), 3, 2], 2)])
def test_the_best_epoch_by_the_pairs_is_the_model(corpus, tmp_path, pairs, figures, epochs, best, capsys):
    figures(10, 20, *epochs)
    settings = {**HOW, "quiet": False}
    train(corpus, tmp_path / "kept", epochs=3, pairs=pairs, **settings)
    told = capsys.readouterr().err
    assert f"epoch {best}" in next(line for line in told.splitlines() if line.endswith("kept"))
    figures(10, 20, *range(best))
    train(corpus, tmp_path / "short", epochs=best, pairs=pairs, **HOW)
    kept, short = (load_file(tmp_path / name / "model.safetensors") for name in ("kept", "short"))
    assert all(np.array_equal(kept[name], short[name]) for name in short)
    assert f"After epoch {best}, the best on the evaluation pairs" in (tmp_path / "kept/README.md").read_text()


def test_without_pairs_the_last_epoch_is_the_model(corpus, tmp_path):
    train(corpus, tmp_path / "out", epochs=2, **HOW)
    assert not [name for name in load_file(tmp_path / "out/training/checkpoint.safetensors") if "best" in name]
    assert all(standing.KEPT not in row and standing.SPEARMAN not in row for row in metrics(tmp_path / "out"))
    assert "evaluation pairs" not in (tmp_path / "out/README.md").read_text()


@pytest.mark.parametrize("step", [2, 12, 20, 30])
def test_a_run_that_keeps_the_best_epoch_resumes_to_the_same_bits(corpus, tmp_path, pairs, step):
    settings = {**HOW, "epochs": 3, "pairs": pairs, "checkpoint_seconds": 0, "lr": 0.05}
    with interrupted_at(step):
        train(corpus, tmp_path / "stopped", **settings)
    train(corpus, tmp_path / "stopped", resume=True, **settings)
    train(corpus, tmp_path / "whole", **settings)
    assert digest(tmp_path / "stopped") == digest(tmp_path / "whole")


def test_a_stopped_run_leaves_the_best_epoch_so_far(corpus, tmp_path, pairs, figures):
    figures(10, 20, 60, 50, 70)
    steps = len([row for row in _whole(corpus, tmp_path / "whole", pairs) if "loss" in row])
    figures(10, 20, 60, 50, 70)
    with interrupted_at(steps):  # in the third epoch: the second was worse than the first
        train(corpus, tmp_path / "out", epochs=3, pairs=pairs, **HOW)
    mark = unfinished_of(tmp_path / "out")
    assert mark is not None
    assert mark["kept_epoch"] == 1
    best = checkpoint.best_weights(tmp_path / "out/training/checkpoint.safetensors")["embedding"].numpy()
    assert np.array_equal(Banyan.from_pretrained(tmp_path / "out").embedding, best)


def _whole(corpus: Path, out: Path, pairs: Path) -> list[dict]:
    train(corpus, out, epochs=3, pairs=pairs, **HOW)
    return metrics(out)


def test_tfidf_and_the_untrained_model_stand_beside_the_epochs(corpus, tmp_path, pairs, capsys):
    out = tmp_path / "out"
    train(corpus, out, epochs=2, pairs=pairs, **{**HOW, "quiet": False})
    first = metrics(out)[0]
    assert first["step"] == 0
    assert first["tfidf_spearman"] > 50  # the score of a pair is the number of words it shares
    told, written = capsys.readouterr().err, (out / "README.md").read_text()
    for name, value in (("TF-IDF of characters", first["tfidf_spearman"]), ("epoch 0", first["pairs_spearman"])):
        assert any(name in line and f"{value:.2f}" in line for line in told.splitlines())
        assert any(name in line and f"{value:.2f}" in line for line in written.splitlines())
    below = card.last_epoch(out / "metrics.jsonl")["pairs_spearman"] < first["tfidf_spearman"]
    assert below == ("below TF-IDF" in told) == ("below TF-IDF" in written)


@pytest.mark.parametrize(
    ("tfidf", "before", "kept", "says"),
    [(60, 50, 55, "below TF-IDF"), (50, 60, 55, "made the model worse"), (50, 40, 55, "")],
)
def test_nobody_falls_below_tfidf_unaware(tfidf, before, kept, says):
    rows = [{standing.SPEARMAN: before, standing.TFIDF: tfidf}]
    rows += [{standing.SPEARMAN: kept, standing.KEPT: 1, "finished_epoch": 1}]
    told = standing.text(standing.rows(rows))
    assert says in told
    assert bool(says) == bool(standing.remarks(standing.rows(rows)))


def test_without_scikit_learn_the_epochs_stand_beside_the_untrained_model(corpus, tmp_path, pairs, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    train(corpus, tmp_path / "out", epochs=1, pairs=pairs, **{**HOW, "quiet": False})
    assert "TF-IDF is left out (The TF-IDF baseline needs" in capsys.readouterr().err
    assert standing.TFIDF not in metrics(tmp_path / "out")[0]


def test_the_card_states_language_and_licence_and_a_resumed_run_repeats_or_changes_them(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "la").mkdir()  # no file is meant

    def stated(**more: object) -> list[str]:
        train(corpus, tmp_path / "out", **HOW, **more)  # type: ignore[arg-type]
        text = (tmp_path / "out/README.md").read_text(encoding="utf-8")
        return re.findall(r"^(?:language: .+|license: .+)|Language: .*? Licence: .*", text, re.M)

    before = ['language: ["la", "grc"]', 'license: "cc-by-4.0"', "Language: la, grc. Licence: cc-by-4.0."]
    assert stated(epochs=1, language="la,grc", license="cc-by-4.0") == before
    assert stated(epochs=2, resume=True) == before
    after = ['language: ["la", "grc"]', 'license: "mit"', "Language: la, grc. Licence: mit."]
    assert stated(epochs=2, resume=True, license="mit") == after
