"""How the tests are arranged: in the rooms of the code, with what they share in helpers/."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.helpers.places import ROOT, TESTS

FILES = sorted(TESTS.rglob("*.py"))
BESIDE = {"helpers", "golden", "data", "experiments", "docs"}  # folders that belong to no room of src/banyan


def imported(file: Path) -> set[str]:
    """The last part of the name of every module that the file imports from."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.rpartition(".")[2] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").rpartition(".")[2], *(name.name for name in node.names)}
    return found


def test_no_file_imports_a_test_file_or_a_conftest():
    tests = {file.stem for file in FILES if file.name.startswith("test_")}
    for file in FILES:
        assert not imported(file) & (tests | {"conftest"}), f"{file}: what test files share belongs in tests/helpers"


def test_every_room_of_tests_is_a_room_of_the_code():
    rooms = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms - BESIDE <= {path.parent.name for path in (ROOT / "src" / "banyan").glob("*/__init__.py")}


def test_tests_and_helpers_keep_apart():
    for file in FILES:
        inside = file.parent.name == "helpers"
        assert not (inside and file.name.startswith("test_")), file
        assert inside or file.name.startswith("test_") or file.name in ("conftest.py", "__init__.py"), file


# --- The size of the rooms -------------------------------------------------------------------------------------------

SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.stem)
def test_a_file_of_the_source_is_read_in_one_sitting(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 530
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [one.name for one in functions if one.end_lineno - one.lineno >= 60] == []
