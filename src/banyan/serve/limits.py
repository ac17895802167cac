"""Limits on what a server accepts. They hold for each worker."""

from __future__ import annotations

from dataclasses import dataclass, fields

from banyan.errors import BanyanError


@dataclass(frozen=True)
class Limits:
    batch: int = 2048  # texts per request
    input_tokens: int = 8192  # tokens per text
    batch_tokens: int = 300_000  # tokens per request
    body: int = 10_000_000  # bytes per request
    concurrent: int = 512  # requests that have been accepted and not answered
    answer: int = 100_000_000  # bytes per answer
    head: int = 32_768  # bytes of a request line and its headers
    head_seconds: float = 10.0  # time for the head to arrive
    body_seconds: float = 30.0  # time for the body to arrive
    answer_seconds: float = 30.0  # time in which a client must read some part of its answer
    idle_seconds: int = 75  # time between requests; longer than clients keep connections, so that they close first
    connections: int = 4096  # open connections
    client_connections: int = 512  # of one client address

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise BanyanError(f"the limit {field.name} must be above 0, not {getattr(self, field.name)}")

    @property
    def input_characters(self) -> int:
        """Characters per text. A token has far fewer on average, and counting the tokens of a word takes memory."""
        return 64 * self.input_tokens

    @property
    def held(self) -> int:
        """Bytes of request bodies in memory."""
        return 4 * self.body

    @property
    def unread(self) -> int:
        """Bytes of answers in memory that clients have not read yet."""
        return 4 * self.answer
