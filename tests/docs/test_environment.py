"""What surrounds the program: environment variables, the logger, the container."""

from __future__ import annotations

import json
import logging
import re
import shlex
import sys

import pytest
from rich.console import Console
from rich.logging import RichHandler

from banyan.commands import _parser
from banyan.support.display import Display
from tests.helpers.places import ROOT


def test_every_environment_variable_is_in_the_table():
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".c")]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    used = set(re.findall(r"\bBANYAN_[A-Z]+(?:_[A-Z]+)*\b", source))
    listed = set(re.findall(r"^\| `(BANYAN_[A-Z_]+)`", (ROOT / "docs/faq.md").read_text(encoding="utf-8"), re.M))
    assert used == listed
    assert len(used) >= 6


def test_messages_are_logged_also_if_they_are_not_printed(caplog, capsys):
    with caplog.at_level(logging.INFO, "banyan"):
        Display(quiet=True).note("100% of [them]")
    assert [record.getMessage() for record in caplog.records] == ["100% of [them]"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", ["on the console", "in a file", "rich", "above"])
def test_a_message_that_the_log_shows_is_not_printed_as_well(kind, tmp_path, capsys, monkeypatch):
    logger = logging.getLogger("banyan")
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    handler = {
        "on the console": lambda: logging.StreamHandler(sys.stderr),
        "in a file": lambda: logging.FileHandler(tmp_path / "log"),
        "rich": lambda: RichHandler(console=Console(stderr=True, width=200)),
        "above": lambda: logging.StreamHandler(sys.stderr),
    }[kind]()
    handler.setLevel(logging.WARNING if kind == "above" else logging.INFO)
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.INFO)
    monkeypatch.setattr(root, "handlers", [handler])
    root.manager._clear_cache()  # type: ignore[attr-defined]  # of which levels are enabled
    try:
        Display().note("tokenised 7 lines")
    finally:
        handler.close()
        root.manager._clear_cache()  # type: ignore[attr-defined]
    assert capsys.readouterr().err.count("tokenised 7 lines") == 1


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]  # type: ignore[misc]


def test_the_container_copies_files_that_exist_and_runs_a_command_that_does():
    found = instructions()
    assert [name for name, _ in found].count("FROM") == 2
    assert all("slim" in text for name, text in found if name == "FROM")
    for name, text in found:
        if name == "COPY" and not text.startswith("--from"):
            assert all((ROOT / path).exists() for path in text.split()[:-1]), text
    last = dict(found)
    assert last["USER"] != "root"
    assert [name for name, _ in found].index("USER") < [text for _, text in found].index("banyan warmup")
    entry, given = json.loads(last["ENTRYPOINT"]), json.loads(last["CMD"])
    options = _parser.parse([*entry[1:], *given])
    assert (options.host, options.port) == ("0.0.0.0", 8080)


def test_the_health_check_of_the_container_is_python_that_asks_the_right_port():
    (check,) = [text for name, text in instructions() if name == "HEALTHCHECK"]
    program = json.loads(check.partition("CMD ")[2])[2]
    compile(program, "HEALTHCHECK", "exec")
    assert "127.0.0.1:8080/health" in program
    for name, text in instructions():
        if name == "RUN":
            assert shlex.split(text)


@pytest.mark.parametrize("name", ["serve", "search"])
def test_the_container_installs_what_a_server_with_an_index_needs(name):
    assert f"\n{name} = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (extras,) = [text.partition("=")[2] for kind, text in instructions() if kind == "ARG"]
    assert name in extras.split(",")
    assert any('".[$EXTRAS]"' in text for kind, text in instructions() if kind == "RUN")
