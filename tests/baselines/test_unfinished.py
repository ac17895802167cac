"""Runs that can be resumed: one process at a time, and nothing of anybody else is lost."""

from __future__ import annotations

import pytest

from banyan.errors import BanyanError
from banyan.support import files

pytest.importorskip("torch", reason="torch is not installed")

from banyan.baselines.folder import Manifest, read
from banyan.baselines.unfinished import RECORD, finish, run_in

SETTINGS = {"seed": 1, "device": "cpu"}


def fails(work, name: str, error: BaseException) -> None:
    """Leave a file, and fail."""
    (work / name).write_text("{}")
    raise error


def finished(out) -> None:
    finish(out, lambda folder: (folder / "weights").write_text("one"), Manifest("roberta", SETTINGS))


def test_a_finished_run_leaves_only_its_result(tmp_path):
    out = tmp_path / "out"
    with run_in(out, SETTINGS) as work:
        (work / RECORD).write_text("{}")
        with pytest.raises(BanyanError, match="another process is training in"), run_in(out, SETTINGS):
            pass
        finished(out)
    assert {path.name for path in out.iterdir()} == {"weights", "baseline.json"}
    assert read(out).name == "roberta"


def test_a_run_that_another_process_finished_in_the_meantime_is_not_replaced(tmp_path, monkeypatch):
    out, held = tmp_path / "out", files.held

    def late(folder, otherwise):
        monkeypatch.setattr(files, "held", held)
        with run_in(out, SETTINGS):
            finished(out)
        return held(folder, otherwise)

    monkeypatch.setattr(files, "held", late)
    with pytest.raises(BanyanError, match="exists already and is not an empty folder"), run_in(out, SETTINGS):
        pytest.fail("it began")
    assert {path.name for path in out.iterdir()} == {"weights", "baseline.json"}


def test_a_failure_before_anything_is_trained_leaves_nothing(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(BanyanError, match="no text"), run_in(out, SETTINGS) as work:
        fails(work, "tokens", BanyanError("no text"))
    assert not out.exists()


def test_an_unfinished_run_is_resumed_with_the_same_settings(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), run_in(out, SETTINGS) as work:
        fails(work, RECORD, KeyboardInterrupt())
    with pytest.raises(BanyanError, match="began with seed=1, not 2"), run_in(out, {**SETTINGS, "seed": 2}):
        pass
    with run_in(out, {**SETTINGS, "device": "cuda"}) as work:
        assert (work / RECORD).exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "text.txt").write_text("mine")
    with pytest.raises(BanyanError, match="training exists already and is not an empty"), run_in(tmp_path, SETTINGS):
        pytest.fail("it began")
    assert [path.name for path in (tmp_path / "training").iterdir()] == ["text.txt"]
    with pytest.raises(BanyanError, match="there is no folder"), run_in(tmp_path / "none" / "out", SETTINGS):
        pass
    assert not (tmp_path / "none").exists()
