"""Error answers, in OpenAI's form (under /v1/) or in that of Text Embeddings Inference, and checks of fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson


class Why(NamedTuple):
    """The status and the names of an error in each of the two interfaces."""

    openai: int
    type: str
    code: str | None
    tei: int
    error_type: str


_BAD = "invalid_request_error"
NOT_JSON = Why(400, _BAD, None, 400, "Validation")
INVALID = Why(400, _BAD, None, 422, "Validation")
EMPTY = Why(400, _BAD, None, 400, "Empty")
TOO_LONG = Why(400, _BAD, None, 413, "Validation")  # too many texts or tokens: OpenAI calls this a bad request
TOO_LARGE = Why(413, _BAD, "request_too_large", 413, "Validation")
NO_KEY = Why(401, _BAD, "invalid_api_key", 401, "Unauthorized")
NO_HOST = Why(403, _BAD, None, 403, "Forbidden")
NO_MODEL = Why(404, _BAD, "model_not_found", 404, "NotFound")
NO_ROUTE = Why(404, _BAD, None, 404, "NotFound")
NO_METHOD = Why(405, _BAD, None, 405, "NotAllowed")
SLOW = Why(408, "timeout_error", None, 408, "Timeout")
BUSY = Why(429, "rate_limit_error", "overloaded", 429, "Overloaded")
BROKEN = Why(500, "server_error", None, 500, "Backend")
STOPPING = Why(503, "server_error", None, 503, "Unhealthy")

STATUSES = (200, 400, 401, 403, 404, 405, 408, 413, 422, 429, 500, 503)  # all that the server answers with


def is_openai(path: str) -> bool:
    """Whether a path belongs to OpenAI's interface; the others are those of Text Embeddings Inference."""
    return path.startswith("/v1/")


class Refused(Exception):
    """A request is answered with an error. param: the field that is wrong."""

    def __init__(self, why: Why, message: str, param: str | None = None, headers: tuple = ()) -> None:
        super().__init__(message)
        self.why, self.message, self.param, self.headers = why, message, param, headers

    def answer(self, path: str) -> tuple[int, bytes]:
        """The status and the body."""
        why = self.why
        if is_openai(path):
            error = {"message": self.message, "type": why.type, "param": self.param, "code": why.code}
            return why.openai, orjson.dumps({"error": error})
        return why.tei, orjson.dumps({"error": self.message, "error_type": why.error_type})


def fields(body: Any) -> dict[str, Any]:
    """Check that the body is a JSON object."""
    if not isinstance(body, dict):
        raise Refused(INVALID, f"the body must be a JSON object, not {_named(body)}")
    return body


def field(body: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """The value of a field, checked. null counts as missing."""
    value = body.get(name)
    if value is None:
        return default
    if kind is int:
        value = whole(value)
    if type(value) is not kind:  # not isinstance: True is not a number here
        raise Refused(INVALID, f"{name} must be {_KINDS[kind]}, not {_named(value)}", name)
    return value


def whole(value: Any) -> Any:
    """Convert 1.0 to 1: JSON does not distinguish them."""
    return int(value) if type(value) is float and value.is_integer() else value


def choice(body: dict[str, Any], name: str, known: tuple[str, ...]) -> str:
    """The value of a field that must be one of some words; the first is the default."""
    value = field(body, name, str, known[0])
    if value not in known:
        raise Refused(INVALID, f"{name} must be one of {', '.join(known)}, not {value[:40]!r}", name)
    return value


_KINDS = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "an object"}
_KINDS |= {float: "a number", type(None): "null"}


def _named(value: Any) -> str:
    return _KINDS[type(value)]
