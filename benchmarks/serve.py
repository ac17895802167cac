"""Requests per second of `banyan serve`, each with one short sentence, over persistent connections.

    python -m benchmarks.serve [--model DIR] [--workers 1] [--seconds 10] [--connections 32]

The load comes from wrk (apt-get install wrk), a separate process on the same cores. The answers are checked first, bit
by bit. Then the server is measured in alternation with the same server and an empty handler, which reads a request and
sends a constant answer of the same size. The ratio shows the cost of encoding and of everything around it. The last
requests have the size for which infinity publishes figures: 256 texts, 115,000 tokens.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from banyan.encoder import Banyan
from banyan.tokenizer import Tokenizer
from benchmarks.common import report, sentences
from benchmarks.encode import untrained
from experiments.data import add_data_option

SENTENCES = 2000  # distinct, requested in turn
LARGE_TEXTS, LARGE_TOKENS = 256, 115_000
WORDS = (5, 12)  # least and greatest length of a short sentence

SCRIPT = """
local bodies, at = {}, 0
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
request = function()
  at = at % #bodies + 1
  return wrk.format("POST", "/v1/embeddings", {["content-type"] = "application/json"}, bodies[at])
end
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('\\nFIGURES {"requests": %d, "seconds": %f, "failed": %d, "p50": %f, "p99": %f}\\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


class Empty:
    """The empty handler, in place of banyan.serve.app.App."""

    service = SimpleNamespace(stopping=False)
    accepted: set[Any] = set()  # noqa: RUF012

    def __init__(self, size: int) -> None:
        self.body = b"x" * size
        self.headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % size)]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


def serve_nothing(size: int) -> None:
    from banyan.serve import server

    site: Any = SimpleNamespace(settings=server.Settings("", port=0))
    (bound,) = server._listen(site.settings)
    address = f"http://127.0.0.1:{bound.getsockname()[1]}"
    said = json.dumps({"event": "serving", "address": address})
    empty: Any = Empty(size)
    server._Server(empty, site, None, lambda: print(said, file=sys.stderr, flush=True)).run([bound])


@contextmanager
def running(command: list[str]) -> Iterator[tuple[str, int]]:
    """Start a server that logs to a file; yield its address and process id."""
    with tempfile.NamedTemporaryFile() as log, subprocess.Popen(command, stderr=log) as process:
        path = Path(log.name)
        try:
            while not (found := re.search(r'"serving".*"address": ?"([^"]*)"', path.read_text())):
                assert process.poll() is None, path.read_text()
                time.sleep(0.1)
            yield found[1], process.pid
            process.send_signal(signal.SIGTERM)
            assert process.wait(40) == 0, "the server did not stop cleanly"
        finally:
            process.kill()


def short(text: list[str]) -> list[str]:
    found = [line for line in text if WORDS[0] <= len(line.split()) <= WORDS[1]]
    return list(dict.fromkeys(found))[:SENTENCES]


def bodies(text: list[str], name: str) -> list[bytes]:
    return [json.dumps({"input": line, "model": name, "encoding_format": "base64"}).encode() for line in text]


def check(address: str, asked: list[bytes], expected: np.ndarray) -> int:
    """Check that every answer has the bits of the model; return the size of an answer."""
    for body, vector in zip(asked, expected, strict=True):
        with urllib.request.urlopen(f"{address}/v1/embeddings", body) as answer:
            content = answer.read()
        found = np.frombuffer(base64.b64decode(json.loads(content)["data"][0]["embedding"]), "<f4")
        assert np.array_equal(found, vector), body
    return len(content)


def load(address: str, pid: int, folder: Path, seconds: int, connections: int) -> dict[str, float]:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(folder / "load.lua"), address]
    environment = {**os.environ, "BODIES": str(folder / "bodies")}
    before = cpu_seconds(pid)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = re.search("FIGURES (.*)", done.stdout)
    assert found, done.stdout + done.stderr
    figures = json.loads(found[1])
    cpu = (cpu_seconds(pid) - before) / figures["requests"]
    return {**figures, "rate": figures["requests"] / figures["seconds"], "cpu": cpu}


