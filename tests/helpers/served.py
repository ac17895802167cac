"""A server of the command line's own, in a process of its own, for tests that talk to it over a real socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Served:
    """`banyan serve`, its address, and what it logged."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        command = [sys.executable, "-m", "banyan", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}, start_new_session=True
        )
        self.log: list[dict[str, Any]] = []
        self.plain: list[str] = []  # lines that are not JSON: there should be none
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        assert self.ready.wait(180), self.plain
        started = [line for line in self.log if line["event"] == "serving"]
        assert started, self.plain
        self.address: str = started[0]["address"]

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.plain.append(line)
                continue
            if self.log[-1]["event"] == "serving":
                self.ready.set()
        self.ready.set()

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == name]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(30)
        self.reader.join(10)
        return code


@contextmanager
def served(*arguments: object, **environment: str) -> Iterator[Served]:
    server = Served(*arguments, **environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        server.reader.join(10)
        assert server.process.stderr
        server.process.stderr.close()
    assert not server.plain, server.plain
