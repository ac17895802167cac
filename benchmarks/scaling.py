"""Nodes, memory and time by batch size (entangled and plain trees) and by sentence length.

    python -m benchmarks.scaling [--out docs/images]

Draws scaling_batch.png (the paper's figure of node counts, with memory and time) and scaling_length.png. Checks first
that entangled and plain trees have the same roots.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from banyan.backends import _numba
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.model.functions import Functions
from banyan.model.graph import Graph, disentangled, entangle
from banyan.tokenizer import Tokenizer
from benchmarks.common import best, report, sentences
from experiments.data import add_data_option

GREEN, ORANGE = "#2c7a4b", "#d9822b"
BATCHES = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
LENGTHS = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]


def up_and_down(graph: Graph, leaves: np.ndarray, f: Functions) -> tuple[np.ndarray, np.ndarray]:
    up = _numba.up_pass(graph, leaves, f)
    return up, _numba.down_pass(graph, up, f)


def by_batch(text: list[str], tokenizer: Tokenizer, embedding: np.ndarray, f: Functions) -> list[dict[str, Any]]:
    rows = []
    for size in BATCHES:
        tokens, offsets = tokenizer.encode(text[:size])
        forest, _ = _numba.induce(tokens, offsets, embedding, tokens, f)
        entry: dict[str, Any] = {"sentences": size, "tokens": len(tokens)}
        graphs = {"entangled": entangle(forest), "plain": disentangled(forest)}
        roots = [_numba.up_pass(graph, embedding[graph.token], f)[graph.root] for graph in graphs.values()]
        np.testing.assert_array_equal(*roots)
        for name, graph in graphs.items():
            entry[f"{name} nodes"] = graph.n_nodes
            held = up_and_down(graph, embedding[graph.token], f)  # the up and down embeddings of all nodes
            entry[f"{name} MB"] = sum(array.nbytes for array in held) / 1e6
            entry[f"{name} ms"] = 1e3 * best(partial(up_and_down, graph, embedding[graph.token], f), 3)
        entry["nodes saved"] = 1 - entry["entangled nodes"] / entry["plain nodes"]
        rows.append(entry)
    return rows


def by_length(tokens: np.ndarray, embedding: np.ndarray, f: Functions) -> list[dict[str, Any]]:
    encoder = _numba.Encoder(embedding, f)
    rows = []
    for length in LENGTHS:
        out = np.empty((1, embedding.shape[1]), np.float32)
        document = np.resize(tokens, length)
        offsets = np.array([0, length])
        seconds = best(partial(encoder.roots, document, offsets, out), 4)
        rows.append({"tokens": length, "ms": 1e3 * seconds, "µs per token": 1e6 * seconds / length})
    return rows


def draw_batch(rows: list[dict[str, Any]], path: Path) -> None:
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    sizes = [row["sentences"] for row in rows]
    for axes, what in zip(figure.subplots(1, 3), ("nodes", "MB", "ms"), strict=True):
        for name, colour in (("plain", ORANGE), ("entangled", GREEN)):
            axes.plot(sizes, [row[f"{name} {what}"] for row in rows], "o-", color=colour, label=name)
        axes.set(xlabel="sentences in the batch", ylabel="ms, up and down" if what == "ms" else what)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=130)


def draw_length(rows: list[dict[str, Any]], path: Path) -> None:
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.loglog([r["tokens"] for r in rows], [r["ms"] for r in rows], "o-", color=GREEN, label="one sentence")
    last = rows[-1]
    line = [r["tokens"] * last["ms"] / last["tokens"] for r in rows]
    axes.loglog([r["tokens"] for r in rows], line, ":", color="grey", label="proportional to its length")
    axes.set(xlabel="tokens in the sentence", ylabel="ms")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    add_data_option(parser)
    options = parser.parse_args()
    text, source = sentences(200_000, options.data)
    tokenizer = Tokenizer.train(text, kind="bpe", vocab_size=25_000, lowercase=True, zero_digits=True)
    model = BanyanModel(Config(), tokenizer.vocab_size)
    embedding = model.embedding.detach().numpy()
    f = Functions(*(function.detach().double().numpy() for function in model.functions))
    options.out.mkdir(parents=True, exist_ok=True)

    batches = by_batch(text, tokenizer, embedding, f)
    draw_batch(batches, options.out / "scaling_batch.png")
    lengths = by_length(tokenizer.encode(text[:5000])[0], embedding, f)
    draw_length(lengths, options.out / "scaling_length.png")
    tables = {"entangled and plain trees": batches, "time by sentence length": lengths}
    report(tables, text=source)


if __name__ == "__main__":
    main()
