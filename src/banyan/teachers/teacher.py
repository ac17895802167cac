"""Find the teacher that a user names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np

from banyan.errors import BanyanError
from banyan.teachers import stored

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_KINDS = "a sentence-transformers folder or its name on the Hugging Face Hub, or the address of a /v1/embeddings"


class Encoder(Protocol):
    """Turns texts into vectors."""

    name: str  # as the user named it

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return float32 vectors, one row per text. Raise BanyanError on failure. No text is blank."""
        ...


class Teacher(Encoder, Protocol):
    """A model that turns texts into vectors, and what is known about it."""

    kind: str  # hub, folder, address or, if a model teaches itself, itself
    licence: str | None  # from its model card; None if unknown


def open_teacher(source: str, device: str = "auto") -> Teacher:
    """Open a sentence-transformers folder, a model on the Hugging Face Hub or an OpenAI-compatible endpoint.

    source: a folder, a name on the Hub, or an address that ends in /v1 or /embeddings, with "#model" to name a model.
    device: of a sentence-transformers model; "auto" is the GPU if there is one.
    """
    if "://" in source:
        from banyan.teachers.endpoint import Endpoint

        return Endpoint(source)
    if stored.holds_vectors(source):
        if not stored.exists(source):
            raise BanyanError(f"there is no file {source}")
        raise BanyanError(f"{source} holds vectors and cannot encode further texts; for that, name {_KINDS}")
    folder = Path(source)
    if folder.is_file():
        raise BanyanError(f"{source} is a file, and a teacher is {_KINDS}, or vectors in a .npy or Parquet file")
    if not source or not (folder.is_dir() or _HUB_NAME.fullmatch(source)):
        raise BanyanError(f"there is no teacher {source!r}: name {_KINDS}, or a .npy or Parquet file of vectors")
    from banyan.teachers.local import LocalTeacher

    return LocalTeacher(source, device)


def about(source: str | Teacher) -> dict[str, Any]:
    """The name, kind, licence and width of a teacher, or of a file of vectors. What is not known is None.

    The name can be published: it has neither the directories of a path nor the query of an address. An endpoint's width
    is known once it has encoded a text.
    """
    if isinstance(source, str) and stored.holds_vectors(source):
        return {"name": Path(source).name, "kind": "vectors", "licence": None, "width": stored.width(Path(source))}
    teacher = open_teacher(source) if isinstance(source, str) else source
    name = teacher.name
    if teacher.kind == "folder":
        name = Path(name).resolve().name
    elif teacher.kind == "address":
        name = urlsplit(name)._replace(query="").geturl()
    width = getattr(teacher, "width", None)
    return {"name": name, "kind": teacher.kind, "licence": teacher.licence, "width": width}
