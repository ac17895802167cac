"""What tests of every room may ask for. Models and corpora are made once and read by all: no test writes to them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import interpreter
from tests.helpers.places import ROOT

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait leave the cores to other processes
os.environ["BANYAN_PATIENCE"] = "inf"  # commands say nothing about kernels that are compiled on first use
if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # two processes must not write one index of compiled kernels
    os.environ["NUMBA_CACHE_DIR"] = str(ROOT / "build" / "numba" / worker)

import torch

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # so that deterministic products can be asked for
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined
    with contextlib.suppress(ImportError):
        interpreter.hasten()

from banyan import Banyan
from banyan.commands import main
from banyan.training import train
from experiments import data
from tests.helpers import marks
from tests.helpers.commands import unhurried
from tests.helpers.corpora import write_lines
from tests.helpers.models import tiny_model
from tests.helpers.training import IN_PROCESSES, SMALL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marks.mark(items)


@pytest.fixture
def memory_full_of_nan() -> Iterator[None]:
    """Whatever is read before it was written shows."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter has no bf16, and goes through large blocks number by number."""
    if torch.cuda.is_available():
        return
    try:
        from banyan.backends._triton import entangling, loss, passes
    except ImportError:
        return
    monkeypatch.setattr(loss, "HALF", torch.float32)
    monkeypatch.setattr(entangling, "NUMBERED", 64)
    monkeypatch.setattr(passes, "BLOCK", 32)
    monkeypatch.setattr(passes, "SLABS", 2)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that the machine has these accelerators."""

    def pretend(kind: str | None, count: int = 1, capability: tuple[int, int] = (9, 0)) -> None:
        found = torch.device(kind) if kind else None
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: found)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count if kind else 0)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "Some Card")

    return pretend


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The corpora and evaluation sets, which are not part of the repository."""
    folder = data.data_folder()
    if not folder.is_dir():
        pytest.skip(f"there is no data folder {folder}: set {data.VARIABLE}")
    return folder


# --- Models ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights, made in a moment."""
    path = tmp_path_factory.mktemp("tiny") / "model"
    tiny_model().save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def model(model_folder: Path) -> Banyan:
    return Banyan.from_pretrained(model_folder)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("corpus") / "corpus.txt", 400)


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt a little."""
    folder = tmp_path_factory.mktemp("trained")
    train(write_lines(folder / "corpus.txt", 400), folder / "model", preset="paper", epochs=1, **SMALL)
    return folder / "model"


@pytest.fixture(scope="session")
def trained_model(trained_folder: Path) -> Banyan:
    return Banyan.from_pretrained(trained_folder)


# --- Running ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def banyan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process, as in a wide terminal: exit code, output, messages."""
    monkeypatch.setenv("COLUMNS", "160")  # libraries that other tests import may have set it

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code: Any = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, unhurried(err)

    return run


@pytest.fixture(scope="session")
def _forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[dict], list[list]]]:
    """A process that forks others, which train: the exit code and the messages of each."""
    folder = tmp_path_factory.mktemp("messages")
    command = [sys.executable, "-m", "tests.helpers.several_processes"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin
        assert server.stdout

        def ask(request: dict) -> list[list]:
            print(json.dumps({**request, "folder": str(folder)}), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())

        yield ask
        server.stdin.close()


@pytest.fixture(scope="session")
def train_in_processes(_forks) -> Callable[..., list[list]]:
    """Train in so many processes: the exit code and the messages of each."""

    def run(corpus: object, out: Path, *death: object, world: int = 2, **settings: object) -> list[list]:
        request = {"corpus": str(corpus), "out": str(out), "settings": {**IN_PROCESSES, **settings}, "death": death}
        return _forks(request | {"world": world, "port": _free_port()})

    return run


@pytest.fixture(scope="session")
def train_and_die(_forks) -> Callable[..., int]:
    """Train in a process that dies at a certain moment, as killed_training.train does: its exit code."""

    def run(corpus: Path, out: Path, moment: str, n: float) -> int:
        ((code, messages),) = _forks({"killed": [str(corpus), str(out), moment, n]})
        assert code <= 0, messages
        return code

    return run


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
