"""Train unigram tokenizers: fit pieces to counted chunks by EM, and prune them.

(The trainer of `tokenizers` sums in the order of a hash table, so no two runs give the same result.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from banyan.support.compiling import njit
from banyan.tokenizer.kernels import SEED, extend, find, hash_words, slots_for
from banyan.tokenizer.tables import LONGEST, Floats, Ints, Longs, spell_out

FEW = 10.0  # the cost of each piece in the initial scores


@njit(cache=True, nogil=True)
def _edges(chunks, start, stop, lexicon, spellings, reach, edges, banned):
    """Write all pieces inside chunks[start:stop] as (begin, end, piece), sorted by begin. Return how many."""
    count = 0
    for at in range(start, stop):
        key = SEED
        for end in range(at + 1, min(at + reach, stop) + 1):
            key = extend(key, chunks[end - 1])
            found = find(chunks, at, end, key, lexicon, spellings)
            if found >= 0 and found != banned:
                edges[count, 0], edges[count, 1], edges[count, 2] = at - start, end - start, found
                count += 1
    return count


@njit(cache=True, nogil=True)
def expect(chunks, starts, counts, lexicon, spellings, scores, reach):
    """Return the expected count of each piece over all ways to split each chunk, weighted by probability."""
    expected = np.zeros(len(scores))
    edges = np.empty((LONGEST * min(reach, LONGEST), 3), np.int32)
    ahead = np.empty(LONGEST + 1)
    behind = np.empty(LONGEST + 1)
    for chunk in range(len(counts)):
        size = starts[chunk + 1] - starts[chunk]
        found = _edges(chunks, starts[chunk], starts[chunk + 1], lexicon, spellings, reach, edges, -1)
        ahead[: size + 1] = -np.inf
        behind[: size + 1] = -np.inf
        ahead[0] = behind[size] = 0.0
        for edge in range(found):
            at, end, piece = edges[edge]
            ahead[end] = np.logaddexp(ahead[end], ahead[at] + scores[piece])
        for edge in range(found - 1, -1, -1):
            at, end, piece = edges[edge]
            behind[at] = np.logaddexp(behind[at], behind[end] + scores[piece])
            expected[piece] += counts[chunk] * np.exp(ahead[at] + scores[piece] + behind[end] - ahead[size])
    return expected


@njit(cache=True, nogil=True)
def without(starts, sizes, lexicon, spellings, scores, reach):
    """Return the best score of the characters of each piece without the piece itself."""
    best = np.empty(LONGEST + 1)
    edges = np.empty((LONGEST * min(reach, LONGEST), 3), np.int32)
    result = np.empty(len(scores))
    for piece in range(len(scores)):
        start, stop = starts[piece], starts[piece] + sizes[piece]
        best[: sizes[piece] + 1] = -np.inf
        best[0] = 0.0
        for edge in range(_edges(spellings, start, stop, lexicon, spellings, reach, edges, piece)):
            at, end, part = edges[edge]
            best[end] = max(best[end], best[at] + scores[part])
        result[piece] = best[sizes[piece]]
    return result


class Unigram:
    """Pieces with scores (log probabilities), fitted to counted chunks by expectation-maximisation and pruned."""

    def __init__(self, pieces: Sequence[str], counts: dict[str, int]) -> None:
        parts = Counter[str]()
        for chunk, count in counts.items():
            for at in range(0, len(chunk), LONGEST):
                parts[chunk[at : at + LONGEST]] += count
        self._chunks = np.frombuffer("".join(parts).encode("utf-32-le"), np.int32)
        self._starts = np.cumsum([0, *map(len, parts)])
        self._counts = np.array([*parts.values()], np.int64)
        self.pieces = [piece for piece in pieces if len(piece) <= LONGEST]
        self.scores = [-FEW] * len(self.pieces)  # initially, fewer pieces are better

    def _lexicon(self) -> tuple[Longs, Ints, Longs, Longs]:
        spellings, starts, sizes = spell_out(self.pieces, ord)
        return hash_words(spellings, starts, sizes, slots_for(len(sizes))), spellings, starts, sizes

    def fit(self, rounds: int) -> Floats:
        """Update the scores from expected counts, `rounds` times. Return the last expected counts."""
        lexicon, spellings, _, sizes = self._lexicon()
        reach = int(sizes.max())
        for _ in range(rounds):
            scores = np.array(self.scores)
            expected = expect(self._chunks, self._starts, self._counts, lexicon, spellings, scores, reach)
            self.scores = np.log(np.maximum(expected, 0.5) / expected.sum()).tolist()
        return expected

    def prune(self, size: int) -> None:
        """Keep all single characters, and the longer pieces whose removal would lower the likelihood most."""
        expected = self.fit(2)
        lexicon, spellings, starts, sizes = self._lexicon()
        scores = np.array(self.scores)
        saved = scores - without(starts, sizes, lexicon, spellings, scores, int(sizes.max()))
        cost = np.full(len(sizes), np.inf)
        np.multiply(expected, saved, out=cost, where=sizes > 1)
        kept = np.sort(np.argsort(-cost, kind="stable")[:size])
        self.pieces = [self.pieces[piece] for piece in kept]
        self.scores = [self.scores[piece] for piece in kept]
