"""Routes about the server itself: /health, /metrics, /reload, /openapi.json, /docs."""

from __future__ import annotations

from typing import Any

import orjson

from banyan.serve import docs_page
from banyan.serve.refusal import STOPPING, Refused
from banyan.serve.schema import BOOLEAN, OBJECT, STRING, Operation, Request, Schemas, record
from banyan.serve.service import Answer, Service


def health(service: Service) -> Answer:
    if service.stopping:
        raise Refused(STOPPING, "the server is shutting down")
    return Answer(b"", content_type=b"text/plain; charset=utf-8")


def describe_health(_: Schemas) -> Operation:
    return Operation(None, errors={503: "the server is shutting down"})


def metrics(service: Service) -> Answer:
    return Answer(service.metrics.text().encode(), content_type=b"text/plain; version=0.0.4; charset=utf-8")


def describe_metrics(_: Schemas) -> Operation:
    return Operation(STRING, media_type="text/plain")


def reload(service: Service, body: Any) -> Answer:
    """Load the model again, as SIGHUP does. It is in use once GET /info has its fingerprint."""
    service.reload()
    return Answer(orjson.dumps({"reloading": True, "model_sha": service.fingerprint}))


def describe_reload(_: Schemas) -> Operation:
    answer = record(reloading=BOOLEAN, model_sha=STRING)
    return Operation(answer, Request({}, [], {}))


def openapi(service: Service) -> Answer:
    return Answer(orjson.dumps(service.document))


def describe_openapi(_: Schemas) -> Operation:
    return Operation(OBJECT)


def docs(service: Service) -> Answer:
    policy = (b"content-security-policy", docs_page.POLICY.encode())
    return Answer(docs_page.html(service.document), content_type=b"text/html; charset=utf-8", headers=(policy,))


def describe_docs(_: Schemas) -> Operation:
    return Operation(STRING, media_type="text/html")
