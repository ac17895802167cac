"""model2vec: static token vectors distilled from a sentence transformer; a text is the mean of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banyan.errors import BanyanError, first_line
from banyan.support.needs import needs


def load(name: str | Path, *, distill: bool = False, dim: int = 256) -> Static:
    """Load a model2vec model from a folder or by its name on the Hugging Face Hub.

    distill: the model is a sentence transformer; distil it to `dim` dimensions and keep the result.
    """
    try:
        with needs("The model2vec baseline", "baselines"):
            return Distilled(_distilled(name, dim)) if distill else Static(_loaded(name))
    except BanyanError:
        raise
    except Exception as error:  # from the files, the network or the package
        wanted = "a sentence transformer to distil" if distill else "a model2vec model"
        raise BanyanError(f"cannot load {name} as {wanted}: {first_line(error)}") from None


def _loaded(name: str | Path) -> Any:
    from model2vec import StaticModel

    return StaticModel.from_pretrained(str(name), force_download=False)


def _distilled(name: str | Path, dim: int) -> Any:
    from model2vec.distill import distill

    from banyan.baselines import relative  # noqa: F401 - registers our RoBERTa with transformers

    return distill(model_name=str(name), pca_dims=dim)


class Static:
    """An Encoder."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def dim(self) -> int:
        return int(self.model.dim)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Encode in this process; model2vec would start subprocesses for many texts."""
        return np.asarray(self.model.encode(list(texts), use_multiprocessing=False), np.float32)


class Distilled(Static):
    def keep(self, folder: Path) -> None:
        self.model.save_pretrained(str(folder))
