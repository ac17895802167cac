"""Compilation is announced once, if it takes long, and only for our own kernels."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from banyan.errors import BanyanError
from banyan.support import compiling


def compiled(announcement: compiling.Announcement, clock: list[float], *seconds: float, module: str) -> None:
    """Compile a function that calls others; each takes so many seconds before the next begins."""
    function = SimpleNamespace(__module__=module)
    event: Any = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})
    for duration in seconds:
        announcement.on_start(event)
        clock[0] += duration
    for _ in seconds:
        announcement.on_end(event)


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        ([("banyan.a", 0.4), ("banyan.b", 0.4)], 0),
        ([("banyan.a", 0.9, 0.9, 0.9)], 1),
        ([("banyan.a", 0.7), ("banyan.a", 0.7), ("banyan.b", 0.1), ("banyan.b", 0.1)], 1),
        ([("numba.np", 3.0, 3.0)], 0),
    ],
)
def test_long_compilation_is_announced_once(monkeypatch, caplog, kernels, told):
    clock = [0.0]
    monkeypatch.setattr(compiling.time, "monotonic", lambda: clock[0])
    monkeypatch.delenv("BANYAN_PATIENCE")
    announcement = compiling.Announcement()
    with caplog.at_level(logging.WARNING, "banyan"):
        for module, *seconds in kernels:
            compiled(announcement, clock, *seconds, module=module)
            clock[0] += 100  # between kernels, nothing is compiled
    assert [record.getMessage() for record in caplog.records] == [compiling.COMPILING] * told


@pytest.mark.parametrize("wanted", ["soon", "nan", "-1"])
def test_a_patience_that_is_no_number_of_seconds_is_one_sentence(monkeypatch, wanted):
    monkeypatch.setenv("BANYAN_PATIENCE", wanted)
    with pytest.raises(BanyanError, match=f"BANYAN_PATIENCE must be a number of seconds, or inf, not '{wanted}'"):
        compiling.Announcement()
