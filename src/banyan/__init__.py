"""Banyan: sentence embeddings from your own text. Importing this imports neither torch nor numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from banyan._version import __version__

if TYPE_CHECKING:
    from banyan.config import Config
    from banyan.encoder import Banyan
    from banyan.errors import BanyanError
    from banyan.training import train

__all__ = ["Banyan", "BanyanError", "Config", "__version__", "train"]

_HOMES = {
    "Banyan": "banyan.encoder",
    "BanyanError": "banyan.errors",
    "Config": "banyan.config",
    "train": "banyan.training",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'banyan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
