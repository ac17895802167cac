"""OpenAI's interface. Vectors have length 1, as OpenAI's do."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import orjson

from banyan.serve import inputs
from banyan.serve.jobs import Job
from banyan.serve.refusal import NO_MODEL, Refused, choice, field, fields
from banyan.serve.service import Answer, Service

FORMATS = ("float", "base64")


def embeddings(service: Service, body: Any) -> Job:
    """POST /v1/embeddings"""
    body = fields(body)
    name = field(body, "model", str, service.names[0])
    if name not in service.names:
        told = f"the model {name[:80]!r} is not served here; this server has {', '.join(service.names)}"
        raise Refused(NO_MODEL, told, "model")
    written = _in_base64 if choice(body, "encoding_format", FORMATS) == "base64" else _as_floats
    keep = inputs.dimensions(field(body, "dimensions", int), service.model)
    field(body, "user", str)

    def render(vectors: np.ndarray, tokens: int) -> bytes:
        rows = enumerate(map(written, vectors))
        data = b",".join([b'{"object":"embedding","index":%d,"embedding":%b}' % row for row in rows])
        usage = b'{"prompt_tokens":%d,"total_tokens":%d}' % (tokens, tokens)
        return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (data, orjson.dumps(name), usage)

    return Job(body.get("input"), "input", keep, True, None, render)


def _in_base64(vector: np.ndarray) -> bytes:
    return b'"%b"' % b64encode(vector.astype("<f4", copy=False).tobytes())


def _as_floats(vector: np.ndarray) -> bytes:
    return orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY)


def models(service: Service) -> Answer:
    """GET /v1/models"""
    return Answer(orjson.dumps({"object": "list", "data": [_model(service, name) for name in service.names]}))


def _model(service: Service, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": service.created, "owned_by": "banyan"}
