"""`make test-gpu`: which tests it chooses, what it records, and what it says where there is no card."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_tests
from tests.helpers import marks

REPORT = """<testsuites><testsuite time="2.5">
<testcase classname="tests.a" name="one"/>
<testcase classname="tests.a" name="two"><skipped message="could not import 'x'"/></testcase>
<testcase classname="tests.b" name="three"><failure message="no"/></testcase>
</testsuite></testsuites>"""


def test_without_a_card_it_fails_in_one_sentence(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_tests.main(["--out", str(tmp_path / "out.json")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: there is no CUDA GPU on this machine, so the tests that need one cannot run here"
    ]
    assert not (tmp_path / "out.json").exists()


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(gpu_tests, "NEEDED", ("torch", "no_such_package"))
    assert gpu_tests.main([]) == 2
    assert capsys.readouterr().err.startswith("error: the tests need no_such_package: install what is missing")


def with_report(monkeypatch, report: str, code: int) -> list[list[str]]:
    """Pretend that there is a card, and that pytest ends with this report."""
    commands: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess:
        commands.append(command)
        place = next(part.removeprefix("--junitxml=") for part in command if part.startswith("--junitxml="))
        Path(place).write_text(report, encoding="utf-8")
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(gpu_tests, "why_not", lambda: "")
    monkeypatch.setattr(gpu_tests, "_machine", lambda: {"card": "Some Card", "versions": {}})
    monkeypatch.setattr(gpu_tests.subprocess, "run", run)
    return commands


@pytest.mark.parametrize("code", [0, 1])
def test_counts_commit_and_card_are_recorded_and_a_failure_is_the_exit_code(monkeypatch, tmp_path, code):
    commands = with_report(monkeypatch, REPORT, code)
    assert gpu_tests.main(["--out", str(tmp_path / "out.json"), "--commit", "abc", "-k", "self_strae"]) == code
    assert commands[-1][-2 - len(gpu_tests.chosen_files()) :][:2] == ["-k", "self_strae"]
    record = json.loads((tmp_path / "out.json").read_text())
    assert (record["commit"], record["card"], record["exit_code"], record["seconds"]) == ("abc", "Some Card", code, 2.5)
    assert record["counts"] == {"passed": 1, "skipped": 1, "failed": 1}
    assert record["skipped"] == {"could not import 'x'": 1}
    assert record["failed"] == ["tests.b::three"]


def test_the_files_of_such_tests_are_found_and_no_others():
    found = gpu_tests.chosen_files()
    assert {"tests/backends/test_triton.py", "tests/backends/test_behaviours.py", "tests/test_golden.py"} <= set(found)
    assert {"tests/training/test_gpu_training.py", "tests/tuning/test_gpu_tuning.py"} <= set(found)
    assert not any(path.startswith("tests/serve") for path in found)


def test_a_run_of_no_tests_is_a_failure(monkeypatch, tmp_path, capsys):
    with_report(monkeypatch, "<testsuites/>", 0)
    assert gpu_tests.main(["--out", str(tmp_path / "out.json"), "--commit", "abc"]) == 2
    assert "no test ran" in capsys.readouterr().err


def test_tests_that_need_a_gpu_are_skipped_without_one():
    """The hook in conftest.py does so; what runs the kernels in the interpreter is not skipped."""

    class Item:
        def __init__(self, *marks: str, **params: str) -> None:
            self.marks, self.callspec = list(marks), type("Spec", (), {"params": params})

        def get_closest_marker(self, name: str) -> bool:
            return name in self.marks

        def add_marker(self, mark: object) -> None:
            self.marks.append(getattr(mark, "name", mark))

    items = [Item("gpu"), Item(backend="triton"), Item(backend="torch"), Item(backend="numba")]
    marks.mark(items)
    skipped = [] if torch.cuda.is_available() else ["skip"]
    assert [item.marks for item in items] == [["gpu", *skipped], ["kernels"], ["kernels"], []]
