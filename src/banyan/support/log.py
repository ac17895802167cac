"""The logger "banyan": for messages that a program may want to keep, or to silence.

Without a handler, Python prints warnings on standard error, and nothing below them."""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("banyan")


def shows(level: int) -> bool:
    """Whether a handler shows messages of this level on the console."""
    logger: logging.Logger | None = log if log.isEnabledFor(level) else None
    while logger:
        if any(each.level <= level and _on_console(each) for each in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _on_console(handler: logging.Handler) -> bool:
    """Handlers of rich have a console instead of a stream."""
    return hasattr(handler, "console") or getattr(handler, "stream", None) in (sys.stdout, sys.stderr)
