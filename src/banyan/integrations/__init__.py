"""Banyan inside other libraries: one module for each, which imports its library only when it is imported itself.

`from banyan.integrations.sklearn import BanyanTransformer`, and so on: docs/integrations.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from banyan.encoder import Banyan


def as_model(model: Banyan | str | Path, device: str = "cpu", revision: str | None = None) -> Banyan:
    """A model as it is, or the one of a folder or of a name on the Hugging Face Hub."""
    from banyan.encoder import Banyan

    return model if isinstance(model, Banyan) else Banyan.from_pretrained(model, device, revision=revision)
