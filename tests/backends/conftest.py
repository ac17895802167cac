"""What tests of the back ends ask for."""

from __future__ import annotations

import pytest
import torch


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
