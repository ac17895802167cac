"""Kills while a folder of Parquet files is encoded on Ray: of workers, of the driver, and of Ray's own process.

Ray gives the shard of a dead worker to another one. After the other kills, the command is run again with --resume, as a
user would. In the end each row must be there once, with the vector that it has without Ray, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from torture.campaign import Outcome, Plan
from torture.faults import inputs

TITLE = "kills of Parquet encoding on Ray"
KINDS = {"worker": (8, 100), "driver": (4, 60), "raylet": (3, 40)}  # kills in the hour, and in the long form
FILES, ROWS, WORDS = 8, 10_000, 30  # a part must take long enough to be killed in
SECONDS = 300  # until a run counts as hanging
_TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
_CLUSTER = """
import sys, ray
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
         object_store_memory=128 << 20)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""


class Place(NamedTuple):
    model: Path
    folder: Path
    out: Path

    def start(self, address: str | None, *more: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        environment |= {"RAY_USAGE_STATS_ENABLED": "0", "BANYAN_THREADS": "2"}
        environment |= {"RAY_ADDRESS": address, **_TOKEN} if address else {}
        command = ["encode", self.model, self.folder, "-o", self.out, "--engine", "ray", "--quiet", *more]
        return subprocess.Popen(
            [sys.executable, "-m", "banyan", *map(str, command)], text=True, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def parts(self) -> int:
        return len(list(self.out.glob("*.parquet")))

    def writers(self) -> set[int]:
        """The processes that are writing a part now."""
        found: set[int] = set()
        with suppress(FileNotFoundError):
            if not os.listdir(self.out / "_unfinished"):
                return found
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            try:
                if os.readlink(link).startswith(f"{self.out}/_unfinished/"):
                    found.add(int(link.parts[2]))
            except OSError:
                continue
        return found


def run(plan: Plan) -> Outcome:
    outcome = Outcome()
    if find_spec("ray") is None or not Path("/proc/self/fd").exists():
        outcome.not_tried.append("no Ray, or no /proc: no kills at all")
        return outcome
    inputs(plan.work / "inputs")
    place = Place(plan.work / "inputs" / "model", plan.work / "in", plan.work / "out")
    _write(place.folder, plan.rng("shards"))
    wanted = _wanted(place)
    with _cluster() as address:
        kills: dict[str, Callable[[random.Random], tuple[int, str | None]]] = {
            "worker": lambda rng: _workers(place, address, rng),
            "driver": lambda rng: _killed(place, address, rng, lambda process: process.pid),
            "raylet": lambda rng: _killed(place, None, rng, _raylet),
        }
        for kind, kill in kills.items():
            _try(kind, kill, place, wanted, plan, outcome)
    return outcome


def _try(kind: str, kill: Callable, place: Place, wanted: str, plan: Plan, outcome: Outcome) -> None:
    """Run until there were enough kills."""
    left = KINDS[kind][plan.long]
    for number in range(3 * left):
        shutil.rmtree(place.out, ignore_errors=True)
        killed, problem = kill(plan.rng("shards", kind, number))
        problem = problem or _wrong(place, wanted)
        if problem:
            outcome.fail(f"{kind}, run {number}: {problem}")
        outcome.tried[kind] += killed
        left -= killed
        if left <= 0:
            return
    outcome.not_tried.append(f"{left} kills of a {kind}: it was done too soon")


def _workers(place: Place, address: str, rng: random.Random) -> tuple[int, str | None]:
    """Kill workers while they write. The command itself succeeds."""
    process, killed = place.start(address), set[int]()
    end, most = time.monotonic() + SECONDS, rng.randint(1, 4)
    while len(killed) < most and process.poll() is None and time.monotonic() < end:
        for pid in list(place.writers() - killed)[: most - len(killed)]:
            time.sleep(rng.random() * 0.05)
            _kill(pid)
            killed.add(pid)
        time.sleep(0.01)
    code, told = _end(process)
    return len(killed), None if code == 0 else f"exit code {code}: {told[-300:]!r}"


def _killed(
    place: Place, address: str | None, rng: random.Random, whom: Callable[[subprocess.Popen[str]], int | None]
) -> tuple[int, str | None]:
    """Kill a process when some parts are written, then go on with --resume, which is sometimes killed as well."""
    killed = 0
    for attempt in range(rng.randint(1, 2)):
        process = place.start(address, *["--resume"] * bool(attempt))
        end, parts = time.monotonic() + SECONDS, rng.randint(0, FILES - 1)
        begun = place.parts
        while (begun() < parts or not (parts or place.out.exists())) and process.poll() is None:
            time.sleep(0.01)
            if time.monotonic() > end:
                break
        pid = whom(process) if process.poll() is None else None
        if pid is not None:
            time.sleep(rng.random() * 0.3)
            _kill(pid)
            killed += process.poll() is None or process.returncode < 0
        code, told = _end(process)
        if code is None:
            return killed, "no end after the kill"
    code, told = _end(place.start(address, "--resume"))
    return killed, None if code == 0 else f"with --resume: exit code {code}: {told[-300:]!r}"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _raylet(driver: subprocess.Popen[str]) -> int | None:
    """The process of Ray on this machine that a driver has started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            if name == "raylet" and int(rest.split()[1]) == driver.pid:
                return int(stat.parent.name)
        except OSError:
            continue
    return None


def _end(process: subprocess.Popen[str]) -> tuple[int | None, str]:
    """The exit code and what was said; no exit code if it hangs, and then it is killed."""
    try:
        told = process.communicate(timeout=SECONDS)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return None, process.communicate()[1]
    return process.returncode, told


@contextmanager
def _cluster() -> Iterator[str]:
    environment = os.environ | _TOKEN | {"RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", _CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin
        assert process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(SECONDS)


def _write(folder: Path, rng: random.Random) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    words = "the a cat dog sat slept on mat house tree green runs slowly quickly over under".split()
    tails = [" ".join(rng.choices(words, k=WORDS)) for _ in range(500)]
    for file in range(FILES):
        texts = [f"{file} {row} {tails[row % 500]}" for row in range(ROWS)]
        pq.write_table(pa.table({"text": texts}), folder / f"{file}.parquet", row_group_size=ROWS // 2)


def _wanted(place: Place) -> str:
    """The digest of all rows, encoded without Ray."""
    from banyan import Banyan

    model = Banyan.from_pretrained(place.model)
    digest = hashlib.sha256()
    for path in sorted(place.folder.glob("*.parquet")):
        texts = _column(path, "text")
        digest.update("\n".join(texts).encode() + model.encode(texts).tobytes())
    return digest.hexdigest()


def _column(path: Path, name: str) -> list:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=[name]).column(name).to_pylist()


def _wrong(place: Place, wanted: str) -> str | None:
    import numpy as np
    import pyarrow.parquet as pq

    digest, names = hashlib.sha256(), sorted(place.out.glob("*.parquet"))
    for path in names:
        table = pq.read_table(path)
        vectors = table.column("embedding").combine_chunks().flatten().to_numpy()
        digest.update("\n".join(table.column("text").to_pylist()).encode() + np.ascontiguousarray(vectors).tobytes())
    if digest.hexdigest() != wanted:
        return f"other rows: {sum(len(_column(path, 'text')) for path in names):,} in {len(names)} parts"
    left = {path.name for path in place.out.iterdir()} - {path.name for path in names} - {"_banyan.json"}
    return f"left behind: {sorted(left)}" if left else None
