"""The power draw of a GPU during a block of code, from nvidia-smi."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SECONDS = 1.0  # between samples


class Power:
    """Power in watts: the limit of the card, and samples."""

    def __init__(self) -> None:
        self.limit = 0.0
        self.samples: list[float] = []

    def record(self, seconds: float) -> dict[str, float] | None:
        """Power and energy of a run of this length; None without samples."""
        if not self.samples:
            return None
        mean = sum(self.samples) / len(self.samples)
        return {
            "power_limit_watts": self.limit,
            "watt_hours_at_limit": self.limit * seconds / 3600,
            "mean_watts": mean,
            "samples": len(self.samples),
            "watt_hours": mean * seconds / 3600,
        }

    def sample(self, card: int) -> bool:
        """Take a sample; False if the card reports none."""
        asked = ["nvidia-smi", f"--id={card}", "--query-gpu=power.draw,power.limit", "--format=csv,noheader,nounits"]
        try:
            told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
            draw, self.limit = map(float, told.split(","))
        except (OSError, subprocess.SubprocessError, ValueError):  # no such program, or "[N/A]"
            return False
        self.samples.append(draw)
        return True


@contextmanager
def sampled(device: torch.device) -> Iterator[Power]:
    """Sample the power draw of a device during the block."""
    power, ended = Power(), threading.Event()

    def watch() -> None:
        while not ended.wait(_SECONDS) and power.sample(device.index or 0):
            pass

    watcher = threading.Thread(target=watch, daemon=True)
    if device.type == "cuda":
        watcher.start()
    try:
        yield power
    finally:
        ended.set()
        if watcher.ident is not None:
            watcher.join()
