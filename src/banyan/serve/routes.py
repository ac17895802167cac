"""The table of HTTP routes. Routing, the labels of the metrics, the OpenAPI document and /docs are all made from it.

To add a route, write its handler and the function that describes it, in the file of its family or in a new one, and
add a line to ROUTES.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from banyan.serve import about, openai, parse, tei
from banyan.serve.schema import Operation, Schemas


class Route(NamedTuple):
    method: str  # GET (which serves HEAD too) or POST
    path: str
    handler: Callable[..., Any]  # takes the service and, for POST, the body; returns an Answer, or a Job that makes one
    describe: Callable[[Schemas], Operation]
    summary: str
    inline: int = 0  # bytes of the largest body that is handled in the event loop; larger ones go to a thread
    needs_key: bool = True


ROUTES = (
    Route("POST", "/v1/embeddings", openai.embeddings, openai.describe_embeddings, "Embeddings, as OpenAI's", 2048),
    Route("GET", "/v1/models", openai.models, openai.describe_models, "The names of the model"),
    Route("POST", "/embed", tei.embed, tei.describe_embed, "Embeddings", 2048),
    Route("POST", "/similarity", tei.similarity, tei.describe_similarity, "Cosines of one sentence with others", 2048),
    Route("POST", "/tokenize", tei.tokenize, tei.describe_tokenize, "Tokens", 1024),
    Route("POST", "/decode", tei.decode, tei.describe_decode, "Text of tokens", 1024),
    Route("GET", "/info", tei.info, tei.describe_info, "What serves here, and its limits"),
    Route("POST", "/parse", parse.parse, parse.describe_parse, "The tree that the model makes of each text", 256),
    Route("GET", "/health", about.health, about.describe_health, "200 while the server runs", needs_key=False),
    Route("GET", "/metrics", about.metrics, about.describe_metrics, "Figures for Prometheus"),
    Route("GET", "/openapi.json", about.openapi, about.describe_openapi, "This description", needs_key=False),
    Route("GET", "/docs", about.docs, about.describe_docs, "This description, for people", needs_key=False),
)

Methods = dict[str, Route]


def by_path(routes: tuple[Route, ...] = ROUTES) -> dict[str, Methods]:
    """Path -> method -> route."""
    found: dict[str, Methods] = {}
    for route in routes:
        methods = found.setdefault(route.path, {})
        methods[route.method] = route
        if route.method == "GET":
            methods["HEAD"] = route
    return found


OTHER = "other"  # the label of requests for any other path
LABELS = [*dict.fromkeys(route.path for route in ROUTES), OTHER]
