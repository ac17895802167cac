"""The log: JSON lines on standard error. Texts are never logged."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson

_STANDARD_ERROR = 2
_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
_waiting: list[bytes] = []


def write(level: str, event: str, **values: Any) -> None:
    """Write a line now."""
    later(level, event, **values)
    flush()


def later(level: str, event: str, **values: Any) -> None:
    """Queue a line for the next `write` or `flush`: a system call per line would cost more than encoding a sentence."""
    line = {"time": datetime.now(UTC), "level": level, "event": event, "process": os.getpid(), **values}
    _waiting.append(orjson.dumps(line, option=_OPTIONS))


def flush() -> None:
    lines = memoryview(b"".join(_waiting))
    _waiting.clear()
    with suppress(OSError):  # standard error is closed: serve without a log
        while lines:
            lines = lines[os.write(_STANDARD_ERROR, lines) :]


class _Handler(logging.Handler):
    """Writes the messages of uvicorn and asyncio as JSON lines too."""

    def emit(self, record: logging.LogRecord) -> None:
        values = {"logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            values["traceback"] = logging.Formatter().formatException(record.exc_info)
        write(record.levelname.lower(), record.getMessage().strip(), **values)


def take_over() -> None:
    """Send the libraries' warnings and errors through `write`."""
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], False
        logger.setLevel(logging.WARNING)
    logging.getLogger("uvicorn").addHandler(_Handler())
    logging.getLogger("asyncio").addHandler(_Handler())
    logging.getLogger("uvicorn.error").propagate = True
