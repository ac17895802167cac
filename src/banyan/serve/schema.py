"""JSON schemas of requests and answers. A handler describes itself with them, and openapi.py writes the document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from banyan.serve.service import Service

Schema = dict[str, Any]
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TEXT: Schema = {"type": "string", "minLength": 1}
JSON = "application/json"


class Request(NamedTuple):
    """The JSON object that a POST route accepts."""

    fields: Schema
    required: list[str]
    example: Schema


class Operation(NamedTuple):
    """What a route accepts and returns."""

    answer: Schema | None  # None: an empty body
    request: Request | None = None
    media_type: str = JSON  # of the answer
    errors: dict[int, str] | None = None  # statuses that only this route returns


class Schemas:
    """The schemas that depend on the model and on the limits."""

    def __init__(self, service: Service) -> None:
        self.names, self.limits = service.names, service.limits
        self.classifies_pairs = service.classifier is not None and service.classifier.pair
        token = {"type": "integer", "minimum": 0, "maximum": len(service.model.embedding) - 1}
        tokens = {"type": "array", "items": token, "minItems": 1}
        self.model: Schema = {"enum": self.names}
        self.searching: Schema = {"enum": [*self.names, *([service.beside.name] if service.beside else [])]}
        self.tokens: Schema = {"anyOf": [tokens, self.batch(tokens)]}
        self.texts: Schema = {"anyOf": [TEXT, self.batch(TEXT)]}
        self.texts_or_tokens: Schema = {"anyOf": [*self.texts["anyOf"], *self.tokens["anyOf"]]}
        self.dimensions = optional({"type": "integer", "minimum": 1, "maximum": service.model.dim})

    def batch(self, items: Schema, reserved: int = 0) -> Schema:
        """A list of at most as many items as the limits allow, less `reserved`."""
        return {"type": "array", "items": items, "minItems": 1, "maxItems": self.limits.batch - reserved}


def record(**fields: Schema) -> Schema:
    """An object that has all of these fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(words: tuple[str, ...]) -> Schema:
    """An optional word; the first is the default."""
    return {"enum": [*words, None], "default": words[0]}
