"""`make bench`: README's claims beside what was measured."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from benchmarks import __main__ as bench
from benchmarks.claims import checked
from experiments.places import BENCHMARKS, ROOT

README = """
| what | figure | script |
|---|---|---|
| encoding | 9.9 times `model2vec`, in 2.0 MB | `benchmarks/encode.py` <!-- sources: 9.9 = bench("encode", "ratio") at least; 2.0 > bench("encode", "MB") --> |
| a map | 6.5 s of 5,000 rows | `benchmarks/map.py` <!-- sources: 6.5 = bench("map", "s") at most --> |
"""  # noqa: E501


@pytest.fixture
def measured(tmp_path):
    def write(**files):
        for name, content in files.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        return tmp_path

    return write


def test_a_claim_holds_up_to_the_noise_of_a_machine(measured):
    found = checked(README, measured(encode={"ratio": 9.3, "MB": 1.2}, map={"s": 7.0}))
    assert [one.verdict for one in found] == ["holds"] * 3
    assert found[0] == ("encoding", "benchmarks/encode.py", "at least 9.9 times model2vec", "9.3", True)
    assert (found[1].claimed, found[1].measured, found[2].claimed) == ("less than 2.0 MB", "1.2", "at most 6.5 s of 5")


@pytest.mark.parametrize(
    ("encode", "seconds", "lost"),
    [({"ratio": 8.8, "MB": 1}, 6.5, 0), ({"ratio": 20, "MB": 2.1}, 1.0, 1), ({"ratio": 9.9, "MB": 1}, 7.2, 2)],
)
def test_a_claim_that_is_clearly_worse_does_not_hold(measured, capsys, encode, seconds, lost):
    found = checked(README, measured(encode=encode, map={"s": seconds}))
    assert [one.holds for one in found] == [at != lost for at in range(3)]
    bench.show(found)
    assert "1 of 3 claims do not hold here: " in capsys.readouterr().out


def test_what_was_not_measured_is_said_to_be_so(measured, capsys):
    found = checked(README, measured(encode={"ratio": 10.0, "MB": 1.0}))
    assert (found[2].verdict, found[2].measured) == ("not measured here", "")
    bench.show(found)
    assert "All 2 claims hold here." in capsys.readouterr().out


def test_every_script_of_readme_s_claims_is_a_benchmark_and_the_kept_figures_hold():
    found = checked((ROOT / "README.md").read_text(encoding="utf-8"), BENCHMARKS)
    assert {one.holds for one in found} == {True}
    assert all((ROOT / one.script).is_file() for one in found)
    assert len({one.script for one in found}) > 8


def test_a_benchmark_s_last_line_is_kept_apart_from_readme_s_figures(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(bench, "MEASURED", tmp_path / "measured")
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path / "results")
    shown = "print('a table'); print('{\"ratio\": 2}')"
    assert bench.run("encode", [sys.executable, "-c", shown])
    assert json.loads((tmp_path / "measured/encode.json").read_text()) == {"ratio": 2}
    assert not (tmp_path / "results").exists()
    assert "a table" in capfd.readouterr().out
    assert not bench.run("encode", [sys.executable, "-c", "raise SystemExit(3)"])
    assert not (tmp_path / "measured/encode.json").exists()
    shutil.rmtree(tmp_path / "measured")
    assert bench.run("encode", [sys.executable, "-c", shown], keep=True)
    assert (tmp_path / "results/encode.json").exists()


def test_figures_of_a_machine_with_more_cores_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "MEASURED", tmp_path / "measured")
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    for before, now, kept in (
        ("16 × Xeon", "2 × EPYC", 16),
        ("2 × Xeon", "2 × EPYC", 2),
        ("2 × Xeon", "16 × EPYC", 16),
    ):
        (tmp_path / "cores.json").write_text(json.dumps({"machine": before}))
        shown = json.dumps({"machine": now})
        assert bench.run("cores", [sys.executable, "-c", f"print({shown!r})"], keep=True)
        assert int(json.loads((tmp_path / "cores.json").read_text())["machine"].split()[0]) == kept
        assert json.loads((tmp_path / "measured/cores.json").read_text())["machine"] == now
