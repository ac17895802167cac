"""Ask the server's application without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from banyan.serve.app import App

KEY = "sesame"


def ask(
    app: App, method: str, path: str, body: Any = None, key: str | None = KEY, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    sending = [(b"authorization", f"Bearer {key}".encode())] if key else []
    sending += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "method": method, "headers": sending, "client": None}
    asyncio.run(app(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"]
