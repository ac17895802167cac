"""One interface, and one choice between those that have it. The choice is tested with cards that are not here."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from banyan import backends
from banyan.backends.interface import Backend, Encoder, LexicalSums
from banyan.errors import BanyanError
from banyan.model.word_ngrams import BUCKETS, WordNgrams, spelling
from tests.helpers.batches import random_functions

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


def methods(of: Any) -> dict[str, inspect.Signature]:
    """The public methods of a class, with what they take and return."""
    found = inspect.getmembers(of, inspect.isfunction)
    return {name: inspect.signature(function) for name, function in found if not name.startswith("_")}


@pytest.mark.parametrize("name", backends.NAMES)
def test_every_back_end_has_the_signatures_of_the_interface(name):
    if name == "triton":
        pytest.importorskip("triton")
    backend = backends.named(name)
    assert backend.name == name
    assert isinstance(backend.on_device, bool)
    assert methods(type(backend)) == methods(Backend)
    functions = random_functions(np.random.default_rng(0), 2)
    device = CUDA if name == "triton" and torch.cuda.is_available() else CPU
    encoder = backend.encoder(np.zeros((3, 4), np.float32), functions, "induced", device)
    assert methods(type(encoder))["roots"] == methods(Encoder)["roots"]
    sums = backend.lexical_sums(np.zeros((3, 2), np.int8), 1.0, device)
    assert methods(type(sums)) == methods(LexicalSums)
    ngrams = WordNgrams(spelling(["▁a"]), np.zeros(BUCKETS, np.uint8), 2, False)
    assert methods(type(backend.word_sums(ngrams, 1.0, device))) == methods(LexicalSums)


def test_a_back_end_that_is_not_there_is_told():
    with pytest.raises(ValueError, match="there is no back end 'cuda': choose one of numba, torch, triton"):
        backends.named("cuda")


def test_the_cpu_has_its_kernels_and_other_devices_plain_torch():
    assert backends.choose(CPU).name == "numba"
    for kind in ("mps", "xpu", "meta"):
        assert backends.choose(torch.device(kind)).name == "torch"


@pytest.mark.parametrize(
    ("capability", "matrix_width", "name"),
    [
        ((9, 0), 0, "triton"),
        ((8, 0), 16, "triton"),
        ((7, 5), 0, "torch"),
        ((9, 0), 12, "torch"),  # no power of two
        ((9, 0), 128, "torch"),  # too wide
    ],
)
def test_cards_have_triton_if_they_and_the_functions_fit(machine, capability, matrix_width, name):
    pytest.importorskip("triton")
    machine("cuda", capability=capability)
    assert backends.choose(CUDA, matrix_width).name == name


def test_cards_have_plain_torch_where_triton_is_not_installed(machine, monkeypatch):
    machine("cuda")
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    assert backends.choose(CUDA).name == "torch"
    with pytest.raises(BanyanError, match="precision bf16 needs Triton, which is not installed: use float32 or auto"):
        backends.choose_precision("bf16", CUDA)


def test_encoding_is_on_the_cpu_unless_a_gpu_is_there(machine):
    on_cpu = backends.on_cpu().name
    assert backends.choose_for_encoding("cpu")[0].name == on_cpu
    machine(None)
    assert backends.choose_for_encoding("auto")[0].name == on_cpu
    machine("mps")
    assert not backends.choose_for_encoding("auto")[0].on_device
    with pytest.raises(BanyanError, match=r"on mps needs Triton and a CUDA GPU of .* 8\.0 or higher: use cpu"):
        backends.choose_for_encoding("mps")
    with pytest.raises(BanyanError, match="and linear functions whose size is a power of two up to 64: use cpu"):
        backends.choose_for_encoding("mps", 100)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_encoding_takes_the_gpu_that_is_there(machine):
    machine("cuda")
    for device in ("auto", "cuda", "cuda:0"):
        backend, place = backends.choose_for_encoding(device)
        assert (backend.name, place) == ("triton", CUDA)


def test_what_encodes_on_the_cpu_is_found_without_torch():
    code = "import sys; from banyan.backends import choose_for_encoding as choose; choose('cpu'); print(*sys.modules)"
    environment = {**os.environ, "BANYAN_KERNELS": "numba"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert "banyan.backends._numba.trees" in done.stdout.split()
    assert "torch" not in done.stdout.split()


def test_precision_is_what_the_card_has(machine):
    machine("cuda", capability=(8, 0))
    found = [backends.choose_precision(name, CUDA) for name in backends.PRECISIONS]
    assert found == ["bf16", "float32", "tf32", "bf16"]
    machine("cuda", capability=(7, 5))
    assert backends.choose_precision("auto", CUDA) == backends.choose_precision("float32", CUDA) == "float32"
    for name in ("tf32", "bf16"):
        with pytest.raises(BanyanError, match=f"{name} needs .* 8.0 or higher, but Some Card has 7.5: use float32"):
            backends.choose_precision(name, CUDA)


def test_precision_of_other_devices_is_float32():
    for device in (CPU, torch.device("mps:0"), torch.device("xpu:0")):
        assert backends.choose_precision("auto", device) == backends.choose_precision("float32", device) == "float32"
        for name in ("tf32", "bf16"):
            with pytest.raises(BanyanError, match=f"precision {name} is for CUDA GPUs, not for {device.type}"):
                backends.choose_precision(name, device)
    with pytest.raises(BanyanError, match="precision must be one of auto, float32, tf32, bf16, not 'half'"):
        backends.choose_precision("half", CPU)
