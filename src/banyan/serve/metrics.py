"""Figures for Prometheus.

Every worker counts in a row of its own of one shared memory, so nobody waits for anybody; whoever is asked sums the
rows. A worker that is started again goes on with its row, so that counters never fall.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from banyan._version import __version__
from banyan.serve.refusal import STATUSES

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
_BYTES = 8  # of a number


class Metrics:
    """The rows of all workers; `of(worker)` is the one to count in."""

    def __init__(self, routes: list[str], workers: int = 1) -> None:
        self.routes, self.workers = routes, workers
        self.counts = len(routes) * len(STATUSES)
        self.width = self.counts + len(routes) * (len(BUCKETS) + 2) + 3
        self.memory: memoryview[float] = memoryview(mmap.mmap(-1, self.width * workers * _BYTES)).cast("d")

    def of(self, worker: int) -> WorkerCounters:
        return WorkerCounters(self, self.memory[worker * self.width : (worker + 1) * self.width])

    def text(self) -> str:
        """In Prometheus' format."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        total = WorkerCounters(self, memoryview(bytearray(self.width * _BYTES)).cast("d"))
        for worker in range(self.workers):
            for place in range(self.width):
                total.numbers[place] += self.memory[worker * self.width + place]
        yield from _family("banyan_requests", "counter", "Requests answered, by route and status.")
        for number, route in enumerate(self.routes):
            for status, count in zip(STATUSES, total.statuses(number), strict=True):
                if count:
                    yield f'banyan_requests_total{{route="{route}",status="{status}"}} {count:.0f}'
        told = "From a request's head until its answer is ready."
        yield from _family("banyan_request_duration_seconds", "histogram", told)
        for number, route in enumerate(self.routes):
            yield from _histogram(route, total.durations(number))
        texts, tokens, pending = total.numbers[-3:]
        yield from _family("banyan_texts", "counter", "Texts of requests that were served.")
        yield f"banyan_texts_total {texts:.0f}"
        yield from _family("banyan_tokens", "counter", "Tokens of requests that were served.")
        yield f"banyan_tokens_total {tokens:.0f}"
        yield from _family("banyan_requests_pending", "gauge", "Requests that were accepted and are not answered.")
        yield f"banyan_requests_pending {pending:.0f}"
        yield from _family("banyan_workers", "gauge", "Processes that serve.")
        yield f"banyan_workers {self.workers}"
        yield from _family("banyan_build_info", "gauge", "The version that serves.")
        yield f'banyan_build_info{{version="{__version__}"}} 1'
        if resident := _resident():
            yield from _family("process_resident_memory_bytes", "gauge", "Of the worker that answers.")
            yield f"process_resident_memory_bytes {resident}"


class WorkerCounters:
    """The numbers of one worker."""

    def __init__(self, metrics: Metrics, numbers: memoryview[float]) -> None:
        self.numbers = numbers
        self.counts = metrics.counts

    def request(self, route: int, status: int, seconds: float, texts: int, tokens: int) -> None:
        numbers = self.numbers
        numbers[route * len(STATUSES) + _PLACE[status]] += 1
        first = self.counts + route * (len(BUCKETS) + 2)
        numbers[first + bisect_left(BUCKETS, seconds)] += 1
        numbers[first + len(BUCKETS) + 1] += seconds
        numbers[-3] += texts
        numbers[-2] += tokens

    def pending(self, requests: int) -> None:
        self.numbers[-1] = requests

    def statuses(self, route: int) -> list[float]:
        return list(self.numbers[route * len(STATUSES) : (route + 1) * len(STATUSES)])

    def durations(self, route: int) -> list[float]:
        """How many fell into each bucket, the last without end; and the sum of seconds."""
        first = self.counts + route * (len(BUCKETS) + 2)
        return list(self.numbers[first : first + len(BUCKETS) + 2])


_PLACE = {status: place for place, status in enumerate(STATUSES)}


def _family(name: str, kind: str, told: str) -> Iterator[str]:
    name += "_total" if kind == "counter" else ""
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _histogram(route: str, durations: list[float]) -> Iterator[str]:
    *counts, seconds = durations
    if not any(counts):
        return
    below = 0.0
    name = "banyan_request_duration_seconds"
    for limit, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
        below += count
        yield f'{name}_bucket{{route="{route}",le="{limit}"}} {below:.0f}'
    yield f'{name}_sum{{route="{route}"}} {seconds!r}'
    yield f'{name}_count{{route="{route}"}} {below:.0f}'


def _resident() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return None
    return pages * mmap.PAGESIZE
