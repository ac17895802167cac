"""The encoder in C, from strings to vectors. It is built when Banyan is installed, if there is a C compiler; without
it, Numba compiles the same kernels when they are first needed.

pieces.c   text to pieces: what tokenizer/kernels.py does
trees.c    tokens to trees and their roots: backends/_numba/trees.py
words.c    the lexical dimensions: backends/_numba/lexical.py and word_ngrams.py
vectors.h  the loops over columns, compiled for each instruction set by vectors.c
crc.c      checksums: zlib.crc32, faster
objects.c  the tables as Python objects. Every index in them is checked when they are made
module.c   functions on texts and buffers

BANYAN_KERNELS is "native" or "numba": which of the two encode. The default is native, if it was built.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType

from banyan.errors import BanyanError

NAMES = ("native", "numba")


def kernels() -> ModuleType | None:
    """Return the compiled module, or None if Numba is to be used."""
    wanted = os.environ.get("BANYAN_KERNELS") or None
    if wanted not in (None, *NAMES):
        raise BanyanError(f"BANYAN_KERNELS must be one of {', '.join(NAMES)}, not {wanted!r}")
    found = None if wanted == "numba" else _compiled()
    if wanted == "native" and found is None:
        raise BanyanError("BANYAN_KERNELS is native, but those kernels are not built: install Banyan with a C compiler")
    return found


@cache
def _compiled() -> ModuleType | None:
    try:
        return import_module("banyan.native._kernels")
    except ImportError:  # not built, or for another machine
        return None
