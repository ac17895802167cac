"""What the tables of the kernels hold: entries for code points, and the spellings of pieces.

An entry, from the lowest bit: 32 bits value, 3 kind, 5 number of characters (MANY), 2 join, 1 whole, 1 starter,
8 combining class, 8 combining class at the end. The value of a character is the id of its piece, or -1 - code point if
it has none (then it is spelt in bytes). White space has the value of the mark ▁. The value of MANY is where the entries
of its characters begin in the expansions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

SPACE, LETTER, NUMBER, OTHER, MARK, MANY, ODD = range(7)  # ODD: leave the sentence to `tokenizers`
FREE, ORDERED, COMPOSING = range(3)  # join: how a code point may interact with those before it
KIND_AT, MANY_AT, JOIN_AT, WHOLE_AT, STARTER_AT, CLASS_AT, LAST_CLASS_AT = 32, 35, 40, 42, 43, 44, 52

PAGE = 16  # code points that are looked up together
PAGES = 0x110000 // PAGE
LONGEST = 256  # characters in a chunk; merging is quadratic, so longer chunks are left to `tokenizers`
WINDOW = 4096  # characters to normalise and cut before making pieces
END = -(2**31)  # terminates each spelling


def entry(
    value: int, kind: int, many: int = 0, join: int = FREE, whole: bool = False, ccc: int = 0, last_ccc: int = 0
) -> int:
    bits = kind << KIND_AT | many << MANY_AT | join << JOIN_AT | whole << WHOLE_AT | (ccc == 0) << STARTER_AT
    return bits | ccc << CLASS_AT | last_ccc << LAST_CLASS_AT | value & 0xFFFFFFFF


def spell_out(pieces: Sequence[str], value: Callable[[str], int]) -> tuple[Ints, Longs, Longs]:
    """Return the character values of all pieces, and where each piece begins and how long it is."""
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    codes = np.frombuffer("".join(pieces).encode("utf-32-le"), np.int32)
    of_code = np.zeros(codes.max(initial=0) + 1, np.int32)
    of_code[codes] = 1
    used = np.flatnonzero(of_code)
    of_code[used] = [value(chr(code)) for code in used.tolist()]
    begins = np.cumsum(sizes) - sizes
    starts = begins + np.arange(len(sizes))
    spellings = np.full(len(codes) + len(sizes), END, np.int32)
    spellings[np.arange(len(codes)) + np.repeat(starts - begins, sizes)] = of_code[codes]
    return spellings, starts, sizes
