"""Ray: sends shards to workers. When a worker or its machine dies, Ray gives its shard to another worker.

This uses plain tasks, not Ray Data: a shard that is encoded twice writes the same part under the same name, so nothing
is duplicated. Ray Data names its files after a random number, so a second run would add to the first.
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

from banyan._version import __version__
from banyan.errors import BanyanError, first_line
from banyan.scale.shards import EncodingSettings, ParquetShard, ShardResult, encode_shard
from banyan.scale.stores import Folder
from banyan.support import threads

if TYPE_CHECKING:
    from banyan.encoder import Banyan

ADDRESS = "RAY_ADDRESS"
RETRIES = 8  # of a shard whose worker died
WAITING = 1000  # shards submitted at a time: more than free cores, so that an autoscaling cluster grows
CORES = 1  # per worker: there are many shards, so a worker needs no threads of its own
_OBJECT_STORE = 256 << 20  # bytes on this machine; only the model goes through it


@dataclass(frozen=True)
class EncodingJob:
    folder: str
    out: str
    settings: EncodingSettings


def encode_shards(job: EncodingJob, shards: Sequence[ParquetShard], model: dict[str, bytes]) -> Iterator[ShardResult]:
    """Encode the shards and yield each result when it is there. model: file name -> content."""
    with _ray() as ray:
        files = [ray.put(model)]  # in a list, so that only workers that do not have the model fetch it
        task = ray.remote(num_cpus=CORES, max_retries=RETRIES)(_encode_shard)
        todo = iter(shards)
        waiting: dict[Any, ParquetShard] = {}
        try:
            while True:
                for shard in islice(todo, WAITING - len(waiting)):
                    waiting[task.remote(job, shard, files)] = shard
                if not waiting:
                    return
                for done in ray.wait(list(waiting))[0]:
                    yield _result(ray, done, job, waiting.pop(done))
        finally:
            for left in waiting:
                ray.cancel(left, force=True)


def _result(ray: Any, done: Any, job: EncodingJob, shard: ParquetShard) -> ShardResult:
    try:
        return ray.get(done)
    except ray.exceptions.RayError as error:  # _encode_shard catches what our own code raises
        reason = f"its worker died {RETRIES + 1} times ({first_line(error)})"
        return ShardResult(shard.part, error=f"cannot encode {job.folder}/{shard.source}: {reason}")


@contextmanager
def _ray() -> Iterator[Any]:
    """Connect to Ray: keep the program's own connection, or use RAY_ADDRESS, or start Ray on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics unless the user asks for it
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


def _encode_shard(job: EncodingJob, shard: ParquetShard, files: list[Any]) -> ShardResult:
    os.environ["BANYAN_THREADS"] = str(CORES)
    settings = job.settings
    try:
        if settings.version != __version__:
            versions = f"banyan {__version__}, not {settings.version}"
            raise BanyanError(f"a worker has {versions}: install the same version on all machines")
        return encode_shard(_model(settings.model, files), Folder(job.folder), Folder(job.out), shard, settings)
    except BanyanError as error:
        return ShardResult(shard.part, error=str(error))
    except Exception as error:  # a store may raise anything; the other shards go on
        return ShardResult(shard.part, error=f"cannot encode {job.folder}/{shard.source}: {first_line(error)}")


_models: dict[str, Banyan] = {}  # hash -> model; this process keeps one


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
