"""The modules of experiments/ and benchmarks/ import in one direction: pages use records, never the other way round."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from experiments.places import ROOT

# each imports those before it
ROOMS = ["experiments", "records", "translations", "training", "measuring", "figures", "latin", "pages"]


def modules() -> dict[str, Path]:
    """The files of both packages, by module name."""
    found = {}
    for package in ("experiments", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """All names that a file imports, at its top or inside functions: modules, and what is taken from them."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: a relative import"
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


MODULES = modules()
GRAPH = {name: imports(path) & set(MODULES) for name, path in MODULES.items()}


def test_no_module_imports_itself_through_others():
    assert set(TopologicalSorter(GRAPH).static_order()) == set(MODULES)


def test_no_module_imports_a_room_above_its_own():
    rooms = {name: path.parent.name for name, path in MODULES.items()}
    rooms["experiments.publish"] = ROOMS[-1]  # a command that uses all of them
    for name, imported in GRAPH.items():
        if name.startswith("experiments"):
            allowed = ROOMS[: ROOMS.index(rooms[name]) + 1]
            assert not {other for other in imported if rooms[other] not in allowed}, name


def test_a_module_that_runs_says_its_command():
    for name, path in MODULES.items():
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            docstring = ast.get_docstring(ast.parse(text)) or ""
            assert f"python -m {name.removesuffix('.__main__')}" in docstring, name
