"""The table of routes is the interface: what it lists is served, counted and described, and nothing else is."""

from __future__ import annotations

import json
import re

import pytest

from banyan.errors import BanyanError
from banyan.serve import openapi
from banyan.serve.app import App
from banyan.serve.cors import check_origins
from banyan.serve.hosts import LOCAL
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics
from banyan.serve.routes import LABELS, ROUTES
from banyan.serve.service import Service
from tests.helpers.asked import KEY, ask
from tests.helpers.models import tiny_model
from torture.serving import bodies

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PATHS = sorted({route.path for route in ROUTES})
EXAMPLES = {  # requests that every POST route takes
    "/similarity": {"inputs": {"source_sentence": "a cat", "sentences": ["a dog"]}},
    "/decode": {"ids": [1, 2]},
    "/rerank": {"query": "a cat", "texts": ["a dog"]},
    "/explain": {"a": "a cat", "b": "a dog"},
}


@pytest.fixture
def app() -> App:
    return App(Service(tiny_model(), ["tiny"], Limits(), 0, Metrics(LABELS), KEY), log_requests=False)


def allowed(path: str) -> list[str]:
    methods = [route.method for route in ROUTES if route.path == path]
    return [*methods, "HEAD"] if "GET" in methods else methods


def test_the_campaign_sends_its_largest_bodies_to_every_field_of_every_route(app):
    described = json.loads(ask(app, "GET", "/openapi.json")[2])["paths"]
    for route in ROUTES:
        if route.method == "POST":
            operation = described[route.path]["post"]["requestBody"]["content"]["application/json"]
            letters = [body for kind, body in bodies(operation, 50_000) if kind.startswith("letters")]
            assert letters, route
            assert all("a" * 20_000 in json.dumps(body) for body in letters), route
            fields = operation["schema"]["properties"]
            assert all(any(name in body for body in letters) for name in fields), route


def test_every_route_of_the_table_is_served(app):
    for route in ROUTES:
        body = EXAMPLES.get(route.path, {"input": "a cat", "inputs": "a cat"})
        for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
            assert ask(app, method, route.path, body)[0] == 200, route


def test_each_route_appears_once_and_the_table_lists_no_other_method():
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert {route.method for route in ROUTES} <= {"GET", "POST"}


@pytest.mark.parametrize("path", PATHS)
def test_other_methods_are_refused_with_those_that_are_allowed(app, path):
    for method in METHODS:
        status, headers, _ = ask(app, method, path)
        if method in allowed(path):
            assert status != 405
        else:
            assert (status, headers["allow"]) == (405, ", ".join(allowed(path)))


@pytest.mark.parametrize("path", ["", "/nothing", "/v1", "/v1/", "/embed/", "/EMBED", "/docs/x"])
def test_other_paths_are_not_found(app, path):
    for method in METHODS:
        assert ask(app, method, path)[0] == 404


def test_without_the_option_no_page_of_another_origin_may_ask(app):
    for method in ("POST", "OPTIONS"):
        headers = ask(app, method, "/embed", {"inputs": "a cat"}, origin="https://example.org")[1]
        assert not [name for name in headers if name.startswith("access-control")]


def test_every_origin_may_ask_if_the_server_says_so():
    service = Service(tiny_model(), ["tiny"], Limits(), 0, Metrics(LABELS), cors=("*",))
    app = App(service, log_requests=False)
    for route in ROUTES:
        if route.only_with_key:
            continue
        status, headers, body = ask(app, "OPTIONS", route.path, key=None, origin="https://example.org")
        assert (status, body, headers["access-control-allow-origin"]) == (200, b"", "*")
        assert route.method in headers["access-control-allow-methods"].split(", ")
    assert ask(app, "OPTIONS", "/nothing")[0] == 404


GOOD_HOSTS = ["localhost", "localhost:8090", "LOCALHOST:8090", "127.0.0.1:8090", "[::1]:8090", "[::1]"]
WRONG_HOSTS = ["evil.example", "evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::2]:80"]


