"""Digits that tell models apart by the embeddings they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from banyan.config import Config
from banyan.tokenizer.tokenizer import Tokenizer

_DECIDE_EMBEDDINGS = ("dim", "channels", "functions", "structure", "sublinear_tf", "lexical_dim", "lexical_weight")
# Settings newer than 0.2.0: a fingerprint has those that are not at their default.
_LATER = ("taught_dim", "taught_weight", "lexical_ngrams", "lexical_root", "whole_words", "end_marks")


def deciding(config: Config) -> dict[str, Any]:
    """The settings that decide embeddings."""
    later = [name for name in _LATER if getattr(config, name) != getattr(Config, name)]
    return {name: getattr(config, name) for name in (*_DECIDE_EMBEDDINGS, *later)}


def of(
    settings: Mapping[str, Any],
    tokenizer: Tokenizer,
    weights: Mapping[str, np.ndarray],
    digest_of: Callable[[memoryview], bytes | memoryview] = lambda array: array,
) -> str:
    """64 hexadecimal digits. digest_of: what stands for an array; by default, all its bytes."""
    import hashlib  # imported here because encoding needs neither it nor what checksums need

    digest = hashlib.sha256(f"{json.dumps(settings, sort_keys=True)}\n{tokenizer.to_json()}".encode())
    for name, array in sorted(weights.items()):
        if not name.startswith("out_"):  # the output layer, for training only
            digest.update(name.encode())
            digest.update(digest_of(np.ascontiguousarray(array).data.cast("B")))
    return digest.hexdigest()


def crc(array: memoryview) -> bytes:
    from banyan.block_sums import crc32

    return crc32(array).to_bytes(4, "little")
