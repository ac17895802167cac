"""model2vec: static vectors of tokens that were distilled from a sentence transformer; a text is their mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banyan.errors import BanyanError, first_line


def load(name: str | Path, *, distill: bool = False, dim: int = 256) -> Static:
    """A folder, or a name on the Hugging Face Hub.
    distill: it is a sentence transformer, and made into such a model first, of `dim` dimensions: needs
    `pip install "model2vec[distill]"`, and is done again each time it is loaded."""
    try:
        return Static(_distilled(name, dim) if distill else _loaded(name))
    except ImportError as error:
        missing = f"model2vec is not complete ({first_line(error)})"
        raise BanyanError(f'{missing}: pip install "model2vec[distill]"') from None


def _loaded(name: str | Path) -> Any:
    from model2vec import StaticModel

    try:
        return StaticModel.from_pretrained(str(name), force_download=False)
    except ImportError:
        raise
    except Exception as error:  # whatever the files, the network or the package may raise
        raise BanyanError(f"cannot load {name} as a model2vec model: {first_line(error)}") from None


def _distilled(name: str | Path, dim: int) -> Any:
    from model2vec.distill import distill

    return distill(model_name=str(name), pca_dims=dim)


class Static:
    """An encoder."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def dim(self) -> int:
        return int(self.model.dim)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Without subprocesses, which model2vec would start for many texts."""
        return np.asarray(self.model.encode(list(texts), use_multiprocessing=False), np.float32)
