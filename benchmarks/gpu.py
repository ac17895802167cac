"""Training and encoding on one NVIDIA GPU: seconds for all epochs, and each stage of a step relative to its floor.

    python -m benchmarks.gpu [--store FOLDER] [--out docs/images]

Structure, loss and all gradients of a small batch are checked against the reference implementation first, and encoded
sentences against the CPU. Times come from device events. The floor of a stage is the least time that the card could
need, measured in the same run: the bytes that the stage must move at the rate of a large copy, or its operations at the
rate of a large matrix product, whichever takes longer. `--store` is the folder training/store of a trained model;
without it, the English corpus of the data folder is tokenised.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from matplotlib.figure import Figure

from banyan import reference
from banyan.backends import _numba
from banyan.backends._triton.entangling import DeviceGraph, entangle
from banyan.backends._triton.functions import g_functions, gates_of
from banyan.backends._triton.passes import Passes, backward, down_pass, returned, up_pass
from banyan.backends._triton.trees import TOKENS, Encoder, dropped_leaves, induce
from banyan.config import Config
from banyan.corpus.report import Report
from banyan.corpus.store import Store, shuffled_batches
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.model.functions import Functions
from banyan.model.graph import runs_of_sentences
from banyan.model.objective import losses, reconstruction
from banyan.support import devices
from banyan.tokenizer import Tokenizer
from banyan.training.gpu_steps import Steps
from banyan.training.gpu_windows import DeviceStore
from banyan.training.passages import parts
from benchmarks.common import report, sentences
from experiments.data import add_data_option

PRICE = 6.35  # dollars an hour for an H200 on demand: RunPod, March 2026, deploybase.ai/articles/runpod-gpu-pricing
BATCHES = [512, 1024, 2048, 4096]
PAPER = "the paper: 50 minutes and 30 cents on an A40 (batch 1,024)"
DEVICE = torch.device("cuda", 0)


# --- Checks ----------------------------------------------------------------------------------------------------------


def check(store: Store, vocab_size: int) -> None:
    """Check trees, loss and gradients of a small batch, with dropout, against the reference, in float32 and bf16."""
    tokens, offsets = store.batch(np.arange(12))
    dropout = Dropout(0.1, seed=0, step=1)
    for precision, tolerance in (("float32", 1e-3), ("bf16", 2e-2)):
        model = BanyanModel(Config(), vocab_size).to(DEVICE)
        model.precision = precision
        graph = model.structure(tokens, offsets, dropout)
        assert isinstance(graph, DeviceGraph)
        w = {name: p.detach().cpu().double().numpy() for name, p in model.named_parameters()}
        f = Functions(*(w[name] for name in Functions._fields))
        plain = graph.to_numpy()
        expected = reference.entangle(reference.greedy(tokens, offsets, w["embedding"], f, dropout))
        assert sorted(plain.key.tolist()) == sorted(expected.key.tolist()), "the trees differ"
        loss = reconstruction(model, model(graph))
        loss.backward()
        loss_expected, gradients = reference.loss_and_gradients(
            plain, w["embedding"], f, w["out_weight"], w["out_bias"], dropout
        )
        assert abs(loss.item() - loss_expected) < tolerance, (loss.item(), loss_expected)
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            off = np.linalg.norm(parameter.grad.cpu().numpy() - gradients[name]) / np.linalg.norm(gradients[name])
            assert off < tolerance, (precision, name, off)


# --- The limits of the card ------------------------------------------------------------------------------------------


def milliseconds(function: Callable[[], Any], repeats: int = 20) -> float:
    """The median time, by device events."""
    function()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(1_000_000)  # so that the host is ahead when timing starts
        start.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def limits() -> dict[str, float]:
    """Bytes per second of a copy, and operations per second of matrix products."""
    source = torch.empty(1 << 29, dtype=torch.float32, device=DEVICE).normal_()
    copy = torch.empty_like(source)
    rates = {"bytes": 8 * source.numel() / milliseconds(lambda: copy.copy_(source)) * 1e3}
    for name, dtype, n in (("bf16", torch.bfloat16, 8192), ("float32", torch.float32, 4096)):
        x, y = (torch.randn(n, n, device=DEVICE).to(dtype) for _ in range(2))
        rates[name] = 2 * n**3 / milliseconds(lambda x=x, y=y: x @ y) * 1e3  # type: ignore[misc]
    return rates


# --- A step, stage by stage ------------------------------------------------------------------------------------------


class Trainer:
    """A new model and its training on the corpus."""

    def __init__(self, store: Store, vocab_size: int, batch_size: int, **settings: Any) -> None:
        self.config = Config(batch_size=batch_size, **settings)
        self.model = BanyanModel(self.config, vocab_size).to(DEVICE)
        self.model.precision = "bf16"
        self.optimiser = devices.adam(self.model.parameters(), self.config.lr)
        plain = self.config.trees == "plain"
        part, _ = parts(store, None, self.config, hold_out=False)
        self.store, self.step = DeviceStore(part, vocab_size, DEVICE, plain), 0
        self.steps = Steps(
            self.model,
            self.optimiser,
            lambda graph: losses(self.model, self.model(graph)),
            self.store,
            lambda i: Dropout(self.config.dropout, 0, self.step + i),
            devices.WINDOW,
        )

    def windows(self, epoch: int) -> list[list[np.ndarray]]:
        batches = shuffled_batches(len(self.store.part), self.config.batch_size, 0, epoch)
        whole, last = batches[:-1], batches[-1:]
        return [*(whole[i : i + devices.WINDOW] for i in range(0, len(whole), devices.WINDOW)), last]

    def run(self, windows: list[list[np.ndarray]]) -> list[float]:
        losses = []
        for window, following in zip(windows, [*windows[1:], []], strict=True):
            losses += self.steps.run(window, following)[0]
            self.step += len(window)
        return losses

    def stages(self, i: int, window: Any) -> tuple[list[tuple[str, Callable[[], Any]]], dict[str, Any]]:
        """The stages of a step, to be called one after another, and the dictionary of their results."""
        batch, noise = window.step(i)
        model, have = self.model, dict[str, Any]()
        E = self.config.dim
        key = batch.tokens.new_empty(len(batch.token) + len(batch.tokens) - len(batch.offsets) + 1, dtype=torch.int64)

        def leaves() -> None:
            have["gates"] = gates_of(model.functions, E)
            have["leaves"] = dropped_leaves(model.embedding.detach(), batch, key, noise, False)

        def trees() -> None:
            have["forest"] = induce(batch, have["leaves"], have["gates"], noise)

        def entangling() -> None:
            have["graph"] = entangle(have["forest"], key, have["leaves"], have["gates"], noise, False)

        def up() -> None:
            have["up"] = up_pass(have["graph"])

        def down() -> None:
            have["down"], rebuilt = down_pass(have["graph"], have["up"])
            have["rebuilt"] = rebuilt.requires_grad_()

        def output_layer() -> None:
            passes = Passes(have["graph"], have["up"], have["down"], have["rebuilt"])
            self.optimiser.zero_grad(set_to_none=True)
            reconstruction(model, passes).backward()

        def back() -> None:
            have["g_leaves"], have["g_gates"] = backward(
                have["graph"], have["up"], have["down"], None, None, have["rebuilt"].grad
            )

        def to_weights() -> None:
            model.embedding.grad = returned(have["graph"], have["g_leaves"], len(model.embedding))
            by_vector = g_functions(have["g_gates"], model.functions)
            for parameter, g in zip(model.functions, by_vector, strict=True):
                parameter.grad = g

        return [
            ("leaves", leaves),
            ("trees", trees),
            ("entangling", entangling),
            ("pass up", up),
            ("pass down", down),
            ("output layer", output_layer),
            ("both passes back", back),
            ("gradients to weights", to_weights),
            ("optimiser", self.optimiser.step),
        ], have


def least(T: int, B: int, L: int, N: int, V: int, E: int) -> dict[str, tuple[float, float, str]]:
    """For each stage: the bytes that it must move, its operations, and the precision of these."""
    row, inner, parameters = 4 * E, N - L, 2 * V * E + V + 14
    return {
        "leaves": (2 * L * row, L * E, "float32"),
        "trees": (L * row + 4 * T + 24 * (T - B), 10 * E * (T - B), "float32"),
        "entangling": (2 * 16 * (T - B) + 2 * 8 * 2 * inner, 0, "float32"),
        "pass up": ((L + N) * row, 5 * E * inner, "float32"),
        "pass down": ((B + N) * row, 8 * E * inner, "float32"),
        "output layer": (3 * V * row + 2 * L * row, 6 * L * V * E, "bf16"),
        "both passes back": ((2 * N + 2 * L) * row, 22 * E * inner, "float32"),
        "gradients to weights": (V * row + L * row, 0, "float32"),
        "optimiser": (28 * parameters, 12 * parameters, "float32"),
    }


def stage_table(trainer: Trainer, rates: dict[str, float]) -> tuple[list[dict[str, Any]], float]:
    """Milliseconds of each stage of a step, and of the whole step as a CUDA graph."""
    windows = trainer.windows(0)
    trainer.run(windows[:1])  # compile, and record the CUDA graph
    n = min(len(windows[0]), 24)
    window = trainer.store.draw(windows[0][:n], [trainer.steps.dropout(i) for i in range(n)])
    times: dict[str, list[float]] = {}
    sizes = []
    for i in range(n):
        stages, have = trainer.stages(i, window)
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(stages) + 1)]
        torch.cuda._sleep(30_000_000)  # longer than the host needs to launch all stages
        marks[0].record()
        for (_, stage), mark in zip(stages, marks[1:], strict=True):
            stage()
            mark.record()
        torch.cuda.synchronize()
        for (name, _), begin, end in zip(stages, marks, marks[1:], strict=False):
            times.setdefault(name, []).append(begin.elapsed_time(end))
        batch, nodes = window.step(i)[0], int(have["graph"].n_nodes)
        sizes.append((int(batch.sizes[0]), int(batch.sizes[1]), nodes))
    recorded = milliseconds(lambda: trainer.run(windows[:1]), 3) / len(windows[0])

    T, L, N = (int(np.median(column)) for column in zip(*sizes, strict=True))
    needs = least(T, trainer.config.batch_size, L, N, len(trainer.model.embedding), trainer.config.dim)
    rows = []
    for name, taken in times.items():
        moved, operations, kind = needs[name]
        ms = statistics.median(taken[2:])
        floor = 1e3 * max(moved / rates["bytes"], operations / rates[kind])
        rows.append(_stage(name, ms, moved, operations, floor))
    total = [sum(row[column] for row in rows) for column in ("ms", "MB", "GFLOP", "floor ms")]
    rows.append(_stage("all stages", total[0], total[1] * 1e6, total[2] * 1e9, total[3]))
    rows.append({**rows[-1], "stage": "recorded step", "ms": recorded, "relative to the floor": recorded / total[3]})
    return rows, recorded


def _stage(name: str, ms: float, moved: float, operations: float, floor: float) -> dict[str, Any]:
    return {
        "stage": name,
        "ms": ms,
        "MB": moved / 1e6,
        "GFLOP": operations / 1e9,
        "floor ms": floor,
        "relative to the floor": ms / floor,
    }


# --- Whole runs ------------------------------------------------------------------------------------------------------


def whole_run(store: Store, vocab_size: int, batch_size: int) -> dict[str, Any]:
    """All 15 epochs of preset `paper`, from tokens: seconds by device events and by the wall clock."""
    Trainer(store, vocab_size, batch_size).run([[np.arange(batch_size)]])  # compile
    torch.cuda.synchronize()
    wall = time.perf_counter()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    trainer = Trainer(store, vocab_size, batch_size)
    epochs = [trainer.run(trainer.windows(epoch)) for epoch in range(15)]
    end.record()
    torch.cuda.synchronize()
    return {
        "batch": batch_size,
        "steps": trainer.step,
        "seconds": start.elapsed_time(end) / 1e3,
        "wall seconds": time.perf_counter() - wall,
        "ms per step": start.elapsed_time(end) / trainer.step,
        "loss of the last epoch": float(np.mean(epochs[-1])),
    }


def peak_memory(store: Store, vocab_size: int, batch_size: int, trees: str) -> float:
    """Peak GPU memory of training in GB, with the tokens of the corpus."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    trainer = Trainer(store, vocab_size, batch_size, trees=trees)
    trainer.run([trainer.windows(0)[0][:6]])
    return torch.cuda.max_memory_allocated() / 1e9


