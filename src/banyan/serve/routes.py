"""The table of HTTP routes. Routing, the labels of the metrics, the OpenAPI document and /docs are made from it.

To add a route, write its handler and the function that describes it next to each other, in one of the files below or
in a new one, and add a line to ROUTES.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from banyan.serve import about, explain, explore, explore_map, openai, parse, predict, search, tei
from banyan.serve.schema import Operation, Schemas
from banyan.serve.service import Service


class Route(NamedTuple):
    method: str  # GET (HEAD is then served too) or POST
    path: str
    handler: Callable[..., Any]  # takes the service and, for POST, the body; returns an Answer, or a Job that makes one
    describe: Callable[[Schemas], Operation]
    summary: str
    inline: int = 0  # bytes of the largest body that is handled in the event loop; larger ones go to a thread
    needs_key: bool = True
    only_with_key: bool = False  # the route exists only if the server has a key


ROUTES = (
    Route("POST", "/v1/embeddings", openai.embeddings, openai.describe_embeddings, "Embeddings (OpenAI)", inline=2048),
    Route("GET", "/v1/models", openai.models, openai.describe_models, "Names of the model"),
    Route("POST", "/embed", tei.embed, tei.describe_embed, "Embeddings", inline=2048),
    Route("POST", "/similarity", tei.similarity, tei.describe_similarity, "Similarity of sentences", inline=2048),
    Route("POST", "/rerank", tei.rerank, tei.describe_rerank, "Texts, most similar to a query first", inline=2048),
    Route("POST", "/tokenize", tei.tokenize, tei.describe_tokenize, "Tokens of texts", inline=1024),
    Route("POST", "/decode", tei.decode, tei.describe_decode, "Text of tokens", inline=1024),
    Route("GET", "/info", tei.info, tei.describe_info, "The model and the limits of the server"),
    Route("POST", "/parse", parse.parse, parse.describe_parse, "Trees of texts", inline=256),
    Route("POST", "/tree", parse.parse, parse.describe_parse, "Trees of texts, as POST /parse", inline=256),
    Route("POST", "/", tei.default, tei.describe_default, "As POST /embed, or POST /similarity", inline=2048),
    Route("GET", "/", explore.page, explore.describe_page, "A page to explore the model with", needs_key=False),
    Route("POST", "/invocations", tei.default, tei.describe_default, "As POST /", inline=2048),
    Route("POST", "/explain", explain.explain, explain.describe_explain, "Why two texts are similar"),
    Route("POST", "/explore/about", explore.about, explore.describe_about, "What that page can show"),
    Route("POST", "/explore/graph", explore.graph, explore.describe_graph, "Trees of texts as one graph"),
    Route("GET", "/health", about.health, about.describe_health, "Whether the server is up", needs_key=False),
    Route("GET", "/ping", about.health, about.describe_health, "Whether the server is up", needs_key=False),
    Route("GET", "/metrics", about.metrics, about.describe_metrics, "Prometheus metrics"),
    Route("POST", "/reload", about.reload, about.describe_reload, "Load the model again", only_with_key=True),
    Route("GET", "/openapi.json", about.openapi, about.describe_openapi, "This document (OpenAPI)", needs_key=False),
    Route("GET", "/docs", about.docs, about.describe_docs, "This document as a page", needs_key=False),
)

# Only if the served folder has a classifier. It then answers the default routes, too, as in TEI.
PREDICT = Route("POST", "/predict", predict.predict, predict.describe_predict, "Labels of texts", inline=1024)
DEFAULTS = ("/", "/invocations")

# Only if the server has an index.
WITH_INDEX = (
    Route("POST", "/search", search.search, search.describe_search, "Search the index"),
    Route("POST", "/explore/nearest", explore.nearest, explore.describe_nearest, "Phrases of the index near to one"),
    Route("POST", "/explore/map", explore_map.points, explore_map.describe_points, "The index as a map"),
    Route("POST", "/explore/texts", explore_map.texts, explore_map.describe_texts, "Texts of points of the map"),
    Route("POST", "/explore/values", explore_map.values, explore_map.describe_values, "A column for every point"),
    Route("POST", "/explore/find", explore_map.find, explore_map.describe_find, "Points of hits, best first"),
)

Methods = dict[str, Route]


def routes_of(service: Service) -> list[Route]:
    """The routes of a service."""
    routes = [route for route in ROUTES if service.key or not route.only_with_key]
    if service.searcher:
        routes += WITH_INDEX
    if not service.classifier:
        return routes
    other = PREDICT._replace(summary=f"{PREDICT.summary}, as POST {PREDICT.path}")
    return [other._replace(path=route.path) if _is_default(route) else route for route in routes] + [PREDICT]


def _is_default(route: Route) -> bool:
    return route.method == "POST" and route.path in DEFAULTS


def by_path(routes: list[Route]) -> dict[str, Methods]:
    """Path -> method -> route."""
    found: dict[str, Methods] = {}
    for route in routes:
        methods = found.setdefault(route.path, {})
        methods[route.method] = route
        if route.method == "GET":
            methods["HEAD"] = route
    return found


OTHER = "other"  # the label of requests for any other path
LABELS = [*dict.fromkeys(route.path for route in (*ROUTES, PREDICT, *WITH_INDEX)), OTHER]
