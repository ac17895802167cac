"""Selects the occurrences of a repeated token that are kept, for banyan.model.graph.with_sublinear_tf."""

from __future__ import annotations

import numpy as np

from banyan.support.compiling import njit


@njit(cache=True, nogil=True)
def is_in(number, numbers):
    """Return whether a number is among sorted numbers, of which the first are the usual ones."""
    at = 0
    while at < len(numbers) and numbers[at] < number:
        at += 1
    return at < len(numbers) and numbers[at] == number


@njit(cache=True, nogil=True)
def kept_occurrences(tokens, offsets, kept):
    """Return a mask of the tokens to keep: the k-th occurrence of a token in a sentence if k is in `kept` (sorted)."""
    keeps = np.empty(len(tokens), np.bool_)
    largest = -1
    for token in tokens:
        largest = max(largest, token)
    seen_in = np.zeros(largest + 1, np.int64)  # the last sentence with each token, from 1
    times = np.zeros(largest + 1, np.int64)
    for sentence in range(len(offsets) - 1):
        for i in range(offsets[sentence], offsets[sentence + 1]):
            token = tokens[i]
            if seen_in[token] != sentence + 1:
                seen_in[token], times[token] = sentence + 1, 0
            times[token] += 1
            keeps[i] = is_in(times[token], kept)
    return keeps
