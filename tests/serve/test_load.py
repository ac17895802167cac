"""`banyan serve` when many ask at once, when it is stopped, and when a worker dies. No timing decides."""

from __future__ import annotations

import asyncio
import base64
import http.client
import itertools
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.serve.app import App
from banyan.serve.jobs import Batcher, Job
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics
from banyan.serve.routes import LABELS
from banyan.serve.service import Service
from tests.helpers.served import Served, served

WORDS = "the a cat dog sat slept on mat house tree green runs slowly quickly over under".split()


def connect(server: Served) -> http.client.HTTPConnection:
    host, port = server.address.removeprefix("http://").split(":")
    return http.client.HTTPConnection(host, int(port), timeout=30)


def ask(connection: http.client.HTTPConnection, path: str, body: Any) -> tuple[http.client.HTTPResponse, bytes]:
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer, answer.read()


def embedding(connection: http.client.HTTPConnection, text: str) -> np.ndarray:
    answer, body = ask(connection, "/v1/embeddings", {"input": text, "encoding_format": "base64"})
    assert answer.status == 200, body
    return np.frombuffer(base64.b64decode(json.loads(body)["data"][0]["embedding"]), "<f4")


def once(server: Served, text: str) -> np.ndarray:
    with closing(connect(server)) as connection:
        return embedding(connection, text)


def texts(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(n)]


@pytest.mark.parametrize("workers", [1, 2])
def test_under_load_every_answer_is_right(model_folder, model, workers):
    def client(seed: int) -> None:
        connection = connect(server)
        for number, text in enumerate(texts(60, seed)):
            np.testing.assert_array_equal(embedding(connection, text), model.encode(text, normalize=True))
            if number % 20 == 0:  # a large one between the small ones
                many = texts(400, seed)
                answer, body = ask(connection, "/embed", {"inputs": many})
                assert answer.status == 200
                found = np.array(json.loads(body), np.float32)
                np.testing.assert_array_equal(found, model.encode(many, normalize=True))
        connection.close()

    with served(model_folder, "--quiet", "--workers", workers) as server:
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(client, range(12)))
        figures = metrics(server)
        assert figures['banyan_requests_total{route="/v1/embeddings",status="200"}'] == 12 * 60  # of all workers
        assert figures['banyan_requests_total{route="/embed",status="200"}'] == 12 * 3
        assert figures["banyan_workers"] == workers
        assert server.stop() == 0
        assert not server.events("a request failed")


def metrics(server: Served) -> dict[str, float]:
    connection = connect(server)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    parts = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in parts}


def test_too_many_at_once_are_asked_to_come_again(model_folder):
    """Two bodies are on their way, which is all that this server takes on: a third is turned away, and let in when
    they are done."""
    with served(model_folder, "--max-concurrent", 2) as server:
        waiting = [connect(server) for _ in range(2)]
        body = json.dumps({"inputs": "a cat"}).encode()
        for connection in waiting:
            connection.putrequest("POST", "/embed")
            connection.putheader("content-length", str(len(body)))
            connection.endheaders(body[:5])
        other = connect(server)
        deadline = time.monotonic() + 20
        status = 200
        while status == 200 and time.monotonic() < deadline:  # until both were seen to wait
            answer, told = ask(other, "/embed", {"inputs": "a dog"})
            status = answer.status
        assert (status, answer.headers["retry-after"]) == (429, "1")
        assert json.loads(told)["error_type"] == "Overloaded"
        answer, told = ask(other, "/v1/embeddings", {"input": "a dog"})
        assert (answer.status, json.loads(told)["error"]["code"]) == (429, "overloaded")
        other.request("GET", "/health")
        assert other.getresponse().read() == b""  # watched, not turned away
        for connection in waiting:
            connection.send(body[5:])
            answer = connection.getresponse()
            assert answer.status == 200
            answer.read()
        assert ask(other, "/embed", {"inputs": "a dog"})[0].status == 200
        for connection in (*waiting, other):
            connection.close()
        assert server.stop() == 0
        assert len([line for line in server.events("request") if line["status"] == 429]) >= 2
        assert server.events("overloaded: refusing requests")[0]["level"] == "warning"


