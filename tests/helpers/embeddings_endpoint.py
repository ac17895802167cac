"""An OpenAI-compatible /v1/embeddings on this machine that can be told to misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WIDTH = 4
Answer = dict[str, Any]
Fault = Callable[["Handler", Answer], None]  # sends something else than the right answer


def vector_of(text: str) -> list[float]:
    """The vector of a text: numbers that float16 holds exactly."""
    return [len(text), sum(map(ord, text)) % 512, ord(text[0]) % 512, 1.0]


class Handler(BaseHTTPRequestHandler):
    server: EmbeddingsEndpoint

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        data = [{"index": number, "embedding": vector_of(text)} for number, text in enumerate(body["input"])]
        fault = server.faults.pop(0) if server.faults else server.always
        if fault:
            return fault(self, {"data": data})
        server.answered += body["input"]
        return self.reply({"data": data})

    def reply(self, answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        text = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)


class EmbeddingsEndpoint(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: list[Fault | None] = []  # of the next requests; None: the right answer
        self.always: Fault | None = None  # of those after them
        self.requests: list[Answer] = []
        self.answered: list[str] = []  # the texts whose right vectors were sent

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def running() -> Iterator[EmbeddingsEndpoint]:
    with EmbeddingsEndpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


# --- Faults ----------------------------------------------------------------------------------------------------------


def refuses(status: int, message: str = "no", **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: handler.reply({"error": {"message": message}}, status, named)


def breaks_off(handler: Handler, answer: Answer) -> None:
    """Close the connection in the middle of the answer."""
    text = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text[: len(text) // 2])


def is_cut_short(handler: Handler, answer: Answer) -> None:
    """Close the connection in the middle of an answer that does not say how long it is."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(json.dumps(answer).encode()[:50])


def shuffled(handler: Handler, answer: Answer) -> None:
    handler.server.answered += handler.server.requests[-1]["input"]
    handler.reply({"data": answer["data"][::-1]})


def one_too_few(handler: Handler, answer: Answer) -> None:
    handler.reply({"data": answer["data"][:-1]})


def wider(handler: Handler, answer: Answer) -> None:
    handler.reply({"data": [{**item, "embedding": [*item["embedding"], 0.0]} for item in answer["data"]]})


def not_a_number(handler: Handler, answer: Answer) -> None:
    answer["data"][0]["embedding"][1] = float("nan")
    handler.reply(answer)


def no_embeddings(handler: Handler, answer: Answer) -> None:
    handler.reply({"data": "none"})
