"""Cross-origin requests: which pages of other origins may ask, from a browser (option --cors).

A browser sends the origin of the page with each request and shows the page the answer only if the answer allows it.
Before a request with JSON or a key, it asks for permission with OPTIONS (the preflight), which never has the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from banyan.errors import BanyanError
from banyan.serve.service import Answer

Headers = list[tuple[bytes, bytes]]
EVERY = "*"
AGE = b"600"  # seconds for which a browser may remember a permission


def check_origins(origins: Iterable[str]) -> None:
    """Refuse what no browser would send as an origin."""
    for origin in origins:
        parts = urlsplit(origin)
        written = f"{parts.scheme}://{parts.netloc}".lower()
        if origin != EVERY and (not parts.scheme or not parts.netloc or origin != written or "@" in origin):
            wanted = "give scheme, host and port only, in lower case, for example https://example.org, or * for all"
            raise BanyanError(f"--cors: {origin!r} is no origin: {wanted}")


def headers(request: Headers, origins: tuple[str, ...]) -> Headers:
    """The headers of an answer. If they depend on the origin, they say so, for caches between browser and server."""
    if EVERY in origins:
        allowed: Headers = [(b"access-control-allow-origin", b"*")]
    else:
        origin = dict(request).get(b"origin", b"")
        known = origin.decode("latin-1") in origins
        allowed = [(b"vary", b"origin"), *([(b"access-control-allow-origin", origin)] if known else [])]
    return [*allowed, (b"access-control-expose-headers", b"x-request-id, retry-after")]


def preflight(methods: Iterable[str]) -> Answer:
    """The answer to OPTIONS: the methods of this path. Clients send headers of their own (x-stainless-lang), which do
    no harm; * does not cover the key's."""
    allowed = (
        (b"access-control-allow-methods", ", ".join(methods).encode()),
        (b"access-control-allow-headers", b"authorization, content-type, *"),
        (b"access-control-max-age", AGE),
    )
    return Answer(b"", headers=allowed)