def test_more_clients_than_it_takes_on_are_all_served_in_the_end(model_folder, model):
    def client(seed: int) -> int:
        turned_away = 0
        with closing(connect(server)) as connection:
            for text in texts(20, seed):
                while True:
                    answer, body = ask(connection, "/v1/embeddings", {"input": text, "encoding_format": "base64"})
                    if answer.status == 200:
                        break
                    assert answer.status == 429
                    turned_away += 1
                found = np.frombuffer(base64.b64decode(json.loads(body)["data"][0]["embedding"]), "<f4")
                np.testing.assert_array_equal(found, model.encode(text, normalize=True))
        return turned_away

    with served(model_folder, "--quiet", "--max-concurrent", 1) as server:
        with ThreadPoolExecutor(16) as pool:
            turned_away = sum(pool.map(client, range(16)))
        figures = metrics(server)
        assert figures['banyan_requests_total{route="/v1/embeddings",status="200"}'] == 16 * 20
        assert figures.get('banyan_requests_total{route="/v1/embeddings",status="429"}', 0) == turned_away
        assert server.stop() == 0


# --- One request, without a server -----------------------------------------------------------------------------------


def request(app: App, *parts: bytes | float, path: str = "/embed") -> tuple[int, dict[bytes, bytes], Any]:
    """Ask an application; a number among the parts of the body is a pause."""
    waiting = list(parts)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        part = waiting.pop(0)
        while not isinstance(part, bytes):
            await asyncio.sleep(part)
            part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "method": "POST", "headers": [], "client": None}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), json.loads(sent[1]["body"])


def application(model: Banyan, **limits: Any) -> App:
    return App(Service(model, ["tiny"], Limits(**limits), 0, Metrics(LABELS)), log_requests=False)


def test_a_body_that_never_ends_is_given_up(model):
    app = application(model, body_seconds=0.05)
    status, headers, told = request(app, b"{", 20.0, b"}")
    assert (status, told["error_type"], headers[b"connection"]) == (408, "Timeout", b"close")
    assert app.held == 0


def test_bodies_that_arrive_are_held_up_to_a_limit(model):
    app = application(model, body=1000)
    body = json.dumps({"inputs": "cat " * 200}).encode()
    assert request(app, body[:400], body[400:])[0] == 200
    app.held = 3500  # of other requests
    assert request(app, body)[0] == 429
    assert app.held == 3500


def test_a_failure_inside_is_answered_and_logged_but_not_told(model, monkeypatch, capfd):
    monkeypatch.setattr(Banyan, "encode_tokens", lambda *_, **__: 1 / 0)
    status, headers, told = request(application(model), b'{"input": "a cat"}', path="/v1/embeddings")
    assert (status, told["error"]["type"]) == (500, "server_error")
    assert "division" not in told["error"]["message"]
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    failed = next(line for line in lines if line["event"] == "a request failed")
    assert "ZeroDivisionError" in failed["traceback"]
    assert failed["request_id"] == headers[b"x-request-id"].decode()


