"""Ray: shards go to workers; when a worker or its machine dies, Ray gives its shard to another.

Plain tasks rather than Ray Data: a shard that is encoded again writes the same part under the same name, so that twice
is as good as once. Ray Data names files after a random number of each run, so that a second run adds to the first.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan import threads
from banyan._version import __version__
from banyan.errors import BanyanError, first_line
from banyan.scale.shards import Outcome, Run, Shard, encode_shard
from banyan.scale.stores import Folder

if TYPE_CHECKING:
    from banyan.encoder import Banyan

ADDRESS = "RAY_ADDRESS"
RETRIES = 8  # of a shard whose worker died
WAITING = 1000  # shards that Ray knows of: more than there are free cores, so that a cluster that can grow does
CORES = 1  # of a worker: shards are many, and side by side they need no threads
_OBJECT_STORE = 256 << 20  # bytes on this machine: the model is all that goes through it


@dataclass(frozen=True)
class Job:
    folder: str
    out: str
    run: Run


def outcomes(job: Job, shards: Sequence[Shard], model: dict[str, bytes]) -> Iterator[Outcome]:
    """Of each shard, as they come. model: its files."""
    with _ray() as ray:
        files = [ray.put(model)]  # in a list, so that only workers that have no model yet fetch it
        task = ray.remote(num_cpus=CORES, max_retries=RETRIES)(_encode_shard)
        todo = iter(shards)
        waiting: dict[Any, Shard] = {}
        try:
            while True:
                for shard in islice(todo, WAITING - len(waiting)):
                    waiting[task.remote(job, shard, files)] = shard
                if not waiting:
                    return
                for done in ray.wait(list(waiting))[0]:
                    yield _outcome(ray, done, job, waiting.pop(done))
        finally:
            for left in waiting:
                ray.cancel(left, force=True)


def _outcome(ray: Any, done: Any, job: Job, shard: Shard) -> Outcome:
    try:
        return ray.get(done)
    except ray.exceptions.RayError as error:  # all that our own code may raise, _encode_shard has caught
        told = f"cannot encode {job.folder}/{shard.source}: its worker died {RETRIES + 1} times ({first_line(error)})"
        return Outcome(shard.part, error=told)


@contextmanager
def _ray() -> Iterator[Any]:
    """Connected: as the program already is, to RAY_ADDRESS, or to a Ray of our own on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless the user asks
    import ray
    import ray.exceptions

    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get(ADDRESS)
    how: dict[str, Any] = {"address": address or "local", "log_to_driver": False, "logging_level": "ERROR"}
    if not address:
        how |= {"num_cpus": threads.available(), "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    try:
        ray.init(**how)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"the Ray cluster at {address} ({ADDRESS})" if address else "Ray on this machine"
        raise BanyanError(f"cannot reach {where}: {first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


# --- On a worker -----------------------------------------------------------------------------------------------------


def _encode_shard(job: Job, shard: Shard, files: list[Any]) -> Outcome:
    os.environ["BANYAN_THREADS"] = str(CORES)
    try:
        if job.run.version != __version__:
            raise BanyanError(f"a worker has banyan {__version__}, not {job.run.version}: install the same everywhere")
        return encode_shard(_model(job.run.model, files), Folder(job.folder), Folder(job.out), shard, job.run)
    except BanyanError as error:
        return Outcome(shard.part, error=str(error))
    except Exception as error:  # of a store, say; one shard must not stop the others
        return Outcome(shard.part, error=f"cannot encode {job.folder}/{shard.source}: {first_line(error)}")


_models: dict[str, Banyan] = {}  # the one of this process


def _model(name: str, files: list[Any]) -> Banyan:
    if name not in _models:
        import ray

        from banyan.encoder import Banyan

        with tempfile.TemporaryDirectory(prefix="banyan-") as folder:
            for file, content in ray.get(files[0]).items():
                (Path(folder) / file).write_bytes(content)
            _models.clear()
            _models[name] = Banyan.from_pretrained(folder)
    return _models[name]
