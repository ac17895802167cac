"""Ctrl-C and SIGTERM, which let the loop finish its step and save."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(KeyboardInterrupt):
    """The user interrupted the run, and it was saved."""


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM, so that the loop can finish its step and save. A second Ctrl-C stops immediately."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
