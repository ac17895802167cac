"""Sockets, worker processes, loading the model again, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import uvicorn

from banyan.classify.classifier import Classifier, has_classifier
from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.serve import log
from banyan.serve.app import App
from banyan.serve.connection import protocol
from banyan.serve.cors import check_origins
from banyan.serve.hosts import LOCAL
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics
from banyan.serve.routes import LABELS
from banyan.serve.service import Beside, Service
from banyan.support.needs import needs

if TYPE_CHECKING:
    from banyan.search.searching import Searcher

DRAIN_SECONDS = 0.5  # at shutdown: time for open connections to finish sending, and to be told to close,
SILENT_SECONDS = 3.0  # and more time for those that have not asked anything yet
SWEEP_SECONDS = 0.2  # between two looks at all connections
BACKLOG = 2048
YOUNG_SECONDS = 5.0  # a worker that dies this early is restarted after a pause
OTHER_FILES = 64  # files that a process needs beside its connections


@dataclass(frozen=True)
class Settings:
    """The options of `banyan serve`."""

    model: str
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    names: tuple[str, ...] = ()  # of the model in requests; by default the name of its folder
    key: str | None = None  # the API key that requests must send
    cors: tuple[str, ...] = ()  # the origins whose pages may ask; "*" is every origin
    index: str | None = None  # folder of an index to search, made with the model
    only_local: bool = False  # refuse requests that call the server by another name than this machine's
    beside: str | None = None  # folder or Hub name of another model that searches the same rows
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
        check_origins(self.cors)


def serve(settings: Settings, ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then answer the requests that were accepted and return. ready: is called with the
    address once the server listens, instead of a line in the log."""
    log.take_over()
    settings = replace(settings, limits=_with_files(settings.limits))
    with ExitStack() as stack:
        sockets = [stack.enter_context(bound) for bound in _listen(settings)]
        _serve(settings, sockets, ready)


class Site:
    """What all workers serve. The model, and the arrays of an index, are in private memory, which forked workers share,
    so that a change of their files has no effect until they are loaded again."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics, self.created = settings, Metrics(LABELS, settings.workers), int(time.time())
        folder = Path(settings.model)
        self.names = list(settings.names) or [folder.resolve().name if folder.is_dir() else settings.model]
        self.process = os.getpid()  # it and its workers load the model again when they get SIGHUP
        self.service = self.load()

    def load(self) -> Service:
        model = Banyan.from_pretrained(self.settings.model)
        model.encode(["This compiles the kernels."])  # before the first request
        model.parse("So does this.")
        classifier = Classifier.of(model) if model.folder and has_classifier(model.folder) else None
        given = self.settings.limits, self.created, self.metrics, self.settings.key
        service = Service(model, self.names, *given, classifier, self.settings.cors, self._searcher(model))
        service.beside = self._beside(service.searcher)
        service.hosts = frozenset({*LOCAL, self.settings.host.lower()}) if self.settings.only_local else None
        service.reload = lambda: os.kill(self.process, signal.SIGHUP)
        return service

    def _searcher(self, model: Banyan) -> Searcher | None:
        if self.settings.index is None:
            return None
        with needs("Searching", "search"):
            from banyan.search.index import Index
            from banyan.search.searching import searcher_of
        index = Index.open(self.settings.index, private=True)
        searcher = searcher_of(index, model, self.settings.model)
        if self.settings.workers == 1:
            index.rows, index.memory  # noqa: B018  opened before the first request
        elif found := index.ready_memory():  # not the rest: LanceDB has threads, which do not survive a fork
            index.memory = found
        return searcher

    def _beside(self, searcher: Searcher | None) -> Beside | None:
        if self.settings.beside is None:
            return None
        if searcher is None:
            raise BanyanError("a model beside another needs an index to search")
        from banyan.search.searching import beside

        name, model = (
            Path(self.settings.beside).name or self.settings.beside,
            Banyan.from_pretrained(self.settings.beside),
        )
        return Beside(name if name not in self.names else self.settings.beside, model, beside(searcher.index, model))

    def reload(self) -> Service | None:
        """Load the model again. If that fails, log why and return None."""
        try:
            self.service = self.load()
        except Exception as error:
            log.write("error", "cannot load the model again: the old one stays", error=str(error))
            return None
        log.write("info", "loaded the model again", fingerprint=self.service.fingerprint)
        return self.service


def _serve(settings: Settings, sockets: list[socket.socket], ready: Callable[[str], None] | None) -> None:
    site = Site(settings)
    host, port = sockets[0].getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if not settings.key and not host.startswith("127.") and host != "::1":
        log.write("warning", "no API key is set: anyone who can reach this address can use the model", address=address)
    gc.collect()
    gc.freeze()  # keep garbage collection from touching, and so copying, memory that the workers share

    def serving() -> None:
        if ready:
            ready(address)
        else:
            dim, workers = site.service.model.dim, settings.workers
            log.write("info", "serving", model=site.names[0], address=address, dim=dim, workers=workers)

    def work(worker: int, orphaned: int | None = None) -> None:
        for other in sockets:
            if other is not sockets[worker]:
                other.close()
        app = App(site.service, worker, settings.log_requests)
        _Server(app, site, orphaned, serving if orphaned is None else None).run([sockets[worker]])

    if settings.workers == 1:
        work(0)
    else:
        _Workers(site, work, sockets).run(serving)
    log.write("info", "stopped")


# --- Sockets ---------------------------------------------------------------------------------------------------------


def _with_files(limits: Limits) -> Limits:
    """The limits, with as many connections as this process may open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return replace(limits, connections=max(1, min(limits.connections, soft - OTHER_FILES)))


