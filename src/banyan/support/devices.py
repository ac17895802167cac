"""Where a run computes, how precisely, and whether it must give the same bits twice.

None of it is part of a model: the same command, settings and files serve every device.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

import torch

from banyan.errors import BanyanError
from banyan.support import threads

PRECISIONS = ("auto", "float32", "tf32", "bf16")  # of the output layer's matrix products; the rest is float32
WIDEST = 64  # matrix of linear functions that our GPU kernels take
WINDOW = 64  # steps between two looks at what an accelerator has done
_FUSED_ADAM = ("cpu", "cuda", "mps", "xpu")
_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # with which cuBLAS repeats itself


def choose(name: str, local_rank: int | None = None) -> torch.device:
    """The device of that name; "auto" is the accelerator that torch finds, else the CPU.

    local_rank: which of the processes on this machine asks, if there are several; each gets a device of its own.
    """
    found = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        device = found or torch.device("cpu")
    else:
        try:
            device = torch.device(name)
        except RuntimeError:
            raise BanyanError(f"there is no device {name!r}: say auto, cpu, cuda, cuda:1, mps or xpu") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if local_rank is not None:
        if device.index is not None:
            raise BanyanError(f"several processes cannot share {name}: say {device.type}, and each takes one")
        device = torch.device(device.type, local_rank)
    count = torch.accelerator.device_count() if found and found.type == device.type else 0
    if count == 0:
        here = f"{found.type} and the CPU" if found else "only the CPU"
        raise BanyanError(f"there is no {device.type} device here that torch {torch.__version__} can use: {here}")
    if (device.index or 0) >= count:
        raise BanyanError(f"there is no device {device}: this machine has {count} of them, counted from 0")
    return torch.device(device.type, device.index or 0)


def choose_precision(name: str, device: torch.device, width: int = 0) -> str:
    """float32, tf32 or bf16; "auto" is the fastest that the device has in hardware. width: as of has_triton."""
    if name not in PRECISIONS:
        raise BanyanError(f"precision must be one of {', '.join(PRECISIONS)}, not {name!r}")
    able, why = _can_be_less_precise(device, width)
    if name == "auto":
        return "bf16" if able else "float32"
    if name != "float32" and not able:
        raise BanyanError(f"precision {name} {why}: say float32 or auto")
    return name


def has_triton(device: torch.device, width: int = 0) -> bool:
    """Whether our GPU kernels run there: on CUDA cards that Triton supports. Others, like the T4, take plain torch.

    width: of linear functions, if they are linear. Matrices must be of a power of two, and fit the card's own memory.
    """
    able = device.type == "cuda" and find_spec("triton") is not None and _fits(width)
    return able and torch.cuda.get_device_capability(device) >= (8, 0)


def _fits(width: int) -> bool:
    return width & (width - 1) == 0 and width <= WIDEST


def _can_be_less_precise(device: torch.device, width: int) -> tuple[bool, str]:
    """Whether tf32 and bf16 are there, and if not, why."""
    if device.type != "cuda":
        return False, f"is for CUDA cards, not for {device.type}"
    if find_spec("triton") is None:
        return False, "needs Triton, which is not installed"
    if not _fits(width):
        return False, f"needs linear functions of a power of two up to {WIDEST}, and these are of {width}"
    major, minor = torch.cuda.get_device_capability(device)
    needs = "needs a card of compute capability 8.0 or more"
    return major >= 8, f"{needs}, and {torch.cuda.get_device_name(device)} has {major}.{minor}"


def described(device: torch.device, precision: str) -> str:
    """For people."""
    if device.type == "cpu":
        return f"{threads.available()} threads"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    return f"{name} ({precision})"


def window(device: torch.device) -> int:
    """How many steps are begun before the first of them is looked at: to look is to wait for the device."""
    return 1 if device.type == "cpu" else WINDOW


def adam(parameters: Iterable[torch.nn.Parameter], lr: float, falls: bool = False) -> torch.optim.Adam:
    """One kernel for all of it, where torch has that; on CUDA, one that can be recorded, even while the rate falls."""
    parameters = list(parameters)
    device = parameters[0].device
    rate = torch.tensor(lr, device=device) if falls and device.type == "cuda" else lr
    return torch.optim.Adam(parameters, lr=rate, fused=device.type in _FUSED_ADAM, capturable=device.type == "cuda")


@contextmanager
def using(device: torch.device, deterministic: bool) -> Iterator[None]:
    """The device is the current one; torch uses as many threads as our kernels do, and only what gives the same bits
    every time, if asked. Afterwards everything is as it was."""
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
    memory.fill_uninitialized_memory = False  # we read no memory that was not written
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = fill_before
        if cublas_before is None:
            del os.environ[_CUBLAS]
