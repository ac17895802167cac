"""The names and shapes of a model's weights. Imports no NumPy, so that `banyan info` answers at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from banyan.config import Config
from banyan.errors import BanyanError

GATES = ("comp_l", "comp_r", "decomp_l", "decomp_r")
BIASES = ("comp_b", "decomp_lb", "decomp_rb")
BUCKETS_LOG2 = 18
BUCKETS = 1 << BUCKETS_LOG2  # weights of n-grams; the first bits of an n-gram's hash find its own
_LARGEST_HEAD = 100_000_000  # bytes, as in safetensors


def shapes_of(path: Path, config: Config) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights in a file, checked against the settings. Reads no weight."""
    shapes = _shapes_in(path)
    check_shapes(path, shapes, config, (*shapes.get("embedding", ()), 0)[0])
    return shapes


def _shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    try:
        begin, head = read_head(path)
        shapes = {name: tuple(map(int, about["shape"])) for name, about in head.items()}
        end = begin + max((about["data_offsets"][1] for about in head.values()), default=0)
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        raise BanyanError(f"cannot read {path}: it is not a safetensors file") from None
    if end != os.path.getsize(path):
        raise BanyanError(f"cannot read {path}: it has {os.path.getsize(path):,} bytes, not {end:,}; is it truncated?")
    return shapes


def read_head(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the weights in a safetensors file begin, and what it says about each of them."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _LARGEST_HEAD:
            raise ValueError(f"the header has {size:,} bytes")
        head = json.loads(file.read(size))
    return 8 + size, {name: about for name, about in head.items() if name != "__metadata__"}


def check_shapes(path: Path, shapes: dict[str, tuple[int, ...]], config: Config, vocab_size: int) -> None:
    """Raise an error if a shape is not the one that follows from the settings."""
    for name, shape in _expected(config, vocab_size).items():
        if shapes.get(name) != shape:
            found = f"has shape {shapes[name]}" if name in shapes else "is missing"
            raise BanyanError(f"{path} does not match its config.json and tokenizer.json: {name} {found}, not {shape}")


def _expected(config: Config, vocab_size: int) -> dict[str, tuple[int, ...]]:
    width = config.width
    shapes: dict[str, tuple[int, ...]] = {"embedding": (vocab_size, config.dim)}
    shapes |= dict.fromkeys(GATES, (width, width) if config.functions == "linear" else (width,))
    shapes |= dict.fromkeys(BIASES, (width,))
    if config.hashes_words:
        shapes["lexical_idf"] = (BUCKETS,)
    elif config.lexical_dim:
        shapes["lexical"] = (vocab_size, config.lexical_dim)
    return shapes
