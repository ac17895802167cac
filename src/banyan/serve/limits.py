"""What a server takes on."""

from __future__ import annotations

from dataclasses import dataclass, fields

from banyan.errors import BanyanError


@dataclass(frozen=True)
class Limits:
    batch: int = 2048  # texts of a request
    input_tokens: int = 8192  # of a text
    batch_tokens: int = 300_000  # of a request
    body: int = 10_000_000  # bytes of a request
    concurrent: int = 512  # requests that a worker has accepted and not answered
    body_seconds: float = 30.0  # in which a request has to arrive

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise BanyanError(f"the limit {field.name} must be above 0, not {getattr(self, field.name)}")

    @property
    def held(self) -> int:
        """Bytes of large requests that a worker keeps in memory at a time."""
        return 4 * self.body