@pytest.mark.parametrize("host", [*GOOD_HOSTS, *WRONG_HOSTS])
def test_a_page_for_this_machine_answers_no_other_name(app, host):
    assert ask(app, "GET", "/health", host=host)[0] == 200  # `banyan serve` may stand behind a proxy
    app.service.hosts = frozenset(LOCAL)
    status, _, body = ask(app, "POST", "/embed", {"inputs": "a cat"}, host=host)
    assert status == (200 if host in GOOD_HOSTS else 403)
    if status == 403:
        told = f"this page is for this machine only, and the request has the Host {host!r}: use localhost"
        assert json.loads(body)["error"] == told


def test_a_page_for_this_machine_answers_no_request_without_a_name(app):
    app.service.hosts = frozenset(LOCAL)
    assert ask(app, "GET", "/")[0] == 403


@pytest.mark.parametrize("hosts", [None, frozenset(LOCAL)])
def test_the_document_of_a_page_for_this_machine_says_that_other_names_are_refused(app, hosts):
    app.service.hosts = hosts
    paths = openapi.document(app.service, ROUTES)["paths"].values()
    assert all(("403" in each["responses"]) == bool(hosts) for found in paths for each in found.values())


def test_what_is_no_origin_is_refused():
    check_origins(["*", "https://example.org", "http://localhost:3000", "http://[::1]:8000"])
    for wrong in ("", "example.org", "https://example.org/", "HTTPS://example.org", "https://a@example.org", "https://"):
        with pytest.raises(BanyanError, match="is no origin"):
            check_origins([wrong])


def test_only_routes_that_say_so_are_open_without_the_key(app):
    for route in ROUTES:
        assert (ask(app, route.method, route.path, {}, key=None)[0] == 401) == route.needs_key, route
    open_to_all = {route.path for route in ROUTES if not route.needs_key}
    assert open_to_all == {"/", "/health", "/ping", "/openapi.json", "/docs"}


def test_every_route_has_its_label_in_the_metrics(app):
    for path in [*PATHS, "/nothing"]:
        ask(app, "GET", path)
    text = ask(app, "GET", "/metrics")[2].decode()
    for name in ("banyan_requests_total", "banyan_request_duration_seconds_count"):
        assert set(re.findall(rf'{name}{{route="([^"]*)"', text)) == {*PATHS, "other"}


def test_the_document_describes_every_route_and_no_other(app):
    document = json.loads(ask(app, "GET", "/openapi.json")[2])
    described = {(method.upper(), path): each for path, found in document["paths"].items()
                 for method, each in found.items()}  # fmt: skip
    assert set(described) == {(route.method, route.path) for route in ROUTES}
    for route in ROUTES:
        operation = described[route.method, route.path]
        assert operation["summary"] == route.summary
        assert operation["security"] == ([{"key": []}] if route.needs_key else [])
        assert ("requestBody" in operation) == (route.method == "POST")
        assert {"200", "401", "405", "500"} <= set(operation["responses"])


def test_errors_are_described_as_they_are_written(app):
    """OpenAI's under /v1/, elsewhere those of Text Embeddings Inference."""
    document = json.loads(ask(app, "GET", "/openapi.json")[2])
    schemas = document["components"]["schemas"]
    for path in PATHS:
        body = json.loads(ask(app, "PUT", path)[2])
        operation = next(iter(document["paths"][path].values()))
        schema = operation["responses"]["405"]["content"]["application/json"]["schema"]["$ref"]
        assert set(body) == set(schemas[schema.rpartition("/")[2]]["required"]), path


def test_the_page_shows_every_route_and_no_other(app):
    page = ask(app, "GET", "/docs")[2].decode()
    assert re.findall(r"<h2><b>(\w+)</b> ([^<]*)</h2>", page) == [(route.method, route.path) for route in ROUTES]
