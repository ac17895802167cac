"""Dropout whose masks depend only on (seed, step, place, key), so that equal spans stay equal within a step."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

Bits = TypeVar("Bits", int, np.ndarray)

LEAF, NODE, LEFT_MESSAGE, RIGHT_MESSAGE = range(4)  # the places where dropout applies
_64, _32 = (1 << 64) - 1, (1 << 32) - 1


def mix(x: Bits) -> Bits:
    """Hash a 64-bit number or an array of uint64 (the finaliser of SplitMix64)."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _64
    return x ^ x >> 31


def leaf_key(token: int) -> int:
    return mix(token + 0x9E3779B97F4A7C15 & _64)


def node_key(left: int, right: int) -> int:
    return mix(left * 0x9E3779B97F4A7C15 + right & _64)


def occurrence_key(key: int, occurrence: int) -> int:
    return mix((key ^ occurrence * 0xD1342543DE82EF95) & _64)


class Dropout(NamedTuple):
    rate: float
    seed: int = 0
    step: int = 0
    leaf_rate: float | None = None  # the rate for leaves; None: same as rate

    def rate_at(self, place: int) -> float:
        return self.leaf_rate if place == LEAF and self.leaf_rate is not None else self.rate

    def stream(self, place: int) -> int:
        return mix(mix(mix(self.seed) + self.step & _64) + place & _64)

    def mask(self, place: int, key: int, E: int) -> np.ndarray:
        """The mask: 0 where dropped, 1/(1-rate) where kept."""
        rate = self.rate_at(place)
        state = mix(key ^ self.stream(place))
        low, high = state & _32, state >> 32 | 1
        kept = np.empty(E)
        for j in range(E):
            x = low + j * high & _32  # then the finaliser of Murmur3
            x = (x ^ x >> 16) * 0x85EBCA6B & _32
            x = (x ^ x >> 13) * 0xC2B2AE35 & _32
            kept[j] = (x ^ x >> 16) >= int(rate * 2**32)
        return kept / (1 - rate)


NO_DROPOUT = Dropout(0.0)