# --- The end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_stopped_finishes_what_it_accepted(model_folder, model, workers):
    """Clients ask without pause while it is stopped: each request that was sent on an open connection is answered, and
    rightly, until the server says that it closes the connection."""
    asked = threading.Semaphore(0)

    def client(seed: int) -> int:
        connection = connect(server)
        for number, text in enumerate(itertools.cycle(texts(500, seed))):
            answer, body = ask(connection, "/v1/embeddings", {"input": text, "encoding_format": "base64"})
            assert answer.status == 200
            found = np.frombuffer(base64.b64decode(json.loads(body)["data"][0]["embedding"]), "<f4")
            np.testing.assert_array_equal(found, model.encode(text, normalize=True))
            asked.release()
            if answer.headers["connection"] == "close":
                connection.close()
                return number
        raise AssertionError

    with served(model_folder, "--quiet", "--workers", workers) as server:
        half = connect(server)  # one whose body is still on its way when the server is stopped
        body = json.dumps({"inputs": "a cat"}).encode()
        half.putrequest("POST", "/embed")
        half.putheader("content-length", str(len(body)))
        half.endheaders(body[:5])
        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(client, seed) for seed in range(4)]
            for _ in range(100):
                asked.acquire()
            server.process.send_signal(signal.SIGTERM)
            assert all(done.result() > 0 for done in clients)
        half.send(body[5:])
        answer = half.getresponse()
        assert answer.status == 200
        np.testing.assert_array_equal(np.array(json.loads(answer.read()), np.float32)[0], model.encode("a cat", True))
        half.close()
        assert server.process.wait(30) == 0
        with pytest.raises(ConnectionRefusedError):
            connect(server).connect()


def test_a_worker_that_dies_is_started_again(model_folder, model):
    with served(model_folder, "--quiet", "--workers", 2) as server:
        np.testing.assert_array_equal(once(server, "a cat"), model.encode("a cat", normalize=True))
        before = children(server.process.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        deadline = time.monotonic() + 30
        while (len(children(server.process.pid)) < 2 or before[0] in children(server.process.pid)) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.05)
        after = children(server.process.pid)
        assert len(after) == 2
        assert before[0] not in after
        for _ in range(10):
            np.testing.assert_array_equal(once(server, "a cat"), model.encode("a cat", normalize=True))
        assert metrics(server)['banyan_requests_total{route="/v1/embeddings",status="200"}'] == 11
        assert [line["exit_code"] for line in server.events("a worker died and is restarted")] == [-9]
        assert server.stop() == 0


def test_workers_do_not_outlive_their_parent(model_folder):
    with served(model_folder, "--workers", 2) as server:
        assert len(children(server.process.pid)) == 2
        server.process.kill()
        server.process.wait()
        server.reader.join(30)  # standard error ends when its last writer does
        assert not server.reader.is_alive()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_figures_of_several_workers_are_summed():
    metrics = Metrics(["/a", "/b"], workers=3)
    for worker in range(3):
        metrics.of(worker).request(1, 200, 0.003, texts=2, tokens=5)
    lines = metrics.text().splitlines()
    assert 'banyan_requests_total{route="/b",status="200"} 3' in lines
    assert "banyan_tokens_total 15" in lines
    assert 'banyan_request_duration_seconds_bucket{route="/b",le="0.0025"} 0' in lines
    assert 'banyan_request_duration_seconds_bucket{route="/b",le="0.005"} 3' in lines
    assert not [line for line in lines if 'route="/a"' in line]


def test_a_text_that_the_model_cannot_encode_fails_its_own_request_only(model):
    """Three requests at the same time are one batch."""

    class Fussy(Banyan):
        def encode_tokens(self, tokens: np.ndarray, offsets: np.ndarray, normalize: bool = False) -> np.ndarray:
            if (np.diff(offsets) > 20).any():
                raise BanyanError("the embedding of text 0 overflows")
            return super().encode_tokens(tokens, offsets, normalize)

    fussy = Fussy(model.config, model.tokenizer, model.weights)
    batcher = Batcher(Service(fussy, ["m"], Limits(), 0, Metrics(LABELS)))

    def job(text: str) -> Job:
        return Job(text, "inputs", None, True, None, lambda vectors, tokens: vectors.tobytes())

    async def ask() -> list[Any]:
        texts = ("the cat sat", "the cat sat " * 30, "a dog slept")
        return await asyncio.gather(*(batcher.run(job(text)) for text in texts), return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert str(second) == "the embedding of text 0 overflows"
    for found, text in ((first, "the cat sat"), (third, "a dog slept")):
        np.testing.assert_array_equal(np.frombuffer(found.body, np.float32), model.encode(text, normalize=True))
