"""Wait for several answers at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped(function: Callable[[Item], Result], items: Sequence[Item], n: int, stop: threading.Event) -> list[Result]:
    """[function(item) for item in items], n at a time. Raise the first exception as soon as it happens.

    stop: set at the end, however that comes about. Calls under way may then give up; their results are not used. The
    threads are daemons, so that Ctrl-C need not wait for them.
    """
    jobs, lock = iter(enumerate(items)), threading.Lock()
    done: queue.SimpleQueue[tuple[int, Result | None, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        while not stop.is_set():
            with lock:
                job = next(jobs, None)
            if job is None:
                return
            number, item = job
            try:
                done.put((number, function(item), None))
            except Exception as error:
                done.put((number, None, error))

    results: dict[int, Result] = {}
    try:
        for _ in range(min(n, len(items))):
            threading.Thread(target=work, daemon=True).start()
        while len(results) < len(items):
            number, result, error = done.get()
            if error is not None:
                raise error
            results[number] = result  # type: ignore[assignment]
    finally:
        stop.set()
    return [results[number] for number in range(len(items))]
