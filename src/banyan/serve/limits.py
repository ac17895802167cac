"""Limits on what a server accepts."""

from __future__ import annotations

from dataclasses import dataclass, fields

from banyan.errors import BanyanError


@dataclass(frozen=True)
class Limits:
    batch: int = 2048  # texts per request
    input_tokens: int = 8192  # tokens per text
    batch_tokens: int = 300_000  # tokens per request
    body: int = 10_000_000  # bytes per request
    concurrent: int = 512  # requests that a worker has accepted and not answered
    body_seconds: float = 30.0  # time for the body to arrive

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise BanyanError(f"the limit {field.name} must be above 0, not {getattr(self, field.name)}")

    @property
    def held(self) -> int:
        """Bytes of request bodies that a worker keeps in memory at a time."""
        return 4 * self.body
