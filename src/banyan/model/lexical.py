"""The lexical dimensions of an embedding: what the tree composes stands first, then the sum of its leaves' sketches.

A sketch tells how a token is spelt (banyan.model.initial). It is not learnt, and no gate shortens it: these
dimensions hold a text's characters as TF-IDF would compare them, and leave the others free for what is learnt.

What is learnt gets length 1, and the sum the length `lexical_weight`, however long the text is: the cosine of two
embeddings is then a weighted mean of two, by meaning and by spelling. Sketches are kept in int8, so that a model is
small and their sums are exact, in any order and on any device. Back ends add them up (Backend.lexical_sums).
"""

from __future__ import annotations

import math

import numpy as np

STEPS = 8  # of int8 to the deviation of a sketch's numbers


def rounded(sketches: np.ndarray) -> np.ndarray:
    """Sketches of length 1, on average, in int8 [V, L]."""
    steps = np.rint(sketches * (STEPS * math.sqrt(sketches.shape[1])))
    return steps.clip(-127, 127).astype(np.int8)