def encoding(store: Store, vocab_size: int) -> dict[str, Any]:
    """Sentences per second, from tokens to vectors, both on the device and both on the host."""
    model = BanyanModel(Config(), vocab_size)
    embedding = model.embedding.detach().numpy()
    f = Functions(*(vector.detach().double().numpy() for vector in model.functions))
    encoder = Encoder(embedding, f, DEVICE)
    tokens, offsets = store.batch(np.arange(500))
    ours, theirs = (np.empty((500, embedding.shape[1]), np.float32) for _ in range(2))
    encoder.roots(tokens, offsets, ours)
    _numba.Encoder(embedding, f).roots(tokens, offsets, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)

    all_tokens, all_offsets = store.batch(np.arange(len(store)))
    on_device = torch.from_numpy(all_tokens).to(DEVICE)
    runs = runs_of_sentences(all_offsets, TOKENS)
    parts = []
    for first, last in runs:
        own = all_offsets[first : last + 1] - all_offsets[first]
        own_offsets = torch.from_numpy(own.astype(np.int32)).to(DEVICE)
        parts.append((on_device[all_offsets[first] : all_offsets[last]], own_offsets))
    longest = int(np.diff(all_offsets).max())
    ms = milliseconds(lambda: [encoder.on_device(*part, longest) for part in parts], 5)
    out = np.empty((len(store), embedding.shape[1]), np.float32)
    encoder.roots(all_tokens, all_offsets, out)
    begin = time.perf_counter()
    encoder.roots(all_tokens, all_offsets, out)
    return {
        "sentences": len(store),
        "on the device, sentences/s": len(store) / ms * 1e3,
        "host to host, sentences/s": len(store) / (time.perf_counter() - begin),
    }


