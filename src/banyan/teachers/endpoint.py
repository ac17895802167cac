"""An OpenAI-compatible /v1/embeddings, asked over HTTP, with a few requests under way at once."""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from banyan.errors import BanyanError, first_line
from banyan.support.display import duration
from banyan.support.rows import slices
from banyan.teachers.at_once import mapped

KEYS = "BANYAN_TEACHER_KEY", "OPENAI_API_KEY"  # environment variables; the first that is set counts
REQUEST = 128  # texts in a request
AT_ONCE = 4  # requests under way
FEWEST = 16  # texts for which a request of their own is worth it
SHORTEST_CUT = 100  # characters; a text that the endpoint refuses is cut in half until it is as short as this
WAITS = 1, 2, 4, 8, 16, 32  # seconds before each further attempt
LONGEST_WAIT = 600  # seconds; an endpoint that asks for more is given up
TOLD_WAIT = 5  # seconds; waits this long are reported
TIMEOUT = 300  # seconds
_TOO_LARGE = 400, 413, 422  # statuses of servers that accept fewer or shorter texts at once
_BUSY = 408, 425, 429
_SECRET = re.compile("key|token|secret|password", re.IGNORECASE)  # in the name of a parameter: files keep addresses


class _Refused(BanyanError):
    """The endpoint refused the request, perhaps because it was too large."""


