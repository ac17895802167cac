"""POST /parse: trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from banyan.serve import inputs
from banyan.serve.refusal import choice, field, fields
from banyan.serve.schema import BOOLEAN, OBJECT, STRING, Operation, Request, Schemas, array, one_of, optional, record
from banyan.serve.service import Answer, Service
from banyan.tree import Tree

_FORMS: dict[str, Callable[[Tree], str]] = {
    "brackets": lambda tree: tree.to_brackets(),
    "svg": lambda tree: tree.to_svg(),
    "text": str,
}
FORMATS = ("json", *_FORMS)


def parse(service: Service, body: Any) -> Answer:
    """The tree of each text, as a JSON object (format json) or as a string."""
    body = fields(body)
    form = choice(body, "format", FORMATS)
    embeddings = field(body, "embeddings", bool, False)
    texts = inputs.texts(body.get("inputs"), "inputs", service.limits)
    batch = inputs.ragged(texts, "inputs", service.model, service.limits)
    n = len(inputs.within(batch, "inputs", service.limits).tokens)
    if embeddings:
        inputs.check_answer(2 * n * service.model.dim * inputs.NUMBER_BYTES, service.limits)
    parts, size = [], 0
    for text in texts:
        parts.append(_written(service.model.parse(text), form, embeddings))
        size += len(parts[-1])
        inputs.check_answer(size, service.limits)
    return Answer(b"[%b]" % b",".join(parts), len(texts), n)


def _written(tree: Tree, form: str, embeddings: bool) -> bytes:
    return tree.to_json(embeddings).encode() if form == "json" else orjson.dumps(_FORMS[form](tree))


def describe_parse(schemas: Schemas) -> Operation:
    body = {"inputs": schemas.texts, "format": one_of(FORMATS), "embeddings": optional(BOOLEAN)}
    tree = record(text=STRING, root={"type": ["integer", "null"]}, nodes=array(OBJECT))
    example = {"inputs": "The cat sat on the mat.", "format": "brackets"}
    return Operation(array({"oneOf": [tree, STRING]}), Request(body, ["inputs"], example))
