"""One model, several speeds.

Numba keeps what it compiles beside the source or in the user's cache folder; where neither can be written (a read-only
container), a temporary folder must do.
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
