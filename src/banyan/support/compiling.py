"""Numba's compiler, with a folder to keep what it compiles.

Numba caches kernels beside their source or in the user's cache folder. Where neither can be written (a read-only
container), it gets a temporary folder. Numba reads the setting when it is first imported, so every module that
compiles kernels imports `njit` from here.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _places() -> list[Path]:
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [Path(__file__).parent / "__pycache__", Path(user) / "numba"]


if "NUMBA_CACHE_DIR" not in os.environ and not any(map(_writable, _places())):
    os.environ["NUMBA_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"banyan-numba-{os.getuid()}")

from numba import njit  # noqa: E402

__all__ = ["njit"]
