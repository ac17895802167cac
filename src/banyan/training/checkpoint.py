"""The state of a training run in one file, written atomically. Safetensors and JSON, no pickles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.config import Config, check_format
from banyan.errors import BanyanError, first_line
from banyan.support import files

if TYPE_CHECKING:
    import torch

    from banyan.model import BanyanModel

_BEST = "best."


@dataclass
class Progress:
    """How far a run has come. All its randomness is a function of the seed and these numbers."""

    epoch: int = 0  # finished epochs
    batch: int = 0  # finished batches of the current epoch
    step: int = 0  # finished steps of all epochs
    loss_sum: float = 0.0  # over the finished batches of the current epoch
    term_sums: list[float] | None = None  # the same for each part of the loss; None in checkpoints of 0.1.0
    even_batches: bool = False  # batches of about equal size; up to 0.1.0, the last batch of an epoch was short
    metrics_bytes: int = 0  # the length of metrics.jsonl at this point
    metrics_sha256: str = ""  # its checksum; none in checkpoints of 0.1.0
    data: str = ""  # the fingerprint of the tokenised corpus
    room: list[int] | None = None  # on a GPU, the buffer sizes, which decide the order of sums
    best: float | None = None  # the best figure on held-out examples or evaluation pairs so far
    best_epoch: int = 0  # the finished epochs of the weights that are kept
    best_lexical_weight: float | None = None  # in tuning, of these weights
    highest_epoch: int = 0  # in tuning, the finished epochs when the best figure was reached
    highest_items: list[Any] | None = None  # in tuning, what that figure is computed from


def save(
    path: Path,
    model: BanyanModel,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    best: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """best: the weights of the best epoch, if the run keeps them."""
    from safetensors.torch import save_file

    tensors = {f"model.{name}": parameter.detach().cpu() for name, parameter in model.named_parameters()}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state[parameter].items():
            tensors[f"{key}.{name}"] = value.cpu()
    tensors |= {f"{_BEST}{name}": value for name, value in (best or {}).items()}
    state = json.dumps({**Config.head(), "progress": asdict(progress), "sha256": _digest(tensors)})
    kept = f"the last good checkpoint is kept at {path}" if path.exists() else "there is no earlier checkpoint"
    with files.reported(path, kept), files.atomic(path) as temporary:
        save_file(tensors, temporary, metadata={"banyan": state})


def _digest(tensors: Mapping[str, torch.Tensor]) -> str:
    import torch

    digest = hashlib.sha256()
    for name, values in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(values.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def verify(path: Path) -> Progress:
    """Raise an error if the tensors of a checkpoint are not as they were written. (Those of 0.1.0 have no checksum.)
    Return its progress."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            state = json.loads(file.metadata()["banyan"])
            found = _digest({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
            same, progress = state.get("sha256", found) == found, Progress(**state["progress"])
    except (OSError, SafetensorError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BanyanError(f"cannot read {path}: {first_line(error)}") from None
    if not same:
        raise BanyanError(f"{path} is not as it was written")
    return progress


def load(
    path: Path, model: BanyanModel, optimiser: torch.optim.Optimizer, hint: str = "--overwrite starts over"
) -> Progress:
    """Restore model and optimiser, on whatever device they are now.

    hint: advice for the error message.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        verify(path)
    except BanyanError as error:
        raise BanyanError(f"cannot resume from {path}: {error}; {hint}") from None
    fused = optimiser.defaults.get("fused")  # then it counts its steps on the device, else here
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            state = json.loads(file.metadata()["banyan"])
            check_format(state, path)
            for name, parameter in model.named_parameters():
                parameter.copy_(file.get_tensor(f"model.{name}"))
                keys = [key for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}.{name}" in file.keys()]  # noqa: SIM118
                if keys:
                    found = {key: file.get_tensor(f"{key}.{name}") for key in keys}
                    optimiser.state[parameter] = {
                        key: value if key == "step" and not fused else value.to(parameter.device)
                        for key, value in found.items()
                    }
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise BanyanError(f"cannot resume from {path}: {error}; {hint}") from None
    return Progress(**state["progress"])


def best_weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of the best epoch in a checkpoint that can be loaded."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return {name.removeprefix(_BEST): file.get_tensor(name) for name in file.keys() if name.startswith(_BEST)}  # noqa: SIM118
