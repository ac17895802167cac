"""The device of a run, its optimiser and threads, and whether it is deterministic.

None of these is stored in a model: the same commands, settings and files work on every device.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from banyan.errors import BanyanError
from banyan.support import threads

WINDOW = 64  # steps queued on an accelerator before the host reads their losses
_FUSED_ADAM = ("cpu", "cuda", "mps", "xpu")
_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # makes cuBLAS deterministic


def choose(name: str, local_rank: int | None = None) -> torch.device:
    """Return the named device. "auto" is the accelerator that torch finds, or the CPU if there is none.

    local_rank: the rank of this process on its machine if there are several processes; each gets its own device.
    """
    found = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        device = found or torch.device("cpu")
    else:
        try:
            device = torch.device(name)
        except RuntimeError:
            raise BanyanError(f"unknown device {name!r}: choose auto, cpu, cuda, cuda:1, mps or xpu") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if local_rank is not None:
        if device.index is not None:
            raise BanyanError(f"several processes cannot share {name}: use {device.type}, and each takes its own")
        device = torch.device(device.type, local_rank)
    count = torch.accelerator.device_count() if found and found.type == device.type else 0
    if count == 0:
        usable = f"only {found.type} and the CPU" if found else "only the CPU"
        raise BanyanError(f"torch {torch.__version__} finds no {device.type} device on this machine, {usable}")
    if (device.index or 0) >= count:
        raise BanyanError(f"there is no device {device}: this machine has {count}, numbered from 0")
    return torch.device(device.type, device.index or 0)


def described(device: torch.device, precision: str) -> str:
    """Name the device and the precision for the console."""
    if device.type == "cpu":
        return f"{threads.available()} threads"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    return f"{name} ({precision})"


def window(device: torch.device) -> int:
    """Return how many steps to queue before reading their losses: reading waits for the device."""
    return 1 if device.type == "cpu" else WINDOW


def adam(parameters: Iterable[torch.nn.Parameter], lr: float, falls: bool = False) -> torch.optim.Adam:
    """Adam, fused where torch supports it. On CUDA it can be captured in a graph, even if the learning rate decays."""
    parameters = list(parameters)
    device = parameters[0].device
    rate = torch.tensor(lr, device=device) if falls and device.type == "cuda" else lr
    return torch.optim.Adam(parameters, lr=rate, fused=device.type in _FUSED_ADAM, capturable=device.type == "cuda")


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate, in place if it is a tensor on the device."""
    group = optimiser.param_groups[0]
    if isinstance(group["lr"], torch.Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


@contextmanager
def using(device: torch.device, deterministic: bool) -> Iterator[None]:
    """Make the device current, give torch as many threads as our kernels use and, if asked, deterministic algorithms
    only. Restore everything at the end."""
    threads_before = torch.get_num_threads()
    torch.set_num_threads(threads.available())
    index_before = None if device.type == "cpu" else torch.accelerator.current_device_index()
    if index_before is not None:
        torch.accelerator.set_device_index(device.index)
    try:
        with _repeatable() if deterministic else nullcontext():
            yield
    finally:
        torch.set_num_threads(threads_before)
        if index_before is not None:
            torch.accelerator.set_device_index(index_before)


@contextmanager
def _repeatable() -> Iterator[None]:
    cublas_before = os.environ.get(_CUBLAS)
    os.environ.setdefault(_CUBLAS, ":4096:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    fill_before = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # we never read uninitialised memory
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = fill_before
        if cublas_before is None:
            del os.environ[_CUBLAS]
