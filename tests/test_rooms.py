"""How the tests are arranged: in the rooms of the code, with what they share in helpers/."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.helpers.places import TESTS

FILES = sorted(TESTS.rglob("*.py"))


def imported(file: Path) -> set[str]:
    """The last part of the name of every module that the file imports from."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.rpartition(".")[2] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").rpartition(".")[2], *(name.name for name in node.names)}
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_no_file_imports_a_test_file_or_a_conftest(file):
    tests = {other.stem for other in FILES if other.name.startswith("test_")}
    assert not imported(file) & (tests | {"conftest"}), "what two test files share belongs in tests/helpers"


def test_tests_and_helpers_keep_apart():
    for file in FILES:
        inside = file.parent.name == "helpers"
        assert not (inside and file.name.startswith("test_")), file
        assert inside or file.name.startswith("test_") or file.name in ("conftest.py", "__init__.py"), file


# --- The size of the rooms -------------------------------------------------------------------------------------------

SOURCES = sorted((TESTS.parent / "src").rglob("*.py"))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.stem)
def test_a_file_of_the_source_is_read_in_one_sitting(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 530
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [one.name for one in functions if one.end_lineno - one.lineno >= 60] == []
