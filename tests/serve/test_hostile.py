"""`banyan serve` and clients that are slow, endless, too many or too large; models that change; a stop under way."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import uvicorn
from uvicorn.server import ServerState

from banyan import Banyan
from banyan.serve.app import App
from banyan.serve.connection import protocol
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics
from banyan.serve.routes import LABELS
from banyan.serve.server import DRAIN_SECONDS, _Server, _Workers
from banyan.serve.service import Service
from tests.helpers.models import tiny_model
from tests.helpers.served import Served, served

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[..., Coroutine[Any, Any, Stream]]
GOOD = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


def application(model: Banyan, key: str | None = None, **limits: Any) -> App:
    return App(Service(model, ["tiny"], Limits(**limits), 0, Metrics(LABELS), key), log_requests=False)


# --- Connections -----------------------------------------------------------------------------------------------------


def against(model: Banyan, clients: Callable[[int, Connect], Coroutine], **limits: Any) -> None:
    """Run clients against a server in this process that looks after its connections all the time. `clients` gets its
    port and a function that connects from an address."""

    async def run() -> None:
        app = application(model, **limits)
        config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None)
        config.load()
        state, made = ServerState(), protocol(app.service.limits)
        server = await asyncio.get_running_loop().create_server(
            lambda: made(config=config, server_state=state, app_state={}), "0.0.0.0", 0
        )

        async def sweep() -> None:
            while True:
                now = asyncio.get_running_loop().time()
                app.unread = sum([each.overdue(now) for each in list(state.connections)])
                await asyncio.sleep(0.02)

        sweeping = asyncio.create_task(sweep())
        port = server.sockets[0].getsockname()[1]
        opened: list[Stream] = []

        async def connect(address: str = "127.0.0.1") -> Stream:
            opened.append(await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)))
            return opened[-1]

        try:
            async with asyncio.timeout(30):
                await clients(port, connect)
        finally:
            sweeping.cancel()
            for _, writer in opened:
                writer.close()
            await asyncio.sleep(0.05)
            for each in list(state.connections):
                each.transport.abort()
            server.close()

    asyncio.run(run())


async def status(stream: Stream) -> int | None:
    """The status of the next answer, or None if the connection ends."""
    try:
        line = await stream[0].readline()
    except ConnectionError:
        return None
    return int(line.split()[1]) if line else None


async def healthy(connect: Connect, address: str = "127.0.0.2") -> bool:
    """Whether another client is served."""
    stream = await connect(address)
    stream[1].write(GOOD)
    return await status(stream) == 200


def test_a_head_that_does_not_end_in_time_is_given_up(model):
    async def clients(port: int, connect: Connect) -> None:
        stream = await connect()
        silent = await connect()
        stream[1].write(b"GET /health HTTP/1.1\r\nx: ")
        assert await healthy(connect)
        assert await status(stream) == 408
        assert await status(silent) is None

    against(model, clients, head_seconds=0.3)


def test_a_connection_between_requests_is_not_a_slow_head(model):
    async def clients(port: int, connect: Connect) -> None:
        stream = await connect()
        for _ in range(2):
            stream[1].write(GOOD)
            assert await status(stream) == 200
            await stream[0].readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.5)

    against(model, clients, head_seconds=0.2)


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /health HTTP/1.1\r\nx: ",
        b"GET /",
        b"GET /health HTTP/1.1\r\n",
        b"POST /embed HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx: ",
    ],
    ids=["one header", "path", "many headers", "trailer"],
)
def test_a_head_that_grows_without_end_is_refused(model, endless):
    async def clients(port: int, connect: Connect) -> None:
        stream = await connect()
        stream[1].write(endless)
        sent, filling = 0, b"a: b\r\n" * 500 if endless.endswith(b"1.1\r\n") else b"x" * 3000
        while not stream[0].at_eof() and sent < 5_000_000:
            try:
                stream[1].write(filling)
                await stream[1].drain()
            except ConnectionError:
                break
            sent += len(filling)
            await asyncio.sleep(0)
            if stream[0]._buffer:  # type: ignore[attr-defined]
                break
        assert sent < 5_000_000
        assert await healthy(connect)

    against(model, clients, head=20_000, body=50_000)


def test_one_client_cannot_take_all_connections(model):
    async def clients(port: int, connect: Connect) -> None:
        held = [await connect() for _ in range(8)]
        assert await healthy(connect)
        found = [await status(stream) for stream in held[5:]]
        assert found == [429, 429, 429]
        held[0][1].write(GOOD)
        assert await status(held[0]) == 200
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.1)
        assert await healthy(connect, "127.0.0.1")  # closed connections no longer count

    against(model, clients, client_connections=5)


def test_a_client_that_does_not_read_its_answer_is_disconnected(model):
    body = json.dumps({"inputs": ["cat"] * 2000}).encode()

    async def clients(port: int, connect: Connect) -> None:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", port))
        head = b"POST /embed HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body)
        with closing(deaf):
            sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(deaf, (head + body) * 60))
            await asyncio.sleep(2.5)
            sending.cancel()
            assert await healthy(connect)
            deaf.setblocking(True)
            received = sum(map(len, iter(lambda: _received(deaf), b"")))
            assert received < 60 * 2000 * 16 * 6  # what the system had taken

    against(model, clients, answer_seconds=0.5)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 20)
    except ConnectionError:
        return b""


# --- Requests --------------------------------------------------------------------------------------------------------


def ask(app: App, path: str, body: Any, method: str = "POST", **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(app({"type": "http", "path": path, "method": method, "headers": given, "client": None}, receive, send))
    return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}, sent[1]["body"]


def test_tokenize_has_the_limits_of_every_route(model):
    app = application(model)
    assert ask(app, "/tokenize", {"inputs": "a " * 4_950_000})[0] == 413
    assert ask(app, "/tokenize", {"inputs": ["a " * 4000] * 100})[0] == 413
    assert ask(app, "/tokenize", {"inputs": "a " * 4000})[0] == 200


@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings", "/tokenize", "/parse"])
def test_one_endless_word_is_refused_before_it_is_split(model, path, monkeypatch):
    """A word that the kernels leave to `tokenizers` takes a few hundred bytes of memory for each character."""
    app = application(model)
    monkeypatch.setattr(type(model.tokenizer), "encode", lambda *_, **__: pytest.fail("it was split"))
    status, _, told = ask(app, path, {"input" if "v1" in path else "inputs": "a" * 9_900_000})
    assert (status, b"9,900,000 characters" in told) == (400 if "v1" in path else 413, True)


def test_a_long_text_is_cut_before_it_is_split(model):
    app = application(model, input_tokens=4)
    text = "the cat sat " * 100
    for side, kept in (("Right", text[:256]), ("Left", text[-256:])):
        options = {"truncate": True, "truncation_direction": side}
        found = ask(app, "/embed", {"inputs": text, **options})
        assert found[0] == 200
        assert found[2] == ask(app, "/embed", {"inputs": kept, **options})[2]


def test_answers_have_a_limit(model):
    app = application(model, answer=20_000)
    for path, body in {
        "/embed": {"inputs": ["cat"] * 200},
        "/v1/embeddings": {"input": ["cat"] * 200},
        "/parse": {"inputs": ["the cat sat on the mat"] * 20, "embeddings": True},
        "/decode": {"ids": [[300] * 8000] * 10},
        "/tokenize": {"inputs": ["the cat sat on the mat"] * 200},
        "/": {"inputs": ["cat"] * 200},
        "/invocations": {"inputs": ["cat"] * 200},
        "/tree": {"inputs": ["the cat sat on the mat"] * 20, "embeddings": True},
        "/rerank": {"query": "cat", "texts": ["cat"] * 500},
    }.items():
        status, _, told = ask(app, path, body)
        assert (status, b"the answer would have about" in told) == (400 if "v1" in path else 413, True), path
    assert ask(app, "/parse", {"inputs": ["the cat sat on the mat"] * 20, "format": "svg"})[0] == 413
    assert ask(app, "/rerank", {"query": "cat", "texts": ["cat" * 300] * 30, "return_text": True})[0] == 413
    assert ask(app, "/parse", {"inputs": ["the cat sat on the mat"] * 20, "format": "brackets"})[0] == 200
    app.unread = 100_000  # other clients do not read their answers
    assert ask(app, "/embed", {"inputs": "cat"})[0] == 429


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_of_a_key_is_written_in_any_case(model, scheme):
    app = application(model, key="secret")
    assert ask(app, "/embed", {"inputs": "cat"}, authorization=f"{scheme} secret")[0] == 200
    assert ask(app, "/embed", {"inputs": "cat"}, authorization=f"{scheme} other")[0] == 401
    assert ask(app, "/embed", {"inputs": "cat"}, authorization="Basic secret")[0] == 401


def test_answers_are_not_sniffed_and_the_page_allows_only_its_own_script(model):
    app = application(model)
    assert ask(app, "/embed", {"inputs": "cat"})[1]["x-content-type-options"] == "nosniff"
    assert ask(app, "/nothing", {})[1]["x-content-type-options"] == "nosniff"
    policy = ask(app, "/docs", {}, "GET")[1]["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_the_policy_of_a_map_names_its_script():
    from banyan.explorer import map_page
    from banyan.support.pages import policy

    page = map_page("title", {"x": []})
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy(script, style)}">' in page


# --- The model changes -----------------------------------------------------------------------------------------------


def request(server: Served, method: str, path: str, body: Any = None, **headers: str) -> Any:
    host, port = server.address.removeprefix("http://").split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=30)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        found = answer.read()
        assert answer.status == 200, found
        return json.loads(found)


def vector(server: Served, **headers: str) -> np.ndarray:
    return np.array(request(server, "POST", "/embed", {"inputs": "the cat"}, **headers), np.float32)[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_is_replaced_while_it_serves(tmp_path, workers):
    """Its file is cut off and written over in place, which a mapped file would not survive; then it is loaded again
    while clients ask: each answer is of one of the two models, and none is lost."""
    folder, old, new = tmp_path / "model", tiny_model(), tiny_model()
    new.weights["embedding"][:] = new.weights["embedding"][:, ::-1].copy()
    old.save_pretrained(folder)
    before, after = (model.encode("the cat", normalize=True) for model in (old, new))
    key = {"authorization": "bearer secret"}
    with served(folder, "--quiet", "--workers", workers, BANYAN_API_KEY="secret") as server:
        os.truncate(folder / "model.safetensors", 0)
        assert np.array_equal(vector(server, **key), before)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.events("cannot load the model again: the old one stays"))
        assert np.array_equal(vector(server, **key), before)
        new.save_pretrained(folder)
        done = threading.Event()

        def client() -> set[bytes]:
            seen = {vector(server, **key).tobytes() for _ in iter(done.is_set, True)}
            return seen | {vector(server, **key).tobytes()}

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(client) for _ in range(3)]
            try:
                request(server, "POST", "/reload", **key)  # without a body
                wait_for(lambda: len(server.events("loaded the model again")) == workers + (workers > 1))
                time.sleep(0.1)
            finally:
                done.set()
            found = set().union(*(each.result() for each in asking))
        assert found <= {before.tobytes(), after.tobytes()}
        assert np.array_equal(vector(server, **key), after)
        assert request(server, "GET", "/info", **key)["model_sha"] == Banyan.from_pretrained(folder).fingerprint()
        assert server.stop() == 0


class AskedSite:
    """Counts loads. While the first one is under way, it is asked for more."""

    def __init__(self) -> None:
        self.under_way = self.most = self.loads = 0
        self.ask: Callable[[], object] = lambda: None

    def reload(self) -> None:
        self.under_way += 1
        self.most, self.loads = max(self.most, self.under_way), self.loads + 1
        for _ in range(5 if self.loads == 1 else 0):
            self.ask()
        self.under_way -= 1


def test_a_model_is_loaded_once_at_a_time_however_often_it_is_asked_for():
    """Of two loads under way, the one of the older files may end last."""
    site = AskedSite()
    workers = _Workers(site, lambda *_: None, [])  # type: ignore[arg-type]
    site.ask = workers._reload  # a signal interrupts what is under way
    workers._reload()
    assert (site.most, site.loads) == (1, 2)

    async def asked() -> None:
        loop, server = asyncio.get_running_loop(), _Server.__new__(_Server)
        server.site, server.tasks, server.loading, server.asked = site, set(), False, False  # type: ignore[assignment]
        site.ask = lambda: asyncio.run_coroutine_threadsafe(hang_up(server), loop).result()
        server._hang_up()
        while server.tasks:
            await asyncio.sleep(0.01)

    async def hang_up(server: _Server) -> None:
        server._hang_up()
        await asyncio.sleep(0.01)  # a load that began now would be counted

    site.loads = 0
    asyncio.run(asked())
    assert (site.most, site.loads) == (1, 2)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_files_of_an_index_are_cut_while_it_is_served(model_folder, index_folder, tmp_path, workers):
    """Its arrays, which are mapped elsewhere: who reads what was cut off from a mapped file is killed."""
    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    with served(model_folder, "--quiet", "--workers", workers, "--index", folder) as server:
        before = request(server, "POST", "/search", {"query": "the cat", "k": 3})
        for path in (folder / "memory").glob("*.arrow"):
            os.truncate(path, 0)
        for _ in range(4):  # each worker is asked
            assert request(server, "POST", "/search", {"query": "the cat", "k": 3}) == before
        assert server.stop() == 0


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- The end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_client_that_connected_before_the_stop_may_ask_some_time_after_it(model_folder, workers):
    with served(model_folder, "--quiet", "--workers", workers) as server:
        host, port = server.address.removeprefix("http://").split(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=30)) as slow:
            slow.connect()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(3 * DRAIN_SECONDS)
            slow.request("POST", "/embed", json.dumps({"inputs": "the cat"}))
            assert slow.getresponse().status == 200
        assert server.process.wait(30) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_every_connection_is_answered_or_refused_while_it_stops(model_folder, workers):
    """Clients open a new connection for each request while the server stops. A connection that was made is answered."""
    stopped = threading.Event()

    def client(number: int) -> int:
        host, port = server.address.removeprefix("http://").split(":")
        for answered in itertools.count():
            with closing(http.client.HTTPConnection(host, int(port), timeout=30)) as connection:
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    assert stopped.is_set()
                    return answered
                connection.request("POST", "/embed", b'{"inputs": "a cat"}')
                assert connection.getresponse().status == 200
        raise AssertionError

    with served(model_folder, "--quiet", "--workers", workers) as server:
        with ThreadPoolExecutor(16) as pool:
            clients = [pool.submit(client, number) for number in range(16)]
            time.sleep(0.5)
            stopped.set()
            server.process.send_signal(signal.SIGTERM)
            assert all(each.result() for each in clients)
        assert server.process.wait(30) == 0
