"""Banyan inside other libraries: one module for each, which imports its library only when it is imported itself.

`from banyan.integrations.sklearn import BanyanTransformer`, and so on: docs/integrations.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.encoder import Banyan


@contextmanager
def needs(library: str) -> Iterator[None]:
    """A sentence instead of a traceback where the library that is imported within is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        because = "" if error.name == library.replace("-", "_") else f" (there is no module {error.name})"
        raise BanyanError(f"this needs {library}{because}: pip install {library}") from None


def as_model(model: Banyan | str | Path, device: str = "cpu", revision: str | None = None) -> Banyan:
    """A model as it is, or the one of a folder or of a name on the Hugging Face Hub."""
    from banyan.encoder import Banyan

    return model if isinstance(model, Banyan) else Banyan.from_pretrained(model, device, revision=revision)
