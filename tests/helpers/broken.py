"""Folders of models that are damaged on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from banyan import BanyanError
from banyan.support.checksums import SUMS


def broken(source: Path, folder: Path, break_it: Callable[[Path], object]) -> Path:
    """A copy of a folder with something broken in it, and without the checksums that would tell."""
    shutil.copytree(source, folder)
    (folder / SUMS).unlink()
    break_it(folder)
    return folder


def assert_refused(load: Callable[[Path], object], folder: Path, told: str) -> None:
    """A folder is refused in one sentence."""
    with pytest.raises(BanyanError) as refused:
        load(folder)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