def draw(tables: dict[int, list[dict[str, Any]]], path: Path) -> None:
    """Draw the time of each stage per sentence, by batch size, with its floor."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    names = [row["stage"] for row in next(iter(tables.values()))[:-2]]
    height = 0.8 / len(tables)
    colours = ["#1b4332", "#2d6a4f", "#52b788", "#95d5b2"]
    for k, (batch, rows) in enumerate(tables.items()):
        at = [i + k * height for i in range(len(names))]
        axes.barh(at, [1e3 * r["ms"] / batch for r in rows[:-2]], height, color=colours[k], label=f"batch {batch:,}")
        axes.barh(at, [1e3 * r["floor ms"] / batch for r in rows[:-2]], height, color="#d9822b", alpha=0.9)
    axes.set_yticks([i + 0.3 for i in range(len(names))], names)
    axes.barh([0], [0], color="#d9822b", label="floor")
    axes.invert_yaxis()
    axes.set(xlabel="µs per sentence", title="A training step on one GPU, stage by stage", xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def corpus(options: argparse.Namespace) -> tuple[Store, int, str]:
    if options.store:
        store = Store.open(options.store)
        return store, int(store.tokens.max()) + 1, f"the store {options.store}"
    text, source = sentences(465_221, options.data)
    tokenizer = Tokenizer.train(text, kind="bpe", vocab_size=25_000, lowercase=True, zero_digits=True)
    tokens, offsets = tokenizer.encode(text)
    kept = np.flatnonzero((np.diff(offsets) >= 4) & (np.diff(offsets) <= 200))
    return Store(*Store(tokens, offsets, Report(), "").batch(kept), Report(), ""), tokenizer.vocab_size, source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a tokenised corpus")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    parser.add_argument("--price", type=float, default=PRICE, help="price of the GPU in dollars per hour")
    add_data_option(parser)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py needs an NVIDIA GPU")
    store, vocab_size, source = corpus(options)
    check(store, vocab_size)
    rates = limits()

    tables, memory = {}, []
    for batch_size in BATCHES:
        tables[batch_size], _ = stage_table(Trainer(store, vocab_size, batch_size), rates)
        row: dict[str, Any] = {"batch": batch_size}
        for trees in ("entangled", "plain"):
            row[f"{trees} GB"] = peak_memory(store, vocab_size, batch_size, trees)
        memory.append({**row, "saved": 1 - row["entangled GB"] / row["plain GB"]})
    runs = [whole_run(store, vocab_size, batch_size) for batch_size in BATCHES]
    options.out.mkdir(parents=True, exist_ok=True)
    draw(tables, options.out / "gpu_stages.png")
    claim = next(run for run in runs if run["batch"] == 1024)["wall seconds"]
    cost = f"{claim:.1f} s and {100 * claim / 3600 * options.price:.1f} cents at ${options.price} an hour; {PAPER}"
    report(
        {
            **{f"a step of {batch:,} sentences": rows for batch, rows in tables.items()},
            "peak memory": memory,
            "all 15 epochs": runs,
            "encoding": [encoding(store, vocab_size)],
        },
        text=source,
        tokens=store.n_tokens,
        vocabulary=vocab_size,
        copy_TB_per_s=rates["bytes"] / 1e12,
        bf16_TFLOP_per_s=rates["bf16"] / 1e12,
        float32_TFLOP_per_s=rates["float32"] / 1e12,
        batch_1024=cost,
        card=torch.cuda.get_device_name(DEVICE),
        command=" ".join(["python", *sys.argv]),
        versions=f"torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}",
    )


if __name__ == "__main__":
    main()
