"""Where a run computes and how: the choice is tested with cards that are not here."""

from __future__ import annotations

import os

import pytest
import torch

from banyan import BanyanError
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.support import devices
from banyan.training import checkpoint
from banyan.training.checkpoint import Progress

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


def test_auto_is_the_accelerator_that_is_there_or_the_cpu(machine):
    machine(None)
    assert devices.choose("auto") == CPU
    for kind in ("cuda", "mps", "xpu"):
        machine(kind)
        assert devices.choose("auto") == torch.device(kind, 0)
        assert devices.choose("cpu") == CPU


def test_a_device_can_be_named(machine):
    machine("cuda", 2)
    assert devices.choose("cuda") == CUDA
    assert devices.choose("cuda:1") == torch.device("cuda:1")


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (None, "cuda", r"torch .* finds no cuda device on this machine, only the CPU"),
        ("mps", "cuda:1", r"finds no cuda device on this machine, only mps and the CPU"),
        ("cuda", "cuda:2", "there is no device cuda:2: this machine has 2, numbered from 0"),
        ("cuda", "gpu", "unknown device 'gpu': choose auto, cpu, cuda"),
        ("cuda", "", "unknown device ''"),
        ("cuda", "meta", "finds no meta device"),
    ],
)
def test_a_device_that_is_not_there_is_told(machine, kind, name, says):
    machine(kind, 2)
    with pytest.raises(BanyanError, match=says):
        devices.choose(name)


def test_several_processes_take_a_device_each(machine):
    machine("cuda", 2)
    assert [devices.choose(name, local_rank=1) for name in ("auto", "cuda", "cpu")] == [
        torch.device("cuda:1"), torch.device("cuda:1"), CPU,
    ]  # fmt: skip
    with pytest.raises(BanyanError, match="several processes cannot share cuda:1: use cuda, and each takes its own"):
        devices.choose("cuda:1", local_rank=0)
    with pytest.raises(BanyanError, match="there is no device cuda:2"):
        devices.choose("cuda", local_rank=2)


def test_only_the_cpu_is_looked_at_after_every_step():
    assert devices.window(CPU) == 1
    assert devices.window(CUDA) == devices.window(torch.device("mps")) == devices.WINDOW > 1


def state() -> tuple[object, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        torch.utils.deterministic.fill_uninitialized_memory,
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    )


@pytest.mark.parametrize("set_before", [None, ":16:8"])
def test_determinism_lasts_as_long_as_the_run(monkeypatch, set_before):
    monkeypatch.setenv("BANYAN_THREADS", "3")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if set_before:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", set_before)
    before = state()
    with devices.using(CPU, deterministic=False):
        assert state() == (False, 3, *before[2:])
    with devices.using(CPU, deterministic=True):
        assert state() == (True, 3, False, set_before or ":4096:8")
    assert state() == before


def stepped(model: BanyanModel, optimiser: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.1)
    optimiser.step()


def devices_here() -> list[str]:
    found = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu", *([found.type] if found else [])]


@pytest.mark.parametrize("fused_after", [True, False])
@pytest.mark.parametrize("after", devices_here())
@pytest.mark.parametrize("before", devices_here())
def test_a_checkpoint_of_one_device_is_loaded_on_another(tmp_path, before, after, fused_after):
    """Also by an Adam that counts its steps elsewhere."""
    config = Config(dim=8, channels=4)
    model = BanyanModel(config, 50).to(before)
    optimiser = devices.adam(model.parameters(), 1e-2)
    stepped(model, optimiser)
    checkpoint.save(tmp_path / "state", model, optimiser, Progress(step=1))
    stepped(model, optimiser)
    other = BanyanModel(config, 50).to(after)
    again = torch.optim.Adam(other.parameters(), lr=1e-2, fused=fused_after)
    assert checkpoint.load(tmp_path / "state", other, again) == Progress(step=1)
    stepped(other, again)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert two.device.type == after
        torch.testing.assert_close(one.cpu(), two.cpu(), rtol=1e-6, atol=1e-7)
        assert again.state[two]["step"].item() == 2
