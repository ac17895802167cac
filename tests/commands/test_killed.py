"""What a killed command left is gone once the same command has run again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.corpora import write_lines
from tests.helpers.killed_command import main
from tests.helpers.places import ROOT

SMALL = "--preset paper --epochs 1 --dim 16 --channels 8 --vocab-size 400 --device cpu --quiet --checkpoint-every 0"
COMMANDS = {
    "save": ("save MODEL OUT", ""),
    "train": (f"train CORPUS --out OUT {SMALL}", "--resume"),
    "encode": ("encode MODEL CORPUS -o OUT.npy --quiet", "--resume"),
    "index": ("index MODEL CORPUS -o OUT --quiet", ""),
    "export": ("export MODEL --format static -o OUT", ""),
}


def names(folder: Path) -> set[str]:
    """Every file, except those that Lance names at random."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "rows.lance" not in path.parts}


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_leaves_nothing_behind_once_it_has_run_again(model_folder, tmp_path, command, n):
    corpus = write_lines(tmp_path / "corpus.txt", 200)
    line, again = COMMANDS[command]

    def arguments(folder: str) -> list[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        words = {"MODEL": model_folder, "CORPUS": corpus, "OUT": tmp_path / folder / "out"}
        words["OUT.npy"] = tmp_path / folder / "out.npy"
        return [str(words.get(word, word)) for word in line.split()]

    assert main(arguments("whole")) == 0
    killed = [sys.executable, "-m", "tests.helpers.killed_command", str(n), *arguments("killed")]
    assert subprocess.run(killed, cwd=ROOT, check=False, timeout=120).returncode == -signal.SIGKILL
    assert names(tmp_path / "killed") - names(tmp_path / "whole"), "the kill left nothing to be removed"
    assert main([*arguments("killed"), *again.split()]) == 0
    assert names(tmp_path / "killed") == names(tmp_path / "whole")