class _Unavailable(Exception):
    """Worth another attempt. after: the seconds that the endpoint asks us to wait."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key must not follow a redirection to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Endpoint:
    """A teacher behind an address. It has no licence that we could know.

    source: an address that ends in /v1 or /embeddings, with "#model" to name a model.
    """

    kind = "address"

    def __init__(self, source: str) -> None:
        self.name = source
        self.licence: str | None = None
        address, _, self.model = source.partition("#")
        self.address = _full(address)
        self.width: int | None = None  # known after the first answer
        self.note: Callable[[str], object] = lambda text: None  # called with a sentence when the endpoint makes us wait
        self._most = REQUEST
        self._answered = False
        self._not_before = 0.0  # when the next request may begin, as time.monotonic() counts
        self._lock = threading.Lock()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def encode(self, texts: list[str]) -> np.ndarray:
        stop, parts = threading.Event(), []
        if self.width is None:  # alone: the address or the key may be wrong
            parts.append(self._fitting(texts[: self._most], stop)[0])
            texts = texts[len(parts[0]) :]
        size = min(self._most, max(-(-len(texts) // AT_ONCE), FEWEST))
        requests = [texts[part] for part in slices(len(texts), size)]
        return np.concatenate([*parts, *mapped(lambda some: self._in_turn(some, stop), requests, AT_ONCE, stop)])

    def _in_turn(self, texts: list[str], stop: threading.Event) -> np.ndarray:
        """Ask for the vectors, but not while the endpoint makes us wait."""
        if (wait := self._not_before - time.monotonic()) > 0:
            _sleep(wait, stop)
        return self._fitting(texts, stop)[0]

    def _fitting(self, texts: list[str], stop: threading.Event) -> tuple[np.ndarray, bool]:
        """Ask for the vectors, in smaller requests if the endpoint refuses this one. Return them, and whether the
        first request was enough."""
        try:
            return self._vectors(self._ask(texts, stop), len(texts)), True
        except _Refused:
            if len(texts) == 1 and len(texts[0]) <= SHORTEST_CUT:
                raise
        if len(texts) == 1:  # too long: cut it, as sentence-transformers does
            return self._fitting([texts[0][: len(texts[0]) // 2]], stop)[0], False
        half = -(-len(texts) // 2)
        (first, one), (second, other) = (self._fitting(some, stop) for some in (texts[:half], texts[half:]))
        if one and other:  # there were too many texts, and not only a long one among them
            self._most = min(self._most, half)
        return np.concatenate([first, second]), False

    def _ask(self, texts: list[str], stop: threading.Event) -> Any:
        body = json.dumps({"input": texts, **({"model": self.model} if self.model else {})}).encode()
        for wait in (*WAITS, None):
            try:
                return self._post(body)
            except _Unavailable as error:
                if wait is None or error.after > LONGEST_WAIT:
                    asked = f" and asks to wait {error.after:,.0f} s" if error.after > LONGEST_WAIT else ""
                    raise BanyanError(f"{self.address} {error}{asked}") from None
                self._hold_back(max(wait, error.after), error)
                _sleep(max(wait, error.after), stop)
        raise AssertionError

    def _hold_back(self, seconds: float, why: _Unavailable) -> None:
        """Begin no request for a while, and say so."""
        with self._lock:
            until, before = time.monotonic() + seconds, self._not_before
            self._not_before = max(until, before)
        if seconds >= TOLD_WAIT and until > before + 1:  # not reported by another request just now
            asks = " and asks to wait" if why.after else "; trying again in"
            self.note(f"{self.address} {why}{asks} {duration(seconds)}")

    def _post(self, body: bytes) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **_authorization()}
        try:
            request = urllib.request.Request(self.address, body, headers, method="POST")
            with self._opener.open(request, timeout=TIMEOUT) as reply:
                answer = reply.read()
        except urllib.error.HTTPError as error:
            with error:
                raise self._judged(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None)
            why = first_line(reason if isinstance(reason, Exception) else error)
            if isinstance(error, urllib.error.URLError) and not self._answered:  # perhaps a wrong address
                raise BanyanError(f"cannot reach {self.address}: {why}") from None
            raise _Unavailable(f"does not answer ({why})") from None
        self._answered = True
        try:
            return json.loads(answer)
        except ValueError:  # perhaps cut off
            raise _Unavailable("answered with something other than JSON") from None

    def _judged(self, error: urllib.error.HTTPError) -> Exception:
        """What to raise for a status that is not 200."""
        told = _without_keys(_message(error))
        why = f"answered {error.code} ({told})" if told else f"answered {error.code}"
        if error.code in _BUSY or error.code >= 500:
            return _Unavailable(why, _retry_after(error.headers.get("Retry-After")))
        hint = ""
        if error.code in (401, 403):
            hint = f": put its key into the environment variable {KEYS[0]}"
        elif 300 <= error.code < 400:
            hint = f": it has moved to {error.headers.get('Location')}"
        elif not self.model:
            hint = f": if it needs the name of a model, write {self.address}#MODEL"
        return (_Refused if error.code in _TOO_LARGE else BanyanError)(f"{self.address} {why}{hint}")

    def _vectors(self, answer: Any, count: int) -> np.ndarray:
        """The vectors of an answer, in the order of the texts."""
        try:
            order = [item.get("index", number) for number, item in enumerate(answer["data"])]
            complete = sorted(order) == list(range(count))
            with np.errstate(over="ignore"):
                rows = [np.asarray(item["embedding"], np.float32) for item in answer["data"]]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise BanyanError(f"{self.address} answered with something other than a list of embeddings") from None
        if not complete:
            raise BanyanError(f"{self.address} answered with {len(rows)} vectors for {count} texts")
        if any(row.shape != rows[0].shape or row.ndim != 1 for row in rows):
            raise BanyanError(f"{self.address} answered with vectors of different widths")
        if self.width not in (None, len(rows[0])):
            raise BanyanError(f"{self.address} answered with {len(rows[0])} dimensions after {self.width} before")
        self.width = len(rows[0])
        vectors = np.empty((count, self.width), np.float32)
        vectors[order] = rows
        return vectors


def _sleep(seconds: float, stop: threading.Event) -> None:
    if stop.wait(seconds):
        raise BanyanError("another request has failed")  # nobody reads this


def _full(address: str) -> str:
    """The address to post to."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        good = good and address.isascii() and address.isprintable() and " " not in address
    except ValueError:
        good = False
    if not good:
        raise BanyanError(f"{address} is not an address of the form https://HOST/v1/embeddings")
    if parts.username is not None or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query)):
        raise BanyanError(f"the teacher's address holds a password or a key: leave it out and set {KEYS[0]}")
    path = parts.path.rstrip("/")
    if path.endswith("/v1"):
        path += "/embeddings"
    if not path.endswith("/embeddings"):
        raise BanyanError(f"the teacher's address {address} must end in /v1 or /v1/embeddings")
    return parts._replace(path=path).geturl()


def _authorization() -> dict[str, str]:
    for name in KEYS:
        key = os.environ.get(name, "").strip()
        if key:
            if not (key.isascii() and key.isprintable()):
                raise BanyanError(f"the key in the environment variable {name} holds characters that no key has")
            return {"Authorization": f"Bearer {key}"}
    return {}


def _without_keys(text: str) -> str:
    """The text as it may be shown: some endpoints repeat the key that they refuse."""
    for key in filter(None, (os.environ.get(name, "").strip() for name in KEYS)):
        text = text.replace(key, "...")
    return text


def _message(error: urllib.error.HTTPError) -> str:
    """The first line of what the endpoint says about an error."""
    try:
        text = error.read(10_000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""
    try:
        found = json.loads(text)
        inner = found.get("error", found.get("message", found.get("detail", "")))
        text = str(inner.get("message", "") if isinstance(inner, dict) else inner)
    except (ValueError, AttributeError):
        pass
    return text.strip().partition("\n")[0][:200].rstrip(".")


def _retry_after(value: str | None) -> float:
    """The seconds of a Retry-After header, which holds a number or a date."""
    if not value:
        return 0.0
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0
