"""One request: route, key, limits, handler, answer, metrics, log.

This is an ASGI application without a web framework: encoding a short sentence takes about fifty microseconds, and a
framework would add several times that to every request.
"""

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

from banyan.errors import BanyanError
from banyan.serve import cors, inputs, jobs, log, openapi
from banyan.serve.explore_map import CollectionMap
from banyan.serve.hosts import check_host
from banyan.serve.refusal import (
    BROKEN,
    BUSY,
    INVALID,
    NO_KEY,
    NO_METHOD,
    NO_ROUTE,
    NOT_JSON,
    SLOW,
    TOO_LARGE,
    Refused,
)
from banyan.serve.routes import LABELS, OTHER, Route, by_path, routes_of
from banyan.serve.service import Answer, Service
from banyan.support import threads

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
FLUSH_SECONDS = 0.1  # log lines are written together, at most this late
OVERLOAD_LOG_SECONDS = 1.0  # between two log lines about overload
RETRY_SECONDS = 1  # the Retry-After of a request that is refused because of overload


class Disconnected(Exception):
    """The client closed the connection."""


class App:
    """The ASGI application. `accepted` holds the requests that the server has accepted and not answered."""

    def __init__(self, service: Service, worker: int = 0, log_requests: bool = True) -> None:
        self.counters = service.metrics.of(worker)
        self.log_requests = log_requests
        self.use(service)
        self.accepted: set[Any] = set()
        self.overload_logged = -OVERLOAD_LOG_SECONDS  # when overload was last logged
        self.flushing: asyncio.TimerHandle | None = None
        self.held = 0  # bytes of bodies that are being received or wait for a thread
        self.unread = 0  # bytes of answers that clients have not read
        self.pool = ThreadPoolExecutor(threads.available(), thread_name_prefix="banyan-request")
        prefix = secrets.token_hex(6)
        self.ids = (f"req-{prefix}-{number:x}" for number in count())

    def use(self, service: Service) -> None:
        """Answer the requests that arrive from now on with this service."""
        routes = routes_of(service)
        service.map = CollectionMap(service.searcher.index) if service.searcher else None
        service.document = openapi.document(service, routes)
        self.service, self.batcher, self.routes = service, jobs.Batcher(service), by_path(routes)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.counters.pending(len(self.accepted))
        try:
            await self._request(scope, receive, send)
        finally:
            self.accepted.discard(asyncio.current_task())  # uvicorn itself does this only some requests later
            self.counters.pending(len(self.accepted))

    async def _request(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        started = perf_counter()
        path = scope["path"]
        id = next(self.ids)
        headers: Headers = []
        try:
            answer, status = await self._answer(scope, receive), 200
        except Disconnected:
            return
        except Refused as refused:
            status, body = refused.answer(path)
            answer = Answer(body)
            headers += refused.headers
        except BanyanError as error:  # the model cannot handle these texts
            status, body = Refused(INVALID, str(error)).answer(path)
            answer = Answer(body)
        except Exception:
            log.write("error", "a request failed", path=path, request_id=id, traceback=traceback.format_exc())
            status, body = Refused(BROKEN, f"internal server error; the log has the details under {id}").answer(path)
            answer = Answer(body)
        headers += [
            (b"content-type", answer.content_type),
            (b"content-length", b"%d" % len(answer.body)),
            (b"x-request-id", id.encode()),
            (b"x-content-type-options", b"nosniff"),
            *answer.headers,
        ]
        if self.service.cors:
            headers += cors.headers(scope["headers"], self.service.cors)
        if self.service.stopping:
            headers.append((b"connection", b"close"))
        seconds = perf_counter() - started
        self.counters.request(_NUMBERS.get(path, _OTHER), status, seconds, answer.texts, answer.tokens)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        if self.log_requests or status >= 500:
            self._log(scope, status, seconds, answer, id)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> Answer:
        if self.service.hosts is not None:
            check_host(scope["headers"], self.service.hosts)
        if scope["method"] == "OPTIONS" and self.service.cors and scope["path"] in self.routes:
            return cors.preflight(self.routes[scope["path"]])
        route = self._route(scope["path"], scope["method"])
        if self.service.key and route.needs_key:
            self._check_key(scope["headers"])
        if route.method == "GET":
            return route.handler(self.service)
        if len(self.accepted) > self.service.limits.concurrent or self.unread > self.service.limits.unread:
            raise self._busy()
        return await self._post(route, scope, receive)

    def _route(self, path: str, method: str) -> Route:
        methods = self.routes.get(path)
        if methods is None:
            raise Refused(NO_ROUTE, f"there is no route {path[:80]}; GET /docs lists all routes")
        if method not in methods:
            message = f"{path} accepts {' or '.join(methods)}, not {method[:20]}"
            raise Refused(NO_METHOD, message, headers=((b"allow", ", ".join(methods).encode()),))
        return methods[method]

    async def _post(self, route: Route, scope: dict[str, Any], receive: Receive) -> Answer:
        answer = await self._handled(route, await self._body(scope["headers"], receive))
        inputs.check_answer(len(answer.body), self.service.limits)  # what the handler could not estimate
        return answer

    async def _handled(self, route: Route, body: bytes) -> Answer:
        service, batcher = self.service, self.batcher  # one model from here to the end, whatever is loaded meanwhile
        if len(body) <= route.inline:
            found = route.handler(service, _json(body))
            return await batcher.run(found) if isinstance(found, jobs.Job) else found
        self.held += len(body)
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, _work, service, route, body)
        finally:
            self.held -= len(body)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        limits = self.service.limits
        for name, value in headers:
            if name == b"content-length" and int(value) > limits.body:
                raise _too_large(limits.body)
        try:
            async with asyncio.timeout(limits.body_seconds):
                return await self._arrived(receive)
        except TimeoutError:
            message = f"the body did not arrive within {limits.body_seconds:g} seconds"
            raise Refused(SLOW, message, headers=((b"connection", b"close"),)) from None

    async def _arrived(self, receive: Receive) -> bytes:
        limits, held, parts = self.service.limits, 0, []
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Disconnected
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
        if now - self.overload_logged > OVERLOAD_LOG_SECONDS:
            self.overload_logged = now
            self._write_log("warning", "overloaded: refusing requests", pending=len(self.accepted), held=self.held)
        wait = (b"retry-after", b"%d" % RETRY_SECONDS)
        return Refused(BUSY, "the server is overloaded: try again later", headers=(wait,))

    def _check_key(self, headers: Headers) -> None:
        for name, value in headers:
            scheme, _, key = value.partition(b" ")
            bearer = name == b"authorization" and scheme.lower() == b"bearer"
            if bearer and hmac.compare_digest(key.strip(), (self.service.key or "").encode()):
                return
        wanted = (b"www-authenticate", b"Bearer")
        message = "the API key is missing or wrong: send the header Authorization: Bearer KEY"
        raise Refused(NO_KEY, message, headers=(wanted,))

    def _log(self, scope: dict[str, Any], status: int, seconds: float, answer: Answer, id: str) -> None:
        level = "info" if status < 500 else "error"
        self._write_log(
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

    def _write_log(self, level: str, event: str, **values: Any) -> None:
        if not self.flushing:
            self.flushing = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)
        log.later(level, event, **values)

    def _flush(self) -> None:
        self.flushing = None
        log.flush()


_NUMBERS = {label: number for number, label in enumerate(LABELS)}
_OTHER = _NUMBERS[OTHER]


def _work(service: Service, route: Route, body: bytes) -> Answer:
    found = route.handler(service, _json(body))
    return jobs.alone(service, found) if isinstance(found, jobs.Job) else found


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body or b"{}")  # a POST without a body
    except orjson.JSONDecodeError as error:
        problem = str(error)
    try:
        return json.loads(body, parse_constant=_no_number)  # accepts lone surrogates, as in truncated texts
    except (ValueError, RecursionError):
        raise Refused(NOT_JSON, f"the body is not JSON: {problem}") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _too_large(limit: int) -> Refused:
    return Refused(TOO_LARGE, f"the body has more than {limit:,} bytes: send fewer texts per request")
