"""The thread pool that the kernels share. They release the GIL.

The result of a job depends on its arguments only, so results are the same for any number of threads, and several
Python threads may call at once. We do not use Numba's own threading layers: the one that every machine has aborts
the process when two threads enter it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from banyan.errors import BanyanError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

JOBS = 64  # more than there are threads, so that no thread waits long for the last one
_pools: dict[int, ThreadPoolExecutor] = {}
_this_thread = threading.local()
os.register_at_fork(after_in_child=_pools.clear)  # a forked child does not inherit the threads


def available() -> int:
    """Return BANYAN_THREADS or, if it is not set, the number of cores that this process may use. It is 1 in a thread of
    `ahead`, whose neighbours use the others."""
    if getattr(_this_thread, "has_neighbours", False):
        return 1
    wanted = os.environ.get("BANYAN_THREADS")
    if wanted is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not wanted.isdecimal() or int(wanted) < 1:
        raise BanyanError(f"BANYAN_THREADS must be a positive whole number, not {wanted!r}")
    return int(wanted)


def let_torch_rest() -> None:
    """Let torch's threads sleep between its operations, unless the user has chosen otherwise. By default they wait
    actively, for milliseconds after each operation, on cores that our kernels or other programs need. OpenMP reads this
    when torch is imported, so call it before."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def run(function: Callable[..., Any], jobs: Sequence[tuple], threads: int | None = None) -> list[Any]:
    """[function(*job) for job in jobs], on `threads` threads."""
    threads = min(threads or available(), len(jobs))
    if threads <= 1:
        return [function(*job) for job in jobs]
    pool = _pools.get(threads)
    if pool is None:
        from concurrent.futures import ThreadPoolExecutor  # imported here because it takes as long as all else here

        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads, thread_name_prefix="banyan"))
    return list(pool.map(lambda job: function(*job), jobs))


@contextmanager
def ahead(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[Iterator[tuple[T, R]]]:
    """Give each item and its result, in order. Meanwhile, later items are taken and worked on: one on each thread, and
    one that waits. What has begun is waited for when the block ends."""
    from concurrent.futures import ThreadPoolExecutor

    def begin() -> None:
        _this_thread.has_neighbours = threads > 1

    pool = ThreadPoolExecutor(threads, initializer=begin)
    try:
        yield _ahead(pool, function, items, threads)
    finally:
        pool.shutdown(cancel_futures=True)


def _ahead(
    pool: ThreadPoolExecutor, function: Callable[[T], R], items: Iterable[T], most: int
) -> Iterator[tuple[T, R]]:
    waiting: deque[tuple[T, Future[R]]] = deque()
    for item in items:
        waiting.append((item, pool.submit(function, item)))
        if len(waiting) > most:
            first, result = waiting.popleft()
            yield first, result.result()
    for first, result in waiting:
        yield first, result.result()


def shares(n: int) -> list[slice]:
    """Divide n rows into at most JOBS slices."""
    from banyan.support.rows import slices  # imported here because it imports NumPy

    return slices(n, -(-n // JOBS) or 1)
