"""The CPU kernels. They compute what reference.py defines, bit-identically for any number of threads.

compiling   compiler options of the kernels
masks       keys of nodes and dropout masks
functions   Equations 1 to 4 on one row
trees       Algorithm 1, sentence by sentence; roots for encoding
entangling  merges equal nodes of all sentences
passes      both passes and their gradients
repeats     which occurrences of a repeated token are kept
lexical     sums of the tokens' sketches
word_ngrams sketches of the n-grams of whole words, and lists of them
adam        a step of the optimiser on the token vectors that occur

Each kernel is a plain loop that releases the interpreter lock. Threads work on different sentences (trees) or columns
(passes), through banyan.support.threads. Only autograd imports torch.
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
