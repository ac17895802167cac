"""`banyan serve`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from banyan.commands._parser import Parser
from banyan.commands._shared import model_argument
from banyan.errors import BanyanError
from banyan.serve.limits import Limits
from banyan.support.needs import needs

GROUP, ORDER = "publish", 1
PURPOSE = "serve a model over HTTP, compatible with OpenAI and Text Embeddings Inference clients"
DESCRIPTION = """\
GET /docs shows the API reference. A folder written by banyan classify train also has POST /predict.
See docs/serving.md."""
EXAMPLES = (
    "banyan serve model/ --port 8080",
    "banyan serve model/ --index index/",
    "banyan serve model/ --host 0.0.0.0 --api-key-file key.txt --workers 4",
    "banyan serve model/ --name text-embedding-3-small --quiet",
)
KEY = "BANYAN_API_KEY"
LIMITS = (  # option, its name in Limits, meaning
    ("--max-batch", "batch", "texts per request"),
    ("--max-input-tokens", "input_tokens", "tokens per text"),
    ("--max-batch-tokens", "batch_tokens", "tokens per request"),
    ("--max-body-bytes", "body", "bytes per request"),
    ("--max-answer-bytes", "answer", "bytes per answer"),
    ("--max-concurrent", "concurrent", "open requests per worker; further ones get status 429"),
    ("--max-client-connections", "client_connections", "connections of one client address per worker"),
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    server = parser.add_argument_group("server")
    host = "address to listen on; 0.0.0.0 for all networks (default: 127.0.0.1, this machine only)"
    server.add_argument("--host", default="127.0.0.1", help=host)
    server.add_argument("--port", type=int, default=8080, help="port to listen on; 0 picks a free one (default: 8080)")
    workers = "worker processes, which share one copy of the model (default: 1)"
    server.add_argument("--workers", type=int, default=1, metavar="N", help=workers)
    key = f"file with the API key that requests must send (default: the environment variable {KEY}, or no key)"
    server.add_argument("--api-key-file", metavar="FILE", help=key)
    name = "name of the model in requests; repeatable (default: the name of its folder)"
    server.add_argument("--name", action="append", default=[], metavar="NAME", help=name)
    cors = "let web pages of this origin ask, for example https://example.org; repeatable; * for every origin"
    server.add_argument("--cors", action="append", default=[], metavar="ORIGIN", help=cors)
    index = "folder written by banyan index with this model: adds POST /search, and search and maps to the page at /"
    server.add_argument("--index", metavar="INDEX", help=index)
    limits = parser.add_argument_group("limits")
    for option, limit, meaning in LIMITS:
        default = getattr(Limits, limit)
        help = f"{meaning} (default: {default:,})"
        limits.add_argument(option, type=int, dest=limit, default=default, metavar="N", help=help)
    end = "time for open requests to finish when the server stops, in seconds (default: 30)"
    limits.add_argument("--shutdown-seconds", type=int, default=30, metavar="N", help=end)
    parser.add_argument("-q", "--quiet", action="store_true", help="log errors only, not every request")


def run(options: argparse.Namespace) -> None:
    with needs("Serving", "serve"):
        from banyan.serve import server
    limits = Limits(**{limit: getattr(options, limit) for _, limit, _ in LIMITS})
    server.serve(
        server.Settings(
            model=options.model,
            host=options.host,
            port=options.port,
            workers=options.workers,
            names=tuple(options.name),
            key=_key(options.api_key_file),
            cors=tuple(options.cors),
            index=options.index,
            log_requests=not options.quiet,
            shutdown_seconds=options.shutdown_seconds,
            limits=limits,
        )
    )


def _key(path: str | None) -> str | None:
    """The API key from a file or the environment. On the command line, every user of the machine could read it."""
    key = (Path(path).read_text(encoding="utf-8") if path else os.environ.get(KEY, "")).strip()
    if path and not key:
        raise BanyanError(f"{path} is empty: write the API key into it")
    return key or None
