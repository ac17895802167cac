"""Train one run on a prepared corpus; return its weights and its record."""

from __future__ import annotations

import gc
import json
import resource
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import torch

from banyan import backends
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.support import devices, threads
from banyan.support.display import Display
from banyan.training.distributed import Processes
from banyan.training.folder import METRICS, RunFolder
from banyan.training.run import Run
from experiments.hardware import processor
from experiments.training import no_tree
from experiments.training.power import sampled
from experiments.training.prepared import Prepared
from experiments.training.runs import Experiment
from experiments.training.weights import Weights
from experiments.versions import versions

_PACKAGES = ("banyan-embed", "torch", "triton", "numpy", "numba", "tokenizers")


class Trained(NamedTuple):
    weights: Weights  # the embedding; for models with trees also the functions and the output layer
    parameters: dict[str, int]
    training: dict[str, Any]


def trained(
    experiment: Experiment, seed: int, text: Prepared, folder: Path, device: torch.device, display: Display
) -> tuple[Weights, dict[str, Any]]:
    """The weights after training (or as initialised), and the record of the run without its figures."""
    config = experiment.config(seed)
    _forget(device)
    started = time.monotonic()
    with devices.using(device, False), sampled(device) as power:
        if experiment.model == "no-tree":
            result = _no_tree(experiment, config, text, device)
        else:
            result = _banyan(experiment, config, text, folder, device, display)
    record = {
        **experiment.recorded(seed),
        "vocabulary": text.tokenizer.vocab_size,
        "parameters": result.parameters,
        "training": {**result.training, "peak_memory_bytes": _peak_memory(device)} if experiment.trained else None,
        "energy": power.record(result.training["seconds"]) if experiment.trained else None,
        "seconds_in_all": time.monotonic() - started,
        "machine": machine(device),
        "command": experiment.command(seed),
    }
    return result.weights, record


def _banyan(
    experiment: Experiment, config: Config, text: Prepared, folder: Path, device: torch.device, display: Display
) -> Trained:
    model = BanyanModel(config, text.tokenizer.vocab_size).to(device)
    model.precision = backends.choose_precision("auto", device)
    training: dict[str, Any] = {}
    place = RunFolder(folder)
    place.work.mkdir(parents=True, exist_ok=True)
    share, us = config.batch_size, Processes()
    run = Run(place, model, text.tokenizer, text.store, text.dev, None, share, text.store.report.summary(), display, us)
    with closing(run):
        if experiment.trained:
            run.go(checkpoint_seconds=60, tensorboard=False)
            training = {"seconds": run.seconds, "precision": model.precision, **_told(place.out / METRICS)}
    shutil.rmtree(folder)
    numbers = {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad}
    return Trained(model.weights(), counted(numbers), training)


def _no_tree(experiment: Experiment, config: Config, text: Prepared, device: torch.device) -> Trained:
    model = no_tree.NoTree(config, text.tokenizer.vocab_size).to(device)
    training = no_tree.train(model, text.store, text.dev) if experiment.trained else {}
    numbers = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return Trained({"embedding": numbers["embedding"].cpu().numpy()}, counted(numbers), training)


def counted(numbers: dict[str, torch.Tensor]) -> dict[str, int]:
    """The number of parameters of each kind."""
    kinds = {"embedding": "embedding", "out_weight": "output", "out_bias": "output"}
    counts = {"functions": 0, "embedding": 0, "output": 0}
    for name, tensor in numbers.items():
        counts[kinds.get(name, "functions")] += tensor.numel()
    return counts


def _told(metrics: Path) -> dict[str, Any]:
    """Sums over the steps of a run, and the losses of its last epoch."""
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    steps = [line for line in lines if "loss" in line]
    last = [line for line in lines if "finished_epoch" in line][-1]
    sums = {name: sum(line[name] for line in steps) for name in ("tokens", "sentences", "nodes", "plain_nodes")}
    return {"steps": len(steps), **sums, "train_loss": last["train_loss"], "dev_loss": last.get("dev_loss")}


def _forget(device: torch.device) -> None:
    """Free the memory of an earlier run and reset the peak."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.init()  # the peak cannot be reset before
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _peak_memory(device: torch.device) -> int:
    """Peak memory of the device or, on the CPU, of this process since its start."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def machine(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {"device": device.type, "name": name, "threads": threads.available(), "versions": versions(_PACKAGES)}
