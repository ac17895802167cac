"""Markers that tests get when they are collected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch


def mark(items: Iterable[Any]) -> None:
    """Tests of the back ends torch and Triton run on a GPU if there is one; those that need one are skipped without."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if {"torch", "triton"} & {str(parameters.get("backend")), str(parameters.get("name"))}:
            item.add_marker("kernels")
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))
