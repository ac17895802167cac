"""Teachers: models whose vectors a student learns from.

teacher    Teacher, Encoder, open_teacher, about
remembered Remembered: a teacher that finished vectors do not need
local      a sentence-transformers model on this machine
endpoint   an OpenAI-compatible /v1/embeddings
at_once    call a function for several items at once
texts      TextFile: one text per line
making     make_vectors: encode texts once, resumable, in flat memory
stored     read_vectors: vectors that exist already, as .npy or Parquet
"""

from __future__ import annotations

from banyan.teachers.making import make_vectors
from banyan.teachers.remembered import Remembered, recorded
from banyan.teachers.stored import holds_vectors, read_vectors
from banyan.teachers.teacher import Encoder, Teacher, about, open_teacher
from banyan.teachers.texts import TextFile

__all__ = [
    "Encoder",
    "Remembered",
    "Teacher",
    "TextFile",
    "about",
    "holds_vectors",
    "make_vectors",
    "open_teacher",
    "read_vectors",
    "recorded",
]
