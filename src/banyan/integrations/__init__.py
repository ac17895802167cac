"""Banyan in other libraries: one module per library, for example banyan.integrations.sklearn (docs/integrations.md).

A library is imported only when its module is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from banyan.encoder import Banyan


def as_model(model: Banyan | str | Path, device: str = "cpu", revision: str | None = None) -> Banyan:
    """Return a Banyan as it is; load one from a folder or by its name on the Hugging Face Hub."""
    from banyan.encoder import Banyan

    return model if isinstance(model, Banyan) else Banyan.from_pretrained(model, device, revision=revision)


def class_of(model: Banyan) -> type[Banyan]:
    """The class of a model. If BERTopic is imported, the model becomes one that BERTopic takes."""
    from banyan.encoder import Banyan

    if type(model) is Banyan and hasattr(sys.modules.get("bertopic.backend"), "BaseEmbedder"):
        from banyan.integrations.bertopic import adopt

        return adopt(model)
    return type(model)
