"""`banyan serve`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from banyan.commands._parser import Parser
from banyan.commands._shared import model_argument
from banyan.errors import BanyanError
from banyan.support.needs import needs

GROUP, ORDER = "publish", 1
PURPOSE = "serve a model over HTTP, as OpenAI and Text Embeddings Inference do"
MORE = "GET /docs describes the interface. More: docs/serving.md."
EXAMPLES = (
    "banyan serve model/ --port 8080",
    "banyan serve model/ --host 0.0.0.0 --api-key-file key.txt --workers 4",
    "banyan serve model/ --name text-embedding-3-small --quiet",
)
KEY = "BANYAN_API_KEY"
LIMITS = (
    ("--max-batch", 2048, "texts of a request"),
    ("--max-input-tokens", 8192, "tokens of a text"),
    ("--max-batch-tokens", 300_000, "tokens of a request"),
    ("--max-body-bytes", 10_000_000, "bytes of a request"),
    ("--max-concurrent", 512, "requests a worker takes on before it says 429"),
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    where = parser.add_argument_group("where")
    loopback = "address to listen on (default: 127.0.0.1, this machine only; 0.0.0.0: every network it is in)"
    where.add_argument("--host", default="127.0.0.1", help=loopback)
    where.add_argument("--port", type=int, default=8080, help="0: any that is free (default: 8080)")
    workers = "processes that share one copy of the model (default: 1)"
    where.add_argument("--workers", type=int, default=1, metavar="N", help=workers)
    key = f"a file that holds the key that requests must bring (default: that of the environment, {KEY}, or none)"
    where.add_argument("--api-key-file", metavar="FILE", help=key)
    name = "what the model is called in requests, any number of names (default: its folder's name)"
    where.add_argument("--name", action="append", default=[], metavar="NAME", help=name)
    limits = parser.add_argument_group("limits")
    for option, default, told in LIMITS:
        limits.add_argument(option, type=int, default=default, metavar="N", help=f"{told} (default: {default:,})")
    end = "seconds that requests have to finish when the server is stopped (default: 30)"
    limits.add_argument("--shutdown-seconds", type=int, default=30, metavar="N", help=end)
    parser.add_argument("-q", "--quiet", action="store_true", help="do not log each request, only what goes wrong")


def run(options: argparse.Namespace) -> None:
    with needs("Serving", "serve"):
        from banyan.serve import server
        from banyan.serve.limits import Limits
    limits = Limits(
        options.max_batch,
        options.max_input_tokens,
        options.max_batch_tokens,
        options.max_body_bytes,
        options.max_concurrent,
    )
    server.serve(
        server.Settings(
            model=options.model,
            host=options.host,
            port=options.port,
            workers=options.workers,
            names=tuple(options.name),
            key=_key(options.api_key_file),
            log_requests=not options.quiet,
            shutdown_seconds=options.shutdown_seconds,
            limits=limits,
        )
    )


def _key(path: str | None) -> str | None:
    """From a file or the environment: on the command line everyone on the machine could read it."""
    key = (Path(path).read_text(encoding="utf-8") if path else os.environ.get(KEY, "")).strip()
    if path and not key:
        raise BanyanError(f"{path} is empty: write the API key into it")
    return key or None
