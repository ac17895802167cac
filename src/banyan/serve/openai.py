"""The routes of OpenAI's API. Embeddings have length 1, as OpenAI's do."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import orjson

from banyan.serve import inputs
from banyan.serve.jobs import Job
from banyan.serve.refusal import NO_MODEL, Refused, choice, field, fields
from banyan.serve.schema import COUNT, NUMBER, STRING, Operation, Request, Schemas, array, one_of, optional, record
from banyan.serve.service import Answer, Service

FORMATS = ("float", "base64")


def embeddings(service: Service, body: Any) -> Job:
    """POST /v1/embeddings"""
    body = fields(body)
    name = field(body, "model", str, service.names[0])
    if name not in service.names:
        message = f"this server does not have the model {name[:80]!r}; it has {', '.join(service.names)}"
        raise Refused(NO_MODEL, message, "model")
    written = _in_base64 if choice(body, "encoding_format", FORMATS) == "base64" else _as_floats
    keep = inputs.dimensions(field(body, "dimensions", int), service.model)
    field(body, "user", str)

    def render(vectors: np.ndarray, tokens: int) -> bytes:
        rows = enumerate(map(written, vectors))
        data = b",".join([b'{"object":"embedding","index":%d,"embedding":%b}' % row for row in rows])
        usage = b'{"prompt_tokens":%d,"total_tokens":%d}' % (tokens, tokens)
        return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (data, orjson.dumps(name), usage)

    return Job(body.get("input"), "input", keep, True, None, render)


def describe_embeddings(schemas: Schemas) -> Operation:
    body = {
        "input": schemas.texts_or_tokens,
        "model": optional(schemas.model),
        "dimensions": schemas.dimensions,
        "encoding_format": one_of(FORMATS),
        "user": optional(STRING),
    }
    vector = {"oneOf": [array(NUMBER), {"type": "string", "contentEncoding": "base64"}]}
    item = record(object={"const": "embedding"}, index=COUNT, embedding=vector)
    usage = record(prompt_tokens=COUNT, total_tokens=COUNT)
    answer = record(object={"const": "list"}, data=array(item), model=schemas.model, usage=usage)
    example = {"model": schemas.names[0], "input": "The cat sat on the mat.", "encoding_format": "float"}
    return Operation(answer, Request(body, ["input"], example))


def _in_base64(vector: np.ndarray) -> bytes:
    return b'"%b"' % b64encode(vector.astype("<f4", copy=False).tobytes())


def _as_floats(vector: np.ndarray) -> bytes:
    return orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY)


def models(service: Service) -> Answer:
    """GET /v1/models"""
    return Answer(orjson.dumps({"object": "list", "data": [_model(service, name) for name in service.names]}))


def describe_models(_: Schemas) -> Operation:
    model = record(id=STRING, object={"const": "model"}, created=COUNT, owned_by=STRING)
    return Operation(record(object={"const": "list"}, data=array(model)))


def _model(service: Service, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": service.created, "owned_by": "banyan"}
