"""The logger "banyan": for messages that a program may want to keep, or to silence.

Without a handler, Python prints warnings on standard error, and nothing below them."""

from __future__ import annotations

import logging

log = logging.getLogger("banyan")
