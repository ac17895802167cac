"""The lexical dimensions of an embedding: the sum of the tokens' sketches, which follows the composed dimensions.

A sketch encodes the spelling of a token (banyan.model.initial). It is not learned, and gates do not scale it. The
lexical dimensions represent a text's characters much as TF-IDF does, and leave the other dimensions to what is learned.

The composed part is scaled to norm 1 and the lexical part to norm `lexical_weight`, whatever the length of the text.
The cosine of two embeddings is thus a weighted mean of two cosines: one by meaning, one by spelling. Sketches are
stored in int8, so that models stay small and sums are exact, in any order and on any device. Back ends compute the
sums (Backend.lexical_sums).
"""

from __future__ import annotations

import math

import numpy as np

STEPS = 8  # int8 steps per standard deviation of a sketch's components


def rounded(sketches: np.ndarray) -> np.ndarray:
    """Round sketches with a mean norm of 1 to int8 [V, D]."""
    steps = np.rint(sketches * (STEPS * math.sqrt(sketches.shape[1])))
    return steps.clip(-127, 127).astype(np.int8)
