"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from banyan._version import __version__
from banyan.serve.refusal import is_openai
from banyan.serve.schema import JSON, STRING, Operation, Schema, Schemas, record

if TYPE_CHECKING:
    from banyan.serve.routes import Route
    from banyan.serve.service import Service

_ABOUT = (
    "Sentence embeddings. Routes under /v1/ follow OpenAI's API, the others that of Text Embeddings Inference. "
    "Unknown fields are ignored, and null counts as missing."
)
_ANY = {401: "the API key is missing or wrong", 405: "method not allowed", 500: "internal server error"}
_ONLY_LOCAL = {403: "the Host is none of the names of this machine"}
_POST = {408: "the body arrived too slowly", 429: "overloaded: try again after Retry-After seconds"}
_OPENAI_POST = {400: "invalid, or too many texts or tokens", 404: "unknown model", 413: "too many bytes"}
_TEI_POST = {400: "empty, or not JSON", 413: "too many texts, tokens or bytes", 422: "invalid"}


def document(service: Service, routes: Iterable[Route]) -> Schema:
    schemas = Schemas(service)
    paths: Schema = {}
    for route in routes:
        operation = _operation(route, route.describe(schemas), _ANY | (_ONLY_LOCAL if service.hosts else {}))
        if service.key:
            operation["security"] = [{"key": []}] if route.needs_key else []
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    components: Schema = {"schemas": {"OpenAIError": _OPENAI_ERROR, "Error": _ERROR}}
    if service.key:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    info = {"title": f"Banyan: {service.names[0]}", "version": __version__, "description": _ABOUT}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _operation(route: Route, described: Operation, refused: dict[int, str]) -> Schema:
    operation: Schema = {"summary": route.summary}
    if described.request:
        fields, required, example = described.request
        body = {"type": "object", "properties": fields, "required": required}
        operation["requestBody"] = {"required": bool(required), "content": {JSON: {"schema": body, "example": example}}}
    good: Schema = {"description": "success"}
    if described.answer is not None:
        good["content"] = {described.media_type: {"schema": described.answer}}
    operation["responses"] = {"200": good, **_errors(route, described, refused)}
    return operation


def _errors(route: Route, described: Operation, refused: dict[int, str]) -> Schema:
    openai = is_openai(route.path)
    statuses = refused | (described.errors or {})
    if route.method == "POST":
        statuses |= _POST | (_OPENAI_POST if openai else _TEI_POST)
    schema = {"$ref": f"#/components/schemas/{'OpenAIError' if openai else 'Error'}"}
    return {
        str(status): {"description": meaning, "content": {JSON: {"schema": schema}}}
        for status, meaning in sorted(statuses.items())
    }


_NULLABLE = {"type": ["string", "null"]}
_OPENAI_ERROR = record(error=record(message=STRING, type=STRING, param=_NULLABLE, code=_NULLABLE))
_ERROR = record(error=STRING, error_type=STRING)
