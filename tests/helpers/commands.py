"""What the command line says."""

from __future__ import annotations

from banyan.support.display import COMPILING


def unhurried(err: str) -> str:
    """Messages but for the one that is said on a machine that is new or busy."""
    return err.replace(f"{COMPILING}\n", "")
