"""The header Host of a page for this machine only (`banyan explore`).

A page of another site can have its own name lead to this machine (DNS rebinding). The browser then lets it read what we
answer, as if it were ours. But it sends that name as the Host, and so we know.
"""

from __future__ import annotations

from banyan.serve.refusal import NO_HOST, Refused

LOCAL = ("localhost", "127.0.0.1", "::1")


def check_host(headers: list[tuple[bytes, bytes]], known: frozenset[str]) -> None:
    """Refuse a request that calls the server by a name that is not known, or by none."""
    given = [value.decode("latin-1") for name, value in headers if name == b"host"]
    unknown = [host for host in given if name_of(host) not in known]
    if unknown or not given:
        called = f"the Host {unknown[0][:80]!r}" if unknown else "no Host"
        raise Refused(NO_HOST, f"this page is for this machine only, and the request has {called}: use localhost")


def name_of(host: str) -> str:
    """The name in a Host such as localhost:8090 or [::1]:8090."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
