"""Numba's compiler, with a folder to keep what it compiles. It says so when it takes long.

Encoding uses it only where the native kernels are missing (banyan.native); training on a CPU always does.
Numba caches kernels beside their source or in the user's cache folder. Where neither can be written (a read-only
container), it gets a temporary folder. Numba reads the setting when it is first imported, so every module that
compiles kernels imports `njit` from here. BANYAN_PATIENCE is the time in seconds, by default 1, after which compiling
is announced.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from banyan.errors import BanyanError
from banyan.support.log import log


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
from numba.core import event  # noqa: E402

__all__ = ["njit"]

COMPILING = "compiling kernels for this machine: once, for up to half a minute"


def _patience() -> float:
    wanted = os.environ.get("BANYAN_PATIENCE") or "1"
    with suppress(ValueError):
        if float(wanted) >= 0:
            return float(wanted)
    raise BanyanError(f"BANYAN_PATIENCE must be a number of seconds, or inf, not {wanted!r}")


class Announcement(event.Listener):
    """Says once, through `logging`, that our kernels are being compiled, if that takes long."""

    def __init__(self) -> None:
        self.depth = 0  # a kernel is compiled while another one that calls it is
        self.patience = _patience()
        self.seconds = self.began = 0.0
        self.told = False

    def on_start(self, started: Any) -> None:
        now = time.monotonic()
        if self.depth == 0:
            self.began = now
        self.depth += 1
        function = started.data["dispatcher"].py_func
        ours = function.__module__.startswith("banyan.")
        if ours and not self.told and self.seconds + now - self.began > self.patience:
            self.told = True
            log.warning(COMPILING)

    def on_end(self, ended: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.monotonic() - self.began


event.register("numba:compile", Announcement())
