"""metrics.jsonl, TensorBoard, and what the progress bar shows."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.config import Config
from banyan.errors import BanyanError
from banyan.support import threads
from banyan.support.needs import needs

if TYPE_CHECKING:
    from banyan.model.objective import Term
    from banyan.support.display import Meter


TOKENS_PER_SECOND = 80_000  # of each thread: measured on a server of 2024, with preset light


def epoch_line(metrics: Mapping[str, Any], terms: Sequence[Term]) -> str:
    """The metrics of a finished epoch, in words."""
    parts = []
    for key, words in (("train", "training loss"), ("dev", "held-out loss")):
        if f"{key}_loss" in metrics:
            named = [(term.name, metrics.get(f"{key}_{term.name}")) for term in terms]
            each = ", ".join(f"{name} {value:.4f}" for name, value in named if value is not None)
            parts.append(f"{words} {metrics[f'{key}_loss']:.4f}" + (f" ({each})" if len(terms) > 1 and each else ""))
    if "pairs_spearman" in metrics:
        parts.append(f"Spearman on the pairs {metrics['pairs_spearman']:.2f}")
    if "held_out_ndcg" in metrics:
        parts.append(f"held-out partners found {metrics['held_out_ndcg']:.2f}")
    if "held_out_spearman" in metrics:
        parts.append(f"Spearman of held-out pairs {metrics['held_out_spearman']:.2f}")
    return f"epoch {metrics['finished_epoch']:2}: {', '.join(parts)}"


def estimate(config: Config, tokens: int, device: str) -> str:
    """How long training takes, roughly, if it is on a CPU and trees are most of its work; otherwise an empty string:
    an output layer and a loss over all nodes take many times as long."""
    if device != "cpu" or config.objective != "none" or config.has_teacher:
        return ""
    seconds = tokens / (TOKENS_PER_SECOND * threads.available())
    return f", about {max(seconds / 60, 1):.0f} minute{'s' * bool(seconds >= 90)}" if seconds > 30 else ""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl. A last line that is not whole yet is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


class Pace:
    """Updates the progress bar, at most twice a second."""

    def __init__(self, meter: Meter, epochs: int) -> None:
        self.meter, self.epochs = meter, epochs
        self.shown, self.tokens = time.monotonic(), 0

    def show(self, rows: Sequence[dict[str, Any]]) -> None:
        now = time.monotonic()
        self.tokens += sum(row["tokens"] for row in rows)
        if now - self.shown <= 0.5:
            return
        last = rows[-1]
        speed, saved = self.tokens / (now - self.shown), 1 - last["nodes"] / last["plain_nodes"]
        figures = {
            "epoch": f"{last['epoch']}/{self.epochs}",
            "loss": f"{last['loss']:.3f}",
            "tokens/s": f"{speed:,.0f}",
            "nodes saved": f"{saved:.0%}",
        }
        self.meter(last["step"], None, figures)
        self.shown, self.tokens = now, 0


class Metrics:
    """metrics.jsonl: one JSON object per line. A resumed run truncates it to its length at the checkpoint."""

    def __init__(self, path: Path, length: int) -> None:
        path.touch()
        if path.stat().st_size < length:
            raise BanyanError(f"{path} is shorter than at the last checkpoint: --overwrite starts over")
        os.truncate(path, length)
        self.file = path.open("a", encoding="utf-8")
        self.length, self._sha256 = length, hashlib.sha256(path.read_bytes())
        if length == 0:
            self.write(Config.head())

    def write(self, metrics: Mapping[str, Any]) -> int:
        line = json.dumps(metrics) + "\n"
        self.file.write(line)
        self.length += len(line)
        self._sha256.update(line.encode())
        return self.length

    @property
    def sha256(self) -> str:
        """The checksum of all that was written."""
        return self._sha256.hexdigest()

    def sync(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()


def tensorboard_writer(out: Path) -> Any:
    with needs("Logging to TensorBoard", "tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter(str(out / "tensorboard"))
