"""Completion of commands, options and their values in shells."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from banyan.commands import _parser
from banyan.commands.completion import SHELLS, script


def completed(*words: str) -> list[str]:
    """What bash offers after these words."""
    line = " ".join(f"'{word}'" for word in words)
    program = f"{script('bash')}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _banyan; echo \"${{COMPREPLY[@]}}\""
    found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_bash_completes_commands_and_options():
    assert completed("banyan", "en") == ["encode"]
    assert set(_parser.names()) == set(completed("banyan", ""))
    assert completed("banyan", "encode", "--trunc") == ["--truncate-dim"]
    assert "--whole-file" not in completed("banyan", "train", "--")
    assert completed("banyan", "encode", "mod") == []  # files are left to the shell


def test_bash_completes_values():
    assert completed("banyan", "train", "--preset", "l") == ["light"]
    assert completed("banyan", "train", "a.txt", "--trees", "") == ["entangled", "plain"]
    assert completed("banyan", "search", "--by", "v") == ["vectors"]
    assert completed("banyan", "classify", "") == ["train", "predict"]
    assert completed("banyan", "classify", "train", "") == []
    assert completed("banyan", "train", "--out", "") == []


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_values():
    def offered(line: str) -> list[str]:
        program = f"{script('fish')}\ncomplete -C '{line}'"
        found = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, text=True, check=True)
        return [line.split("\t")[0] for line in found.stdout.splitlines()]

    assert offered("banyan train --preset l") == ["light"]
    assert offered("banyan classify ") == ["predict", "train"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script_and_the_shell_accepts_it(shell, banyan):
    text = banyan("completion", shell)[1]
    for name in _parser.names():
        assert name in text
        for option in _parser.parser_of(name).names:
            assert not option.startswith("--") or option.lstrip("-") in text
    if shutil.which(shell):
        check = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}[shell]
        assert subprocess.run(check, input=text, text=True, capture_output=True).returncode == 0
