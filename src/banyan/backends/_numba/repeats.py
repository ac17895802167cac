"""Which occurrences of a repeated token are kept: see banyan.model.graph.with_sublinear_tf."""

from __future__ import annotations

import numpy as np

from banyan.support.compiling import njit


@njit(cache=True, nogil=True)
def kept_occurrences(tokens, offsets, kept):
    """Return whether each token is kept. A sentence keeps the first, third, ... occurrence of a token, as the rising
    numbers `kept` say."""
    keeps = np.empty(len(tokens), np.bool_)
    last_seen = np.full(tokens.max() + 1 if len(tokens) else 0, -1, np.int64)  # in which sentence
    times = np.zeros(len(last_seen), np.int64)
    for sentence in range(len(offsets) - 1):
        for i in range(offsets[sentence], offsets[sentence + 1]):
            token = tokens[i]
            if last_seen[token] != sentence:
                last_seen[token], times[token] = sentence, 0
            times[token] += 1
            at = np.searchsorted(kept, times[token]) if times[token] > 1 else 0
            keeps[i] = at < len(kept) and kept[at] == times[token]
    return keeps
