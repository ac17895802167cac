"""Back ends: everything that a model computes, implemented once for each kind of device.

interface   the methods of every back end, in the paper's terms
_native     encoding on CPUs, in C (banyan.native)
_numba/     CPUs: training, and encoding where the native kernels were not built
_torch      devices that Banyan has no kernels for (mps, xpu, older CUDA GPUs), in plain torch
_triton/    CUDA GPUs of compute capability 8.0 or higher
passes      the results of both passes when the graph is on the host: for _numba and _torch
losses      the losses in plain torch: for _numba and _torch, and in part for _triton

Only this module chooses between them. To add a back end, write its class, add its name to NAMES and `named`, and make
`choose` return it for its devices; tests/backends/test_behaviours.py then covers it as well.

A back end is imported only when it is chosen. Encoding on the CPU never imports torch.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from banyan.errors import BanyanError
from banyan.support.needs import needs

if TYPE_CHECKING:
    import torch

    from banyan.backends.interface import Backend, Encodes

NAMES = ("numba", "torch", "triton")
PRECISIONS = ("auto", "float32", "tf32", "bf16")  # of the output layer's matrix products; everything else is float32
WIDEST = 64  # the largest matrix of a linear composition function that the Triton kernels support


def named(name: str) -> Backend:
    """Return the back end with this name, for any device."""
    if name == "numba":
        from banyan.backends._numba.backend import Numba

        return Numba()
    if name == "torch":
        from banyan.backends._torch import Torch

        return Torch()
    if name == "triton":
        from banyan.backends._triton.backend import Triton

        return Triton()
    raise ValueError(f"there is no back end {name!r}: choose one of {', '.join(NAMES)}")


def choose(device: torch.device, matrix_width: int = 0) -> Backend:
    """Return the back end for a device. matrix_width: the size of linear functions; 0 if they are diagonal."""
    if device.type == "cpu":
        return named("numba")
    return named("torch" if _why_not_triton(device, matrix_width) else "triton")


def on_cpu() -> Encodes:
    """Return the back end for encoding on a CPU: the native kernels if they were built, else Numba."""
    from banyan.native import kernels

    compiled = kernels()
    if compiled is None:
        return named("numba")
    from banyan.backends._native import Native

    return Native(compiled)


def choose_for_encoding(device: str, matrix_width: int = 0) -> tuple[Encodes, torch.device | str]:
    """Return the back end for encoding on a device, and the device. "auto" takes a GPU if Triton runs on it, else
    the CPU."""
    if device == "cpu":
        return on_cpu(), device
    try:
        with needs(f"Encoding on {device}"):
            from banyan.support import devices
    except BanyanError:
        if device == "auto":
            return on_cpu(), "cpu"
        raise
    place = devices.choose(device)
    backend = choose(place, matrix_width)
    if backend.on_device:
        return backend, place
    if device == "auto":
        return on_cpu(), "cpu"
    sizes = f", and linear functions whose size is a power of two up to {WIDEST}" if matrix_width else ""
    raise BanyanError(
        f"encoding on {device} needs Triton and a CUDA GPU of compute capability 8.0 or higher{sizes}: use cpu"
    )


def choose_precision(name: str, device: torch.device, matrix_width: int = 0) -> str:
    """Return float32, tf32 or bf16. "auto" is the fastest one that the device supports in hardware."""
    if name not in PRECISIONS:
        raise BanyanError(f"precision must be one of {', '.join(PRECISIONS)}, not {name!r}")
    missing = _why_not_triton(device, matrix_width)
    if name == "auto":
        return "float32" if missing else "bf16"
    if name != "float32" and missing:
        raise BanyanError(f"precision {name} {missing}: use float32 or auto")
    return name


def _why_not_triton(device: torch.device, matrix_width: int) -> str:
    """Return why the Triton kernels, and with them lower precision, cannot run on a device; empty if they can.

    The size of linear functions must be a power of two, and their matrices must fit into on-chip memory."""
    if device.type != "cuda":
        return f"is for CUDA GPUs, not for {device.type}"
    if find_spec("triton") is None:
        return "needs Triton, which is not installed"
    if matrix_width & (matrix_width - 1) or matrix_width > WIDEST:
        return f"needs linear functions whose size is a power of two up to {WIDEST}, not {matrix_width}"
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    if major >= 8:
        return ""
    name = torch.cuda.get_device_name(device)
    return f"needs a GPU of compute capability 8.0 or higher, but {name} has {major}.{minor}"
