"""Prometheus metrics.

Each worker counts in its own row of a block of shared memory, so no worker waits for another. The worker that answers
GET /metrics sums the rows. A worker that is restarted continues with its row, so counters never decrease.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from banyan._version import __version__
from banyan.serve.refusal import STATUSES

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
_BYTES = 8  # per number


class Metrics:
    """The counters of all workers."""

    def __init__(self, routes: list[str], workers: int = 1) -> None:
        self.routes, self.workers = routes, workers
        self.counts = len(routes) * len(STATUSES)
        self.width = self.counts + len(routes) * (len(BUCKETS) + 2) + 3
        self.memory: memoryview[float] = memoryview(mmap.mmap(-1, self.width * workers * _BYTES)).cast("d")

    def of(self, worker: int) -> WorkerCounters:
        return WorkerCounters(self, self.memory[worker * self.width : (worker + 1) * self.width])

    def text(self) -> str:
        """The metrics in Prometheus' text format."""
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
        meaning = "Time from the header of a request until its answer is ready."
        yield from _family("banyan_request_duration_seconds", "histogram", meaning)
        for number, route in enumerate(self.routes):
            yield from _histogram(route, total.durations(number))
        texts, tokens, pending = total.numbers[-3:]
        yield from _family("banyan_texts", "counter", "Texts in answered requests.")
        yield f"banyan_texts_total {texts:.0f}"
        yield from _family("banyan_tokens", "counter", "Tokens in answered requests.")
        yield f"banyan_tokens_total {tokens:.0f}"
        yield from _family("banyan_requests_pending", "gauge", "Requests accepted and not yet answered.")
        yield f"banyan_requests_pending {pending:.0f}"
        yield from _family("banyan_workers", "gauge", "Worker processes.")
        yield f"banyan_workers {self.workers}"
        yield from _family("banyan_build_info", "gauge", "The version of Banyan.")
        yield f'banyan_build_info{{version="{__version__}"}} 1'
        if resident := _resident():
            yield from _family("process_resident_memory_bytes", "gauge", "Memory of the worker that answers.")
            yield f"process_resident_memory_bytes {resident}"


class WorkerCounters:
    """The counters of one worker."""

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
        """The number of requests in each bucket, the last one unbounded, and the sum of their seconds."""
        first = self.counts + route * (len(BUCKETS) + 2)
        return list(self.numbers[first : first + len(BUCKETS) + 2])


_PLACE = {status: place for place, status in enumerate(STATUSES)}


def _family(name: str, kind: str, meaning: str) -> Iterator[str]:
    name += "_total" if kind == "counter" else ""
    yield f"# HELP {name} {meaning}"
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
