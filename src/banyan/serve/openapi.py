"""The interface described for programs: OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from banyan._version import __version__
from banyan.serve import openai, tei, trees
from banyan.serve.service import Service

Schema = dict[str, Any]
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string", "minLength": 1}


def document(service: Service, locked: bool) -> Schema:
    made = _Describer(service)
    paths = {**made.openai(), **made.tei(), **made.tree(), **made.about()}
    found: Schema = {
        "openapi": "3.1.0",
        "info": {"title": f"Banyan: {service.names[0]}", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": {"OpenAIError": _OPENAI_ERROR, "Error": _ERROR}},
    }
    if locked:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, operations in paths.items():
            for operation in operations.values():
                operation["security"] = [] if path in _OPEN else [{"key": []}]
    return found


_ABOUT = (
    "Sentence embeddings. /v1/... speaks as OpenAI does, the other routes as Text Embeddings Inference. "
    "Fields that are not listed are ignored; null is as good as nothing."
)
_OPEN = ("/health", "/docs", "/openapi.json")


class _Describer:
    """The routes of one model, within its limits."""

    def __init__(self, service: Service) -> None:
        self.names = service.names
        self.dim, self.limits = service.model.dim, service.limits
        token = {"type": "integer", "minimum": 0, "maximum": len(service.model.embedding) - 1}
        self.tokens: Schema = {"type": "array", "items": token, "minItems": 1}
        self.tokens_or_lists = [self.tokens, self._batch(self.tokens)]
        self.texts: Schema = {"anyOf": [TEXT, self._batch(TEXT)]}
        self.anything: Schema = {"anyOf": [TEXT, self._batch(TEXT), *self.tokens_or_lists]}
        self.dimensions = _optional({"type": "integer", "minimum": 1, "maximum": self.dim})

    def _batch(self, of: Schema) -> Schema:
        return {"type": "array", "items": of, "minItems": 1, "maxItems": self.limits.batch}

    def openai(self) -> Schema:
        body = {
            "input": self.anything,
            "model": _optional({"enum": self.names}),
            "dimensions": self.dimensions,
            "encoding_format": _choice(openai.FORMATS),
            "user": _optional({"type": "string"}),
        }
        vector = {"oneOf": [_array(NUMBER), {"type": "string", "contentEncoding": "base64"}]}
        item = _object(object={"const": "embedding"}, index=COUNT, embedding=vector)
        usage = _object(prompt_tokens=COUNT, total_tokens=COUNT)
        answer = _object(object={"const": "list"}, data=_array(item), model={"enum": self.names}, usage=usage)
        model = _object(id={"type": "string"}, object={"const": "model"}, created=COUNT, owned_by={"type": "string"})
        example = {"model": self.names[0], "input": "The cat sat on the mat.", "encoding_format": "float"}
        return {
            "/v1/embeddings": _post("Embeddings, as OpenAI's", body, ["input"], answer, example, "OpenAIError"),
            "/v1/models": _get("The names of the model", _object(object={"const": "list"}, data=_array(model))),
        }

    def tei(self) -> Schema:
        truncation = {"truncate": _optional({"type": "boolean"}), "truncation_direction": _choice(tei.DIRECTIONS)}
        embed = {"inputs": self.anything, "normalize": _optional({"type": "boolean"}), "dimensions": self.dimensions}
        compared = _object(source_sentence=TEXT, sentences=self._batch(TEXT) | {"maxItems": self.limits.batch - 1})
        parameters = _optional({"type": "object", "properties": truncation})
        token = _object(id=COUNT, text={"type": "string"}, special={"type": "boolean"}, start=COUNT, stop=COUNT)
        text = "The cat sat on the mat."
        sentences = {"source_sentence": text, "sentences": ["A cat sat.", "It rains."]}
        tokenize = {"inputs": self.texts, "add_special_tokens": _optional({"type": "boolean"})}
        decode = {"ids": {"anyOf": self.tokens_or_lists}, "skip_special_tokens": _optional({"type": "boolean"})}
        return {
            "/embed": _post("Embeddings", embed | truncation, ["inputs"], _array(_array(NUMBER)), {"inputs": text}),
            "/similarity": _post(
                "Cosines of one sentence with others",
                {"inputs": compared, "parameters": parameters},
                ["inputs"],
                _array(NUMBER),
                {"inputs": sentences},
            ),
            "/tokenize": _post("Tokens", tokenize, ["inputs"], _array(_array(token)), {"inputs": text}),
            "/decode": _post("Text of tokens", decode, ["ids"], _array({"type": "string"}), {"ids": [300, 301]}),
            "/info": _get("What serves here, and its limits", {"type": "object"}),
        }

    def tree(self) -> Schema:
        body = {
            "inputs": self.texts,
            "format": _choice(trees.FORMATS),
            "embeddings": _optional({"type": "boolean"}),
        }
        tree = _object(text={"type": "string"}, root={"type": ["integer", "null"]}, nodes=_array({"type": "object"}))
        answer = _array({"oneOf": [tree, {"type": "string"}]})
        example = {"inputs": "The cat sat on the mat.", "format": "brackets"}
        return {"/parse": _post("The tree that the model makes of each text", body, ["inputs"], answer, example)}

    def about(self) -> Schema:
        return {
            "/health": _get("200 while the server takes requests", None, "text/plain", down=True),
            "/metrics": _get("Figures for Prometheus", {"type": "string"}, "text/plain"),
            "/openapi.json": _get("This description", {"type": "object"}),
            "/docs": _get("This description, for people", {"type": "string"}, "text/html"),
        }


def _post(
    title: str, fields: Schema, required: list[str], answer: Schema, example: Any, error: str = "Error"
) -> Schema:
    body = {"type": "object", "properties": fields, "required": required}
    statuses = {408: "the body came too slowly", 429: "overloaded: try again after Retry-After seconds"}
    if error == "OpenAIError":
        statuses |= {400: "invalid, or too many texts or tokens", 404: "no such model", 413: "too many bytes"}
    else:
        statuses |= {400: "empty, or not JSON", 413: "too many texts, tokens or bytes", 422: "invalid"}
    operation = {
        "summary": title,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body, "example": example}}},
        "responses": {"200": _content(answer, "application/json"), **_errors(statuses, error)},
    }
    return {"post": operation}


def _get(title: str, answer: Schema | None, kind: str = "application/json", down: bool = False) -> Schema:
    good = _content(answer, kind) if answer else {"description": "good"}
    errors = _errors({503: "it shuts down"} if down else {}, "Error")
    return {"get": {"summary": title, "responses": {"200": good, **errors}}}


def _errors(statuses: dict[int, str], schema: str) -> Schema:
    statuses = {401: "the API key is missing or wrong", 405: "another method", 500: "the server failed"} | statuses
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {str(status): {"description": told, "content": content} for status, told in sorted(statuses.items())}


def _content(schema: Schema, kind: str) -> Schema:
    return {"description": "good", "content": {kind: {"schema": schema}}}


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _array(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _choice(known: tuple[str, ...]) -> Schema:
    return {"enum": [*known, None], "default": known[0]}


_OPENAI_ERROR = _object(
    error=_object(
        message={"type": "string"},
        type={"type": "string"},
        param={"type": ["string", "null"]},
        code={"type": ["string", "null"]},
    )
)
_ERROR = _object(error={"type": "string"}, error_type={"type": "string"})
