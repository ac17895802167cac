"""The commit of the code and the versions of packages, for records."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from experiments.places import ROOT


def commit(*paths: str) -> str | None:
    """The commit of the code, with + if these paths have uncommitted changes; None outside a git repository."""
    try:
        return _git("rev-parse", "--short=12", "HEAD") + "+" * bool(_git("status", "--porcelain", *paths))
    except (OSError, subprocess.CalledProcessError):
        return None


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()
