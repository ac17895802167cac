"""The CPU kernels. They compute what reference.py says, with the same bits for any number of threads.

backend     the back end
autograd    the kernels on torch's parameters: the only file here that imports torch
compiling   how kernels are compiled
masks       keys of nodes and dropout masks
functions   Equations 1 to 4 on one row
trees       Algorithm 1, sentence by sentence; roots for encoding
entangling  equal nodes of all sentences become one
passes      up, down and their gradients
lexical     sums of character n-gram sketches
repeats     the occurrences of a repeated token that are kept

Each kernel is a plain loop that releases the interpreter lock. Sentences (trees) or columns (passes) run in parallel,
through banyan.support.threads.
"""

from __future__ import annotations

from banyan.backends._numba.compiling import kernel, summing
from banyan.backends._numba.entangling import by_height, entangle
from banyan.backends._numba.masks import Noise, drop_leaves, leaf_keys
from banyan.backends._numba.passes import backward, down_pass, up_pass
from banyan.backends._numba.repeats import kept_occurrences
from banyan.backends._numba.trees import Encoder, induce

__all__ = [
    "Encoder",
    "Noise",
    "backward",
    "by_height",
    "down_pass",
    "drop_leaves",
    "entangle",
    "induce",
    "kept_occurrences",
    "kernel",
    "leaf_keys",
    "summing",
    "up_pass",
]
