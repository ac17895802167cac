"""Sockets, worker processes, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import uvicorn

from banyan.classify.classifier import Classifier, has_classifier
from banyan.errors import BanyanError
from banyan.serve import log, mapped
from banyan.serve.app import App
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics
from banyan.serve.routes import LABELS
from banyan.serve.service import Service

DRAIN_SECONDS = 0.5  # at shutdown: time for open connections to finish sending, and to be told to close
KEEP_ALIVE_SECONDS = 75  # longer than clients keep idle connections, so that the client closes them first
BACKLOG = 2048
YOUNG_SECONDS = 5.0  # a worker that dies this early is restarted after a pause


@dataclass(frozen=True)
class Settings:
    """The options of `banyan serve`."""

    model: str
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    names: tuple[str, ...] = ()  # of the model in requests; by default the name of its folder
    key: str | None = None  # the API key that requests must send
    log_requests: bool = True
    shutdown_seconds: int = 30
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise BanyanError(f"workers must be at least 1, not {self.workers}")
        if self.workers > 1 and not hasattr(os, "fork"):
            raise BanyanError("several workers need a system with fork (Linux, macOS): omit --workers")
        if not 0 <= self.port <= 65535:
            raise BanyanError(f"the port must be between 0 and 65535 (0: any free port), not {self.port}")


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then answer the requests that were accepted and return."""
    log.take_over()
    with ExitStack() as stack:
        sockets = [stack.enter_context(bound) for bound in _listen(settings)]
        _serve(settings, sockets)


def _serve(settings: Settings, sockets: list[socket.socket]) -> None:
    model = mapped.load(settings.model)
    model.encode(["This compiles the kernels."])  # before the first request
    model.parse("So does this.")
    classifier = Classifier.of(model) if model.folder and has_classifier(model.folder) else None
    folder = Path(settings.model)
    names = list(settings.names) or [folder.resolve().name if folder.is_dir() else settings.model]
    metrics = Metrics(LABELS, settings.workers)
    service = Service(model, names, settings.limits, int(time.time()), metrics, settings.key, classifier)
    host, port = sockets[0].getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if not settings.key and not host.startswith("127.") and host != "::1":
        log.write("warning", "no API key is set: anyone who can reach this address can use the model", address=address)
    gc.collect()
    gc.freeze()  # keep garbage collection from touching, and so copying, memory that the workers share

    def serving() -> None:
        log.write("info", "serving", model=names[0], address=address, dim=model.dim, workers=settings.workers)

    def work(worker: int, orphaned: int | None = None) -> None:
        app = App(service, worker, settings.log_requests)
        _Server(app, settings, orphaned, serving if orphaned is None else None).run([sockets[worker]])

    if settings.workers == 1:
        work(0)
    else:
        _Workers(work, settings.workers).run(serving)
    log.write("info", "stopped")


def _listen(settings: Settings) -> list[socket.socket]:
    """A socket per worker; the system distributes connections among them. The parent keeps all sockets open, so that
    waiting connections survive the death of a worker."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sockets = [_bound(family, kind, protocol, address, shared=False)]  # fails if the port is in use
        if settings.workers > 1:
            with sockets.pop() as probe:
                address = probe.getsockname()
    except OSError as error:
        reason = error.strerror or str(error)
        raise BanyanError(f"cannot listen on {settings.host} port {settings.port}: {reason}") from None
    return sockets or [_bound(family, kind, protocol, address, shared=True) for _ in range(settings.workers)]


def _bound(family: int, kind: int, protocol: int, address: Any, shared: bool) -> socket.socket:
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


class _Server(uvicorn.Server):
    """uvicorn with another shutdown: a signal only requests it, and busy connections are finished, not cut."""

    def __init__(
        self, app: App, settings: Settings, orphaned: int | None, serving: Callable[[], None] | None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.shutdown_seconds,
            )
        )
        self.app, self.orphaned, self.serving = app, orphaned, serving
        app.accepted = self.server_state.tasks

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        if self.orphaned is None:
            loop.add_signal_handler(signal.SIGINT, self._stop, True)
        else:
            loop.add_reader(self.orphaned, self._stop)
        try:
            yield
        finally:
            if self.orphaned is not None:
                loop.remove_reader(self.orphaned)

    def _stop(self, impatient: bool = False) -> None:
        self.force_exit = self.should_exit and impatient  # the second Ctrl-C
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.serving:
            self.serving()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self.app.service.stopping:
            log.write("info", "stopping", pending=len(self.server_state.tasks))
        self.app.service.stopping = True
        for server in self.servers:
            server.close()
        await asyncio.sleep(DRAIN_SECONDS)
        await super().shutdown(sockets)


_ENDS = (signal.SIGTERM, signal.SIGINT)


class _Workers:
    """Worker processes, forked from the process that has loaded the model. They share its memory."""

    def __init__(self, work: Callable[[int, int], None], count: int) -> None:
        self.work, self.count = work, count
        self.running: dict[int, tuple[int, float]] = {}  # process -> worker and start time
        self.stopping = False
        self.alive = os.pipe()  # nothing is written to it; it closes when the parent dies, and workers notice

    def run(self, serving: Callable[[], None]) -> None:
        for number in _ENDS:
            signal.signal(number, self._stop)
        for worker in range(self.count):
            self._start(worker)
        serving()
        while self.running:
            process, status = os.wait()
            worker, started = self.running.pop(process)
            if self.stopping:
                continue
            code = os.waitstatus_to_exitcode(status)
            log.write("error", "a worker died and is restarted", worker=worker, died=process, exit_code=code)
            if time.monotonic() - started < YOUNG_SECONDS:
                time.sleep(1)
            self._start(worker)

    def _start(self, worker: int) -> None:
        """Fork a worker, unless the server is stopping. Signals are blocked meanwhile, so that none arrives between the
        check and the fork, or in a child that does not serve yet."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        if not self.stopping:
            process = os.fork()
            if not process:
                self._be(worker)
            self.running[process] = (worker, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)

    def _be(self, worker: int) -> NoReturn:
        code = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent handles it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
            os.close(self.alive[1])
            self.work(worker, self.alive[0])
            code = 0
        except BaseException as error:
            log.write("error", "a worker failed", worker=worker, error=repr(error))
        finally:
            os._exit(code)

    def _stop(self, *_: object) -> None:
        """Ask the workers to finish; the second time, kill them."""
        for process in self.running:
            os.kill(process, signal.SIGKILL if self.stopping else signal.SIGTERM)
        self.stopping = True
