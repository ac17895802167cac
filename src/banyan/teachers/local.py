"""A sentence-transformers model on this machine: a folder, or a name on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from banyan.errors import BanyanError, first_line
from banyan.support.needs import needs

_ON_CPU = 32  # texts at a time: more would not fit into the caches
_ELSEWHERE = 1024
_DESCRIPTIONS = "modules.json", "config.json"  # a model's folder has at least one of them


class LocalTeacher:
    def __init__(self, source: str, device: str = "auto") -> None:
        with needs(f"The teacher {source}", "teacher"):
            from sentence_transformers import SentenceTransformer

            from banyan.support import devices
            from banyan.support.quiet import quietly
        if Path(source).is_dir() and not any((Path(source) / name).exists() for name in _DESCRIPTIONS):
            raise BanyanError(f"the folder {source} holds no sentence-transformers model: it has no {_DESCRIPTIONS[0]}")
        self.name, self.kind = source, "folder" if Path(source).is_dir() else "hub"
        self._using, self._device = devices.using, devices.choose(device)
        self._size = _ON_CPU if self._device.type == "cpu" else _ELSEWHERE
        with quietly():
            try:
                self._model = SentenceTransformer(source, device=str(self._device))
            except Exception as error:  # anything that its files, the network, the Hub or the packages may raise
                raise BanyanError(f"cannot load the teacher {source}: {_reason(source, error)}") from None
        self.width = self.encode(["text"]).shape[1]
        self.licence = licence(source)

    def encode(self, texts: list[str]) -> np.ndarray:
        with self._using(self._device, False):
            while True:
                try:
                    found = self._model.encode(texts, batch_size=self._size, show_progress_bar=False)
                    return np.asarray(found, np.float32)
                except Exception as error:  # anything that the model's own code may raise
                    if type(error).__name__ != "OutOfMemoryError" or self._size == 1:  # of torch
                        raise BanyanError(f"the teacher {self.name} failed: {first_line(error)}") from None
                self._size = -(-min(self._size, len(texts)) // 2)


def _reason(source: str, error: Exception) -> str:
    said = first_line(error).rstrip(".")
    return said if Path(source).is_dir() else f"there is no such folder, and from the Hugging Face Hub: {said}"


def licence(source: str) -> str | None:
    """The licence in the metadata of a model card, or None. For a name on the Hub, the model is in the cache."""
    from huggingface_hub import hf_hub_download, metadata_load

    try:
        if Path(source).is_dir():
            card = Path(source) / "README.md"
        else:
            repository = source if "/" in source else f"sentence-transformers/{source}"
            card = Path(hf_hub_download(repository, "README.md"))
        about: dict[str, Any] = metadata_load(card) or {}
    except Exception:  # no card, or one that cannot be read: the licence is unknown
        return None
    found = about.get("license_name") if about.get("license") == "other" else None
    found = found or about.get("license")
    return ", ".join(map(str, found)) if isinstance(found, list) else str(found) if found else None
