"""One request: limits, key, handler, answer, figures, log. An ASGI application without a framework: a short sentence
is encoded in some fifty microseconds, and a framework takes several times that."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import perf_counter
from typing import Any

import orjson

from banyan.serve import jobs, log, openapi
from banyan.serve.refusal import (
    BROKEN,
    BUSY,
    NO_KEY,
    NO_METHOD,
    NO_ROUTE,
    NOT_JSON,
    SLOW,
    TOO_LARGE,
    Refused,
)
from banyan.serve.routes import LABELS, OTHER, ROUTES, Route, by_path
from banyan.serve.service import Answer, Service
from banyan.support import threads

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
FLUSH_SECONDS = 0.1  # that a line of the log may wait for others
COMPLAINT_SECONDS = 1.0  # between two lines that say so
RETRY_SECONDS = 1  # what a client that is turned away is asked to wait


class Gone(Exception):
    """The client hung up."""


class App:
    """The ASGI application. `accepted` holds the requests that the server has accepted and not answered."""

    def __init__(self, service: Service, worker: int = 0, log_requests: bool = True) -> None:
        self.service, self.authorization = service, service.key and f"Bearer {service.key}".encode()
        self.counters = service.metrics.of(worker)
        self.log_requests = log_requests
        self.routes = by_path()
        service.document = openapi.document(service, ROUTES)
        self.batcher = jobs.Batcher(service)
        self.accepted: set[Any] = set()
        self.complained = -COMPLAINT_SECONDS  # of overload, last
        self.flushing: asyncio.TimerHandle | None = None
        self.held = 0  # bytes of requests that arrive, or wait for a thread
        self.pool = ThreadPoolExecutor(threads.available(), thread_name_prefix="banyan-request")
        prefix = secrets.token_hex(6)
        self.ids = (f"req-{prefix}-{number:x}" for number in count())

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.counters.pending(len(self.accepted))
        try:
            await self._request(scope, receive, send)
        finally:
            self.accepted.discard(asyncio.current_task())  # at once: the server itself does so some requests later
            self.counters.pending(len(self.accepted))

    async def _request(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        started = perf_counter()
        path = scope["path"]
        id = next(self.ids)
        headers: Headers = []
        try:
            answer, status = await self._answer(scope, receive), 200
        except Gone:
            return
        except Refused as refused:
            status, body = refused.answer(path)
            answer = Answer(body)
            headers += refused.headers
        except Exception:
            log.write("error", "a request failed", path=path, request_id=id, traceback=traceback.format_exc())
            status, body = Refused(BROKEN, f"the server failed; its log tells why under {id}").answer(path)
            answer = Answer(body)
        headers += [
            (b"content-type", answer.content_type),
            (b"content-length", b"%d" % len(answer.body)),
            (b"x-request-id", id.encode()),
        ]
        if self.service.stopping:
            headers.append((b"connection", b"close"))
        seconds = perf_counter() - started
        self.counters.request(_NUMBERS.get(path, _OTHER), status, seconds, answer.texts, answer.tokens)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        if self.log_requests or status >= 500:
            self._log(scope, status, seconds, answer, id)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> Answer:
        route = self._route(scope["path"], scope["method"])
        if self.authorization and route.needs_key:
            self._check_key(scope["headers"])
        if route.method == "GET":
            return route.handler(self.service)
        if len(self.accepted) > self.service.limits.concurrent:
            raise self._busy()
        return await self._post(route, scope, receive)

    def _route(self, path: str, method: str) -> Route:
        methods = self.routes.get(path)
        if methods is None:
            raise Refused(NO_ROUTE, f"there is nothing at {path[:80]}; GET /docs lists what there is")
        if method not in methods:
            told = f"{path} takes {' or '.join(methods)}, not {method[:20]}"
            raise Refused(NO_METHOD, told, headers=((b"allow", ", ".join(methods).encode()),))
        return methods[method]

    async def _post(self, route: Route, scope: dict[str, Any], receive: Receive) -> Answer:
        body = await self._body(scope["headers"], receive)
        if len(body) <= route.inline:
            found = route.handler(self.service, _json(body))
            return await self.batcher.run(found) if isinstance(found, jobs.Job) else found
        self.held += len(body)
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, self._work, route, body)
        finally:
            self.held -= len(body)

    def _work(self, route: Route, body: bytes) -> Answer:
        found = route.handler(self.service, _json(body))
        return jobs.alone(self.service, found) if isinstance(found, jobs.Job) else found

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        limits = self.service.limits
        for name, value in headers:
            if name == b"content-length" and int(value) > limits.body:
                raise _too_large(limits.body)
        try:
            async with asyncio.timeout(limits.body_seconds):
                return await self._arrived(receive)
        except TimeoutError:
            told = f"the body did not arrive within {limits.body_seconds:g} seconds"
            raise Refused(SLOW, told, headers=((b"connection", b"close"),)) from None

    async def _arrived(self, receive: Receive) -> bytes:
        limits, held, parts = self.service.limits, 0, []
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                parts.append(message["body"])
                held += len(message["body"])
                self.held += len(message["body"])
                if held > limits.body:
                    raise _too_large(limits.body)
                if self.held > limits.held:
                    raise self._busy()
                if not message["more_body"]:
                    return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self.held -= held

    def _busy(self) -> Refused:
        now = perf_counter()
        if now - self.complained > COMPLAINT_SECONDS:
            self.complained = now
            self._tell("warning", "overloaded: requests are turned away", pending=len(self.accepted), held=self.held)
        wait = (b"retry-after", b"%d" % RETRY_SECONDS)
        return Refused(BUSY, "the server has more requests than it can take on: try again", headers=(wait,))

    def _check_key(self, headers: Headers) -> None:
        for name, value in headers:
            if name == b"authorization" and hmac.compare_digest(value, self.authorization or b""):
                return
        asked = (b"www-authenticate", b"Bearer")
        raise Refused(NO_KEY, "the API key is missing or wrong: send it as Authorization: Bearer KEY", headers=(asked,))

    def _log(self, scope: dict[str, Any], status: int, seconds: float, answer: Answer, id: str) -> None:
        level = "info" if status < 500 else "error"
        self._tell(
            level,
            "request",
            method=scope["method"],
            path=scope["path"][:200],
            status=status,
            ms=round(seconds * 1e3, 3),
            texts=answer.texts,
            tokens=answer.tokens,
            bytes=len(answer.body),
            client=scope["client"][0] if scope["client"] else None,
            request_id=id,
        )

    def _tell(self, level: str, event: str, **values: Any) -> None:
        if not self.flushing:
            self.flushing = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)
        log.later(level, event, **values)

    def _flush(self) -> None:
        self.flushing = None
        log.flush()


_NUMBERS = {label: number for number, label in enumerate(LABELS)}
_OTHER = _NUMBERS[OTHER]


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        problem = str(error)
    try:
        return json.loads(body, parse_constant=_no_number)  # takes half an emoji, as texts cut elsewhere may have
    except (ValueError, RecursionError):
        raise Refused(NOT_JSON, f"the body is not JSON: {problem}") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _too_large(limit: int) -> Refused:
    return Refused(TOO_LARGE, f"the body has more than {limit:,} bytes: send fewer texts at a time")
