"""What goes to PyPI: a source archive, and a wheel built from it, installed where nothing else of ours is."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

USE = """
import sys, banyan, banyan.native
from banyan import Banyan
print(banyan.__file__, banyan.native.kernels() is not None)
print(Banyan.from_pretrained(sys.argv[1]).encode(["a cat"]).shape)
"""
AROUND = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md")
MADE = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")  # not part of the source


def run(*command: object, **more: str) -> str:
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_what_goes_to_pypi_is_whole_and_works(tmp_path, model_folder):
    """One test, because building takes a while. The wheel is built from the source archive, as pip would."""
    pytest.importorskip("build", reason="build is not installed")
    tree, out = tmp_path / "tree", tmp_path / "out"
    shutil.copytree(ROOT / "src", tree / "src", ignore=MADE)
    for name in AROUND:
        shutil.copy(ROOT / name, tree)
    package = {str(path.relative_to(tree)) for path in (tree / "src").rglob("*") if path.is_file()}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree)
    (archive,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    check_archive(archive, package)
    check_wheel(wheel, {name.removeprefix("src/") for name in package if not name.endswith((".c", ".h"))})
    run(sys.executable, "-m", "twine", "check", "--strict", archive, wheel)
    check_installed(wheel, tmp_path / "installed", model_folder)


def check_archive(archive: Path, package: set[str]) -> None:
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert package | set(AROUND) <= names


def check_wheel(wheel: Path, package: set[str]) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
        about = email.message_from_bytes(opened.read(next(n for n in opened.namelist() if n.endswith("/METADATA"))))
    (kernels,) = names - package
    assert re.fullmatch(r"banyan/native/_kernels\..*", kernels)
    assert package <= names
    links = re.findall(r"\]\(([^)]*)\)", str(about.get_payload()))
    assert not [link for link in links if not link.startswith("https://")]  # a path leads nowhere on PyPI
    assert "sentence as a tree" in str(about.get_payload())
    assert all(about[field] for field in ("Author", "Keywords", "Classifier", "Project-URL", "License-Expression"))


def check_installed(wheel: Path, place: Path, model_folder: Path) -> None:
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, wheel)
    told = run(sys.executable, "-c", USE, model_folder, PYTHONPATH=str(place)).splitlines()
    assert told == [f"{place}/banyan/__init__.py True", "(1, 16)"]