def _listen(settings: Settings) -> list[socket.socket]:
    """A socket per worker; the system distributes connections among them. The parent keeps all sockets open until the
    server stops, so that waiting connections survive the death of a worker."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sockets = [_bound(family, kind, number, address, shared=False)]  # fails if the port is in use
        if settings.workers > 1:
            with sockets.pop() as probe:
                address = probe.getsockname()
    except OSError as error:
        reason = error.strerror or str(error)
        raise BanyanError(f"cannot listen on {settings.host} port {settings.port}: {reason}") from None
    return sockets or [_bound(family, kind, number, address, shared=True) for _ in range(settings.workers)]


def _bound(family: int, kind: int, number: int, address: Any, shared: bool) -> socket.socket:
    bound = socket.socket(family, kind, number)
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


_ATTACH_FILTER = 26  # SO_ATTACH_FILTER, which the module socket lacks
_FLAGS, _SYN, _SYN_OR_ACK = 13, 0x02, 0x12  # where the flags of a TCP header are; those of a packet that connects
_WITHOUT_SYN = (  # (code, jump if true, jump if false, value), in the language of packet filters
    (0x30, 0, 0, _FLAGS),  # load a byte,
    (0x54, 0, 0, _SYN_OR_ACK),  # keep two flags,
    (0x15, 0, 1, _SYN),  # and unless it is SYN alone, skip one:
    (0x06, 0, 0, 0),  # drop the packet
    (0x06, 0, 0, 0xFFFFFFFF),  # take all of it
)


def stop_listening(listening: socket.socket) -> None:
    """Let no further client begin to connect; those that have begun still can. Closing a listening socket resets the
    connections that the system has accepted and we have not. Clients that begin now wait until it is closed, and are
    then refused. (Only Linux can do this.)"""
    if sys.platform == "linux":
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _WITHOUT_SYN))
        program = struct.pack("HP", len(_WITHOUT_SYN), ctypes.addressof(code))
        listening.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


# --- One process -----------------------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    """uvicorn with another shutdown: a signal only requests it, and busy connections are finished, not cut."""

    def __init__(self, app: App, site: Site, orphaned: int | None, serving: Callable[[], None] | None) -> None:
        settings = site.settings
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol(settings.limits),
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=settings.limits.idle_seconds,
                timeout_graceful_shutdown=settings.shutdown_seconds,
            )
        )
        self.app, self.site, self.orphaned, self.serving = app, site, orphaned, serving
        app.accepted = self.server_state.tasks
        self.tasks: set[asyncio.Task] = set()
        self.loading = self.asked = False  # to load the model again

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)  # a worker begins with all of them blocked
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

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._begin(self._sweep())
        if self.serving:
            self.serving()

    async def _sweep(self) -> None:
        """Look after the connections of clients that do not."""
        connections: Any = self.server_state.connections
        while True:
            now = asyncio.get_running_loop().time()
            self.app.unread = sum([connection.overdue(now) for connection in list(connections)])
            await asyncio.sleep(SWEEP_SECONDS)

    def _hang_up(self) -> None:
        """Load the model again; if that is under way, once more after it, so that what is newest stays."""
        self.asked = True
        if not self.loading:
            self.loading = True
            self._begin(self._reload())

    async def _reload(self) -> None:
        while self.asked:
            self.asked = False
            service = await asyncio.get_running_loop().run_in_executor(None, self.site.reload)
            if service is not None:
                service.stopping = self.app.service.stopping
                self.app.use(service)
        self.loading = False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self.app.service.stopping:
            log.write("info", "stopping", pending=len(self.server_state.tasks))
        self.app.service.stopping = True
        for listening in sockets or []:
            stop_listening(listening)
        await asyncio.sleep(DRAIN_SECONDS)
        connections: Any = self.server_state.connections
        for _ in range(round(SILENT_SECONDS / SWEEP_SECONDS)):
            if not any(connection.silent for connection in list(connections)):
                break
            await asyncio.sleep(SWEEP_SECONDS)
        await super().shutdown(sockets)


# --- Several processes -----------------------------------------------------------------------------------------------

_ENDS = (signal.SIGTERM, signal.SIGINT)
_SIGNALS = (*_ENDS, signal.SIGHUP)


class _Workers:
    """Worker processes, forked from the process that has loaded the model. They share its memory."""

    def __init__(self, site: Site, work: Callable[[int, int], None], sockets: list[socket.socket]) -> None:
        self.site, self.work, self.sockets = site, work, sockets
        self.running: dict[int, tuple[int, float]] = {}  # process -> worker and start time
        self.stopping = self.loading = self.asked = False
        self.alive = os.pipe()  # nothing is written to it; it closes when the parent dies, and workers notice

    def run(self, serving: Callable[[], None]) -> None:
        for number in _ENDS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._reload)
        for worker in range(len(self.sockets)):
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
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        if not self.stopping:
            process = os.fork()
            if not process:
                self._be(worker)
            self.running[process] = (worker, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _be(self, worker: int) -> NoReturn:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent handles it
            os.close(self.alive[1])
            self.work(worker, self.alive[0])
            code = 0
        except BaseException as error:
            log.write("error", "a worker failed", worker=worker, error=repr(error))
        finally:
            os._exit(code)

    def _reload(self, *_: object) -> None:
        """Load the model, for workers that are started later, and have each running worker load it. A signal that
        arrives meanwhile interrupts this: it is answered afterwards, by loading once more."""
        self.asked = True
        if self.loading:
            return
        self.loading = True
        while self.asked and not self.stopping:
            self.asked = False
            if self.site.reload():
                for process in self.running:
                    os.kill(process, signal.SIGHUP)
        self.loading = False

    def _stop(self, *_: object) -> None:
        """Ask the workers to finish; the second time, kill them."""
        for process in self.running:
            os.kill(process, signal.SIGKILL if self.stopping else signal.SIGTERM)
        self.stopping = True
        for listening in self.sockets:  # what waits there belongs to the workers
            listening.close()
