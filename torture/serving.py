"""A server under fire: floods, overload, the largest bodies, slow heads, and stops while clients connect."""

from __future__ import annotations

import copy
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from torture.campaign import Outcome, Plan
from torture.faults import inputs

TITLE = "serving"
MEMORY = 2 << 30  # bytes that a server may use at its largest request,
CPU_SECONDS = 30  # and the time: that of its processors, because the machine may be busy with other things
KEY = "torture"  # with a key, the model can be loaded again


class Server:
    def __init__(self, model: Path, *options: object) -> None:
        command = [sys.executable, "-m", "banyan", "serve", model, "--port", "0", "--quiet", *options]
        environment = os.environ | {"BANYAN_API_KEY": KEY}
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr
        line = json.loads(self.process.stderr.readline())
        while line["event"] != "serving":
            line = json.loads(self.process.stderr.readline())
        self.port = int(line["address"].rpartition(":")[2])
        self.failed: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr
        self.failed += [line for line in self.process.stderr if '"level":"error"' in line]

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def cpu_seconds(self) -> float:
        """What the server has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, connection: http.client.HTTPConnection, path: str, body: Any) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {KEY}"}
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def healthy(self) -> float | None:
        """Seconds that another client waits for an answer; None if it gets none."""
        started = time.monotonic()
        try:
            with closing(self.connection()) as connection:
                status, _ = self.ask(connection, "/embed", {"inputs": "a cat"})
        except OSError:
            return None
        return time.monotonic() - started if status == 200 else None


@contextmanager
def serving(model: Path, *options: object) -> Iterator[Server]:
    server = Server(model, *options)
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)


def run(plan: Plan) -> Outcome:
    outcome = Outcome()
    inputs(plan.work / "inputs")
    model = plan.work / "inputs" / "model"
    _load(model, plan, outcome)
    _overload(model, plan, outcome)
    _largest(plan.work, outcome)
    _heads(model, outcome)
    for workers in (1, 2):
        for number in range(50):
            outcome.count(f"SIGTERM, {workers} workers", _stopped(model, workers, number))
    return outcome


def _with_classifier(work: Path) -> Path:
    """A folder whose classifier has many classes with long names."""
    texts = (work / "inputs" / "corpus.txt").read_text().splitlines()
    rows = [f"{text}\t{'class ' * 100}{number % 150}\n" for number, text in enumerate(texts)]
    (work / "labelled.tsv").write_text("text\tlabel\n" + "".join(rows))
    command = ["classify", "train", work / "inputs" / "model", work / "labelled.tsv", "--out", work / "classifier"]
    command += ["--epochs", "1", "--quiet"]
    subprocess.run([sys.executable, "-m", "banyan", *map(str, command)], check=True)
    return work / "classifier"


def _clients(count: int, seconds: float, client: Any) -> Counter[str]:
    """Run clients until the time is over; count what they return."""
    found: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        mine: Counter[str] = Counter()
        while time.monotonic() < end:
            mine.update(client(number, end))
        found.update(mine)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _statuses(server: Server, number: int, end: float) -> Counter[str]:
    found: Counter[str] = Counter()
    try:
        with closing(server.connection()) as connection:
            while time.monotonic() < end:
                status, _ = server.ask(connection, "/v1/embeddings", {"input": f"the cat {number}"})
                found[str(status)] += 1
    except OSError as error:
        found[type(error).__name__] += 1
    return found


def _load(model: Path, plan: Plan, outcome: Outcome) -> None:
    with serving(model) as server:
        found = _clients(256, 600 if plan.long else 20, lambda number, end: _statuses(server, number, end))
    outcome.tried["256 connections: requests"] += found.total()
    if set(found) != {"200"} or server.failed:
        outcome.fail(f"256 connections: {dict(found)} {server.failed[:1]}")


def _overload(model: Path, plan: Plan, outcome: Outcome) -> None:
    with serving(model, "--max-concurrent", 16) as server:
        found = _clients(64, 60 if plan.long else 10, lambda number, end: _statuses(server, number, end))
    outcome.tried["4 times overload: requests"] += found.total()
    if not set(found) <= {"200", "429"} or server.failed:
        outcome.fail(f"overload: {dict(found)} {server.failed[:1]}")


def _largest(work: Path, outcome: Outcome) -> None:
    """The largest bodies of every route that takes one, of several shapes, under a ceiling of memory."""
    model = _with_classifier(work)
    command = ["index", model, work / "inputs" / "corpus.txt", "-o", work / "index", "--quiet"]
    subprocess.run([sys.executable, "-m", "banyan", *map(str, command)], check=True)
    with serving(model, "--index", work / "index") as server:
        _wait_for_map(server)
        for path, operation in _operations(server):
            for kind, body in bodies(operation):
                outcome.count(f"largest body, {path}", _one(server, path, body, kind))
        peak = int(Path(f"/proc/{server.process.pid}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
        if peak > MEMORY:
            outcome.fail(f"largest bodies: {peak:,} bytes of memory")
        outcome.figures.append(("peak of memory", f"{peak // 1_000_000:,} MB"))


def _wait_for_map(server: Server) -> None:
    """Until it is laid out, the routes about its points only say so."""
    with closing(server.connection()) as connection:
        while not json.loads(server.ask(connection, "/explore/map", {})[1])["ready"]:
            time.sleep(0.2)


def _operations(server: Server) -> list[tuple[str, dict[str, Any]]]:
    """The routes that take a body, as the server describes them."""
    with closing(server.connection()) as connection:
        connection.request("GET", "/openapi.json")
        paths = json.loads(connection.getresponse().read())["paths"]
    found = [(path, methods["post"]["requestBody"]) for path, methods in paths.items() if "post" in methods]
    return [(path, body["content"]["application/json"]) for path, body in found]


def bodies(operation: dict[str, Any], size: int = 9_900_000) -> Iterator[tuple[str, dict[str, Any]]]:
    """The example of a route with large values: in each field that must be there, in all of them with every option that
    can be turned on, and in each field that may be there. A route without any gets a field that it does not know."""
    example, schema = operation["example"], operation["schema"]
    fields = list(_fields(schema))
    switched = _switched(schema)
    for kind, value in _values(size).items():
        for field in fields:
            yield f"{kind} in {'.'.join(field)}", _replaced(example, [field], value)
        if len(fields) > 1 or switched:
            value = _values(size // len(fields))[kind]
            yield f"{kind} everywhere, {[*switched]}", _replaced(example, fields, value) | switched
    known = {*switched, *(field[0] for field in fields)}
    others = [name for name in schema["properties"] if name not in known]
    for name in others or ["unknown"]:
        for kind in ("letters", "texts", "tokens"):
            yield f"{kind} in {name}", example | {name: _values(size)[kind]}


def _values(size: int) -> dict[str, Any]:
    """JSON values of about so many bytes. The last ones are as much text as a server takes: the most work."""
    longest = "the cat " * 4000
    return {
        "spaces": "a " * (size // 2), "letters": "a" * size, "texts": ["a"] * (size // 5),
        "tokens": [1] * (size // 3), "lists": [[1]] * (size // 5), "wide": ["the cat sat on the mat " * 200] * 2048,
        "exotic": "\ufdfa" * (size // 6), "a long text": longest, "long texts": [longest] * 30,
        "short texts": ["the cat sat on the mat"] * 2047,
    }  # fmt: skip


def _fields(schema: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """The paths of what a body must have."""
    if schema.get("type") != "object":
        yield path
        return
    for name in schema.get("required", ()):
        yield from _fields(schema["properties"][name], *path, name)


def _switched(schema: dict[str, Any]) -> dict[str, bool]:
    """Every option that is true or false, as true."""
    options = {name: option.get("anyOf", [option]) for name, option in schema.get("properties", {}).items()}
    return {name: True for name, kinds in options.items() if {"type": "boolean"} in kinds}


def _replaced(example: dict[str, Any], fields: list[tuple[str, ...]], value: Any) -> dict[str, Any]:
    body = copy.deepcopy(example)
    for *path, last in fields:
        place = body
        for name in path:
            place = place[name]
        place[last] = value
    return body


def _one(server: Server, path: str, body: Any, kind: str) -> str | None:
    before = server.cpu_seconds()
    try:
        with closing(server.connection()) as connection:
            status, told = server.ask(connection, path, body)
    except OSError as error:
        return f"{kind}: {error!r}"
    seconds = server.cpu_seconds() - before
    fine = status in (200, 400, 404, 413, 422) and seconds < CPU_SECONDS  # 404: there is no model of this name
    return None if fine else f"{kind}: {status} {told[:80]!r} {seconds:.0f} s"


def _heads(model: Path, outcome: Outcome) -> None:
    """Half-open connections and growing heads: others are served meanwhile."""
    with serving(model, "--max-client-connections", 300) as server:
        held = []
        for _ in range(290):
            held.append(socket.create_connection(("127.0.0.1", server.port)))
            held[-1].sendall(b"POST /embed HTTP/1.1\r\nx: ")
        waited = server.healthy()
        outcome.count("half-open connections", None if waited and waited < 5 else f"another client waits {waited}")
        time.sleep(12)
        closed = sum(connection.recv(20).startswith(b"HTTP/1.1 408") for connection in held)
        outcome.count("half-open connections", None if closed == len(held) else f"{closed} of {len(held)} answered")
        with closing(socket.create_connection(("127.0.0.1", server.port))) as growing:
            growing.sendall(b"GET / HTTP/1.1\r\nx: ")
            try:
                for _ in range(1000):
                    growing.sendall(b"x" * 10_000)
            except OSError:
                pass
            waited = server.healthy()
            outcome.count("growing head", None if waited and waited < 5 else f"another client waits {waited}")
        for connection in held:
            connection.close()


def _stopped(model: Path, workers: int, number: int) -> str | None:
    """Stop a server while clients open connections: only refusals, no resets."""
    server = Server(model, "--workers", workers)
    problems: list[str] = []

    def client() -> None:
        while True:
            with closing(server.connection()) as connection:
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    return
                try:
                    status, _ = server.ask(connection, "/embed", {"inputs": "a cat"})
                    if status != 200:
                        problems.append(str(status))
                except OSError as error:
                    problems.append(repr(error))

    threads = [threading.Thread(target=client) for _ in range(16)]
    for thread in threads:
        thread.start()
    time.sleep(0.3 + 0.05 * (number % 7))
    os.kill(server.process.pid, signal.SIGTERM)
    code = server.process.wait(60)
    for thread in threads:
        thread.join()
    return None if not problems and code == 0 else f"{Counter(problems).most_common(2)}, exit code {code}"
