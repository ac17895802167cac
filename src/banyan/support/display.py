"""Progress on the console: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from banyan.support.log import log, shows

Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 15.0
Figures = Mapping[str, str]  # name -> value, shown beside a bar
NO_FIGURES: Figures = {}
COMPILING = "still busy: kernels are compiled on first use, once per machine"


def progress(items: Iterable[Item], title: str) -> Iterator[Item]:
    """Iterate over `items` with a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import track

    return iter(track(items, title, console=Console(stderr=True)))


class Meter(Protocol):
    """Called with the progress of a job and the figures to show beside it."""

    def __call__(self, done: float, total: float | None = None, figures: Figures = NO_FIGURES) -> None: ...


class Display:
    """Notes and progress bars. `quiet` shows nothing; without a terminal, a bar becomes a line every few seconds."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console

        class QuietOnceUnread(Console):
            def on_broken_pipe(self) -> None:
                """Keep working silently when nobody reads the output any more. (rich would exit.)"""
                self.quiet = True

        self.console = QuietOnceUnread(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.live = self.console.is_terminal and not quiet

    def note(self, text: str) -> None:
        """Log a message. Print it, unless quiet, or if the log shows it already."""
        log.info("%s", text)
        if not shows(logging.INFO):
            self.console.print(text, markup=False)

    @contextmanager
    def patience(self, text: str, seconds: float = 3.0) -> Iterator[threading.Timer]:
        """Print `text` if the block takes longer than this, unless the yielded timer is cancelled first."""
        timer = threading.Timer(seconds, self.note, [text])
        timer.daemon = True
        timer.start()
        try:
            yield timer
        finally:
            timer.cancel()

    @contextmanager
    def bar(self, title: str, total: float | None, unit: str = "") -> Iterator[Meter]:
        if self.live:
            with self._live_bar(title, total) as meter:
                yield meter
        else:
            yield _Lines(self, title, total, unit)

    @contextmanager
    def _live_bar(self, title: str, total: float | None) -> Iterator[Meter]:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns: list[Any] = [
            TextColumn("{task.description}"),
            BarColumn(bar_width=None, complete_style="green"),
            TaskProgressColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        ]
        with Progress(*columns, console=self.console, expand=True, transient=True) as bars:
            task = bars.add_task(title, total=total, figures="")

            def meter(done: float, total: float | None = None, figures: Figures = NO_FIGURES) -> None:
                text = "  ".join(f"[dim]{name}[/] {value}" for name, value in figures.items())
                bars.update(task, completed=done, total=total, figures=text)

            yield meter


class _Lines:
    """The bar of a log file: one line every few seconds."""

    def __init__(self, display: Display, title: str, total: float | None, unit: str) -> None:
        self.display, self.title, self.total, self.unit = display, title, total, unit
        self.started = self.last = time.monotonic()
        self.first: float | None = None

    def __call__(self, done: float, total: float | None = None, figures: Figures = NO_FIGURES) -> None:
        self.total = total or self.total
        self.first = done if self.first is None else self.first
        now = time.monotonic()
        if now - self.last < SECONDS_BETWEEN_LINES:
            return
        self.last = now
        share = f" of {self.total:,.0f}" if self.total else ""
        parts = [f"{self.title}: {done:,.0f}{share}{self.unit and ' ' + self.unit}"]
        parts += [f"{name} {value}" for name, value in figures.items()]
        if self.total and done > self.first:
            parts.append(f"left {duration((now - self.started) * (self.total - done) / (done - self.first))}")
        self.display.note(", ".join(parts))


def duration(seconds: float) -> str:
    """125 -> '2m 05s'."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {seconds:02}s" if minutes else f"{seconds}s"
