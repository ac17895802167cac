"""One connection: uvicorn's HTTP protocol, with limits on what arrives before and after the body of a request.

uvicorn by itself waits for a head of any size, for any time. `Connection.overdue` is called for every connection a
few times per second, which costs less than a timer for each request.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from banyan.serve.limits import Limits

_FULL = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(HttpToolsProtocol):
    limits: Limits
    clients: Counter[str]  # address -> open connections
    surplus = False  # what arrives is dropped, and the connection is about to be closed
    since: float | None = None  # when the head or the body began to arrive; None between requests
    in_body = False
    extra = 0  # bytes received that are not part of a body: heads, chunk sizes, trailers
    unread, unread_since = 0, 0.0  # bytes of answers that the client has not read, and when they last became fewer

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()
        address = self.client[0] if self.client else ""
        self.clients[address] += 1
        most = self.limits.client_connections
        if len(self.connections) > self.limits.connections or self.clients[address] > 2 * most:
            transport.abort()
        elif self.clients[address] > most:
            self._refuse(_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        address = self.client[0] if self.client else ""
        self.clients[address] -= 1
        if not self.clients[address]:
            del self.clients[address]

    def data_received(self, data: bytes) -> None:
        if self.surplus:
            return
        if self.since is None:
            self.since = self.loop.time()
        self.extra += len(data)
        super().data_received(data)
        if self.extra > self.limits.head and not self.transport.is_closing():
            self._refuse(_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.since = self.loop.time()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.extra, self.in_body, self.since = 0, True, self.loop.time()

    def on_body(self, body: bytes) -> None:
        self.extra = max(self.extra - 2 * len(body), -self.limits.body)  # small chunks have many chunk sizes
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.extra, self.in_body, self.since = 0, False, None

    def _refuse(self, answer: bytes) -> None:
        """Answer without asking the application, and close the connection once the client can have read it."""
        self.surplus = True
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(answer)
            self.loop.call_later(1, self.transport.close)
        else:  # the application waits for the rest of a request
            self.transport.close()

    def overdue(self, now: float) -> int:
        """Close the connection if the client lets it wait too long. Return the bytes that it has not read."""
        waiting = self.transport.get_write_buffer_size()
        if waiting < self.unread or not self.unread:
            self.unread_since = now
        self.unread = waiting
        if waiting and now - self.unread_since > self.limits.answer_seconds:
            self.transport.abort()
        elif self.since is not None and not self.surplus:
            if self.in_body and now - self.since > 2 * self.limits.body_seconds:  # it was answered 408 after once that
                self.transport.abort()
            elif not self.in_body and now - self.since > self.limits.head_seconds:
                self._refuse(_SLOW if self.extra else b"")
        return waiting

    @property
    def silent(self) -> bool:
        """Whether the client has connected and not asked anything yet. A busy machine may let it wait."""
        return self.cycle is None and not self.surplus

    def shutdown(self) -> None:
        """Close the connection after the request that is being answered or whose head is arriving."""
        if not (self.extra > 0 and not self.in_body):  # uvicorn takes an unfinished head for an idle connection
            super().shutdown()


def protocol(limits: Limits) -> type[Connection]:
    """The class of the connections of a server."""
    return type("Connection", (Connection,), {"limits": limits, "clients": Counter()})