def large(address: str, text: list[str], model: Banyan, requests: int = 10) -> dict[str, float]:
    """Large requests from one client, one after another, with answers as JSON numbers."""
    _, offsets = model.tokenizer.encode(text)
    ends = np.searchsorted(offsets, np.arange(1, LARGE_TEXTS + 1) * (LARGE_TOKENS // LARGE_TEXTS))
    texts = [" ".join(text[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    body = json.dumps({"input": texts, "model": "model"}).encode()
    started = time.perf_counter()
    for _ in range(requests):
        with urllib.request.urlopen(f"{address}/v1/embeddings", body) as answer:
            content = answer.read()
    rate = requests / (time.perf_counter() - started)
    answered = json.loads(content)
    vectors = np.array([item["embedding"] for item in answered["data"]], np.float32)
    assert np.array_equal(vectors, model.encode(texts, normalize=True))
    return {"large_requests_per_s": rate, "large_tokens_per_s": rate * answered["usage"]["total_tokens"]}


def processes(pid: int) -> list[int]:
    """The process ids of a server and its workers."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def cpu_seconds(pid: int) -> float:
    """CPU time used so far, which other work on the machine affects least."""
    fields = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in processes(pid)]
    return sum(int(found[11]) + int(found[12]) for found in fields) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, kind: str = "Pss") -> float:
    """Memory of a server and its workers in MB, with common pages counted once; Pss_Anon: without mapped files."""
    total = 0
    for process in processes(pid):
        found = re.search(rf"{kind}:\s+(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text())
        total += int(found[1]) if found else 0
    return total / 1e3


def made_model(text: list[str], folder: Path) -> Path:
    untrained(Tokenizer.train(text, kind="bpe", vocab_size=25_000)).save_pretrained(folder / "model")
    return folder / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model folder (default: random weights, 256 dimensions, 25,000 pieces)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--empty", type=int, metavar="BYTES", help=argparse.SUPPRESS)
    add_data_option(parser)
    options = parser.parse_args()
    if options.empty:
        serve_nothing(options.empty)
        return
    if not shutil.which("wrk"):
        parser.error("wrk is not installed: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))


def measure(options: argparse.Namespace, folder: Path) -> None:
    text, source = sentences(100_000, options.data)
    asked_for = short(text)
    model = options.model or str(made_model(text, folder))
    asked = bodies(asked_for, "model")
    here = Banyan.from_pretrained(model)
    expected = here.encode(asked_for, normalize=True)
    (folder / "load.lua").write_text(SCRIPT)
    (folder / "bodies").write_bytes(b"\n".join(asked) + b"\n")
    command = [sys.executable, "-m", "banyan", "serve", model, "--name", "model", "--port", "0"]
    command += ["--workers", str(options.workers)]
    served: list[dict[str, float]] = []
    empty: list[dict[str, float]] = []
    with running(command) as (address, pid):
        size = check(address, asked, expected)
        with running([sys.executable, "-m", "benchmarks.serve", "--empty", str(size)]) as (nothing, other):
            load(address, pid, folder, 2, options.connections)  # warm
            before = memory(pid, "Pss_Anon")
            for _ in range(options.rounds):
                served.append(load(address, pid, folder, options.seconds, options.connections))
                empty.append(load(nothing, other, folder, options.seconds, options.connections))
            time.sleep(1)
            after, total = memory(pid, "Pss_Anon"), memory(pid)
            check(address, asked[:100], expected[:100])
        of_large = large(address, text[:20_000], here)
    rows = [
        {"server": name, "requests/s": best["rate"], "p50 ms": best["p50"], "p99 ms": best["p99"],
         "CPU µs per request": min(r["cpu"] for r in runs) * 1e6,
         "requests": int(sum(r["requests"] for r in runs)), "failed": int(sum(r["failed"] for r in runs))}
        for name, runs in (("banyan serve", served), ("an empty handler", empty))
        for best in [max(runs, key=lambda r: r["rate"])]
    ]  # fmt: skip
    report(
        {"one short sentence per request, base64, persistent connections": rows},
        text=source,
        words_of_a_sentence=statistics.mean(len(line.split()) for line in asked_for),
        connections=options.connections,
        workers=options.workers,
        share_of_empty=max(r["rate"] for r in served) / max(r["rate"] for r in empty),
        **of_large,
        memory_MB=total,
        outside_files_MB_before=before,
        outside_files_MB_after=after,
        load_average=os.getloadavg()[0],
    )


if __name__ == "__main__":
    main()
