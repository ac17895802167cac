"""What a card drew while something ran, by nvidia-smi; nothing where there is none."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SECONDS = 1.0  # between two looks


class Power:
    """Watts: the card's limit, and what it drew at each look."""

    def __init__(self) -> None:
        self.limit = 0.0
        self.samples: list[float] = []

    def record(self, seconds: float) -> dict[str, float] | None:
        """Energy-relevant figures of a run of this length."""
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

    def look(self, card: int) -> bool:
        """Take a sample, if the card tells."""
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
    """What the device draws during the block."""
    power, ended = Power(), threading.Event()

    def watch() -> None:
        while not ended.wait(_SECONDS) and power.look(device.index or 0):
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
