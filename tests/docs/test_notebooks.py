"""The notebooks run from beginning to end, in a folder of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEEDED = {"search-your-documents": ("lancedb",)}


def code_of(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    """As one program, in a new process: a kernel would take longer to start than the cells to run."""
    for package in NEEDED.get(path.stem, ()):
        pytest.importorskip(package)
    program = "\n".join(code_of(path))
    place = tmp_path
    if path.stem == "reproduce-a-table":
        place = ROOT / "notebooks"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=place, env={**os.environ, "COLUMNS": "120"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]


def test_a_kernel_runs_the_first_notebook(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    path = next(path for path in NOTEBOOKS if path.stem == "reproduce-a-table")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own packages
        notebook = nbformat.read(path, 4)
        nbformat.validate(notebook)
        done = nbclient.NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "notebooks")}}
        ).execute()
    assert [cell for cell in done.cells if cell.cell_type == "code"][-1].outputs


def test_notebooks_are_stored_without_results_and_are_listed():
    assert len(NOTEBOOKS) == 4
    pages = (ROOT / "docs/notebooks.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)
        assert path.name in pages
    assert shutil.which("git")
