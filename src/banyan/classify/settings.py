"""Settings: how a classifier learns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from banyan.errors import BanyanError, arguments_of, unknown_setting

_BATCHES, _SEEN = 100, 200_000  # batches of an epoch and texts of a run to aim at, within the limits below
_BATCH, _EPOCHS = (16, 256), (4, 20)


@dataclass(frozen=True)
class Settings:
    frozen: bool = False  # keep the token vectors
    balanced: bool = False  # weight classes by the inverse of their frequency
    epochs: int | None = None  # at most; None: chosen from the number of texts
    batch_size: int | None = None  # None: chosen from the number of texts
    lr: float = 3e-3  # of the token vectors
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BanyanError(f"{name} must be at least 1, not {value}")
        if not 0 < self.lr < math.inf:
            raise BanyanError(f"lr must be a positive number, not {self.lr}")

    @classmethod
    def checked(cls, values: dict[str, object], function: Callable[..., Any]) -> Settings:
        """Settings by name. function: the one that was given them, whose other arguments may be meant."""
        known = cls.__dataclass_fields__
        for name in values:
            if name not in known:
                raise unknown_setting(name, known, arguments_of(function))
        return cls(**values)  # type: ignore[arg-type]

    def batch_for(self, texts: int) -> int:
        fewest, most = _BATCH
        power_of_two = 1 << max((texts // _BATCHES).bit_length() - 1, 0)
        return self.batch_size or min(max(power_of_two, fewest), most)

    def epochs_for(self, texts: int) -> int:
        fewest, most = _EPOCHS
        return self.epochs or min(max(_SEEN // max(texts, 1), fewest), most)
