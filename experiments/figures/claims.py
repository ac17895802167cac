"""Measure what the paper claims in words.

    python -m experiments.figures.claims [norms] [stability] [unbiased] [inference] --models MODEL ...

A MODEL is a model folder, or an .npz of weights beside its tokenizer.json. `norms` uses all models. `unbiased` and
`inference` use the first, which must be a folder: the loss of a leaf needs the output layer, and inference includes
loading. `stability` reads the records of the training runs. Writes experiments/results/claims.json and pictures in
docs/images/results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.encoder import TOKENIZER, WEIGHTS, Banyan
from banyan.errors import BanyanError
from banyan.model.functions import Functions
from banyan.model.graph import Forest, Graph, entangle
from experiments.data import add_data_option, corpus_lines
from experiments.figures.style import BLUE, GREEN, MARKERS, ORANGE, picture, plain_axes
from experiments.hardware import processor
from experiments.measuring.graphs import forest_of, part, select, up_and_down
from experiments.places import RESULTS, ROOT
from experiments.records.entries import keep
from experiments.records.store import RUNS
from experiments.training.weights import load, load_all

# --- Norms grow on the way up and shrink on the way down -------------------------------------------------------------

SENTENCES = 2048
FEWEST = 20  # nodes for a mean


def heights(graph: Graph) -> np.ndarray:
    return np.repeat(np.arange(len(graph.levels) - 1), np.diff(graph.levels))


def depths(graph: Graph) -> np.ndarray:
    """The distance of each node from the nearest root that no other tree contains [N]."""
    depth = np.where(graph.messages == 0, 0, np.iinfo(np.int32).max)
    for node in range(graph.n_nodes - 1, graph.n_leaves - 1, -1):
        for child in graph.children[node - graph.n_leaves]:
            depth[child] = min(depth[child], depth[node] + 1)
    return depth


def means_by(steps: np.ndarray, values: np.ndarray) -> dict[int, tuple[int, float]]:
    """The number of values at each number of steps, and their mean, if there are at least FEWEST."""
    counts, sums = np.bincount(steps), np.bincount(steps, values)
    return {step: (int(n), float(sums[step] / n)) for step, n in enumerate(counts) if n >= FEWEST}


def norms(models: dict[str, Banyan], paths: Sequence[str], data: Path) -> dict[str, Any]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    lines = corpus_lines(data, "en", "dev", 2 * SENTENCES)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows, notes = [], [f"One entangled graph of {SENTENCES:,} held-out English sentences, without dropout"]
    for (name, model), (colour, marker) in zip(models.items(), MARKERS, strict=False):
        graph = entangle(forest_of(model, lines, SENTENCES))
        up, down = (np.linalg.norm(both, axis=1) for both in up_and_down(model, graph))
        by_height, by_depth = means_by(heights(graph), up), means_by(depths(graph), down)
        for axes, by in (left, by_height), (right, by_depth):
            axes.plot(list(by), [mean for _, mean in by.values()], marker + "-", color=colour, markersize=5, label=name)
        for step in sorted({*by_height, *by_depth}):
            cells = [*by_height.get(step, (None, None)), *by_depth.get(step, (None, None))]
            rows.append([name, step, *_rounded(cells, 3)])
        notes.append(f"{name}: {_told(graph, up, down)}")
    left.set(xlabel="height of the node", ylabel="mean norm of up embeddings")
    right.set(xlabel="steps down from a root", ylabel="mean norm of down embeddings")
    for axes in (left, right):
        low, high = axes.dataLim.intervaly
        if high > 30 * low:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
            axes.xaxis.get_major_locator().set_params(integer=True)
        else:
            axes.set_ylim(0)
        plain_axes(axes)
    left.legend(frameon=False)
    return {
        "title": "Norms of up and down embeddings",
        "columns": ["model", "steps", "nodes at this height", "norm up", "nodes at this depth", "norm down"],
        "rows": rows,
        "notes": notes,
        "picture": picture(figure, "norms.png"),
    }


def _told(graph: Graph, up: np.ndarray, down: np.ndarray) -> str:
    """How often the claim holds for single merges and edges."""
    parent = np.arange(graph.n_leaves, graph.n_nodes)
    grown = (up[parent] > up[graph.children].max(1)).mean()
    shrunk = (down[graph.children] < down[parent][:, None]).mean()
    return (
        f"in {grown:.1%} of merges the up embedding of the parent is longer than those of both children; "
        f"in {shrunk:.1%} of edges the down embedding of the child is shorter than that of the parent"
    )


# --- Small U is stable across seeds ----------------------------------------------------------------------------------



def runs_by_channels(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """The records of the runs with different K, by K. K = 128 is the run `banyan`."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted([*folder.glob("channels-*.json"), *folder.glob("banyan-[0-9]*.json")]):
        record = json.loads(path.read_text(encoding="utf-8"))
        found[record["settings"]["channels"]].append(record)
    return dict(sorted(found.items()))


def stability(models: dict[str, Banyan], paths: Sequence[str], data: Path) -> dict[str, Any]:
    rows: list[list[Any]] = []
    for channels, records in runs_by_channels(RESULTS / RUNS).items():
        scores = [_mean_and_deviation([r["scores"][group]["value"] for r in records]) for group in ("words", "sts")]
        rows.append([channels, records[0]["settings"]["dim"] // channels, len(records), *scores[0], *scores[1]])
    return {
        "title": "Stability across seeds, by width U of a channel",
        "columns": ["K", "U", "seeds", "words", "deviation", "sentences", "deviation"],
        "rows": rows,
        "notes": [
            *([] if rows else ["Not run yet: python -m experiments.training.reproduce channels --seeds 0 1 2 3"]),
            "Means over the word sets and over the sentence sets, and standard deviations over seeds",
        ],
    }


def _mean_and_deviation(values: list[float]) -> tuple[float, float | None]:
    return round(float(np.mean(values)), 2), round(float(np.std(values, ddof=1)), 2) if len(values) > 1 else None


# --- The batch estimate of a down embedding --------------------------------------------------------------------------

POPULATION = 16_384
SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
TOKENS = 100
SHUFFLES = 4
OFTEN = (100, 1000)  # least and greatest number of sentences of the population with a chosen token


def chosen_tokens(forest: Forest, n: int = TOKENS, often: tuple[int, int] = OFTEN, seed: int = 0) -> np.ndarray:
    """Random tokens that are neither rare nor very frequent."""
    sentence = np.repeat(np.arange(len(forest.offsets) - 1), np.diff(forest.offsets))
    pairs = np.unique(np.column_stack([forest.tokens, sentence]), axis=0)
    token, sentences = np.unique(pairs[:, 0], return_counts=True)
    candidates = token[(sentences >= often[0]) & (sentences <= often[1])]
    if len(candidates) < n:
        raise BanyanError(f"only {len(candidates)} tokens occur in {often[0]} to {often[1]} sentences; {n} are needed")
    return np.sort(np.random.default_rng(seed).choice(candidates, n, replace=False))


def leaves_down(model: Banyan, forest: Forest, tokens: np.ndarray) -> dict[int, np.ndarray]:
    """The down embeddings of the tokens that occur in a batch, in its entangled graph."""
    graph = entangle(forest)
    _, down = up_and_down(model, graph)
    leaf = np.searchsorted(graph.token, tokens)
    there = (leaf < graph.n_leaves) & (graph.token[np.minimum(leaf, graph.n_leaves - 1)] == tokens)
    return {int(token): down[row].astype(np.float64) for token, row in zip(tokens[there], leaf[there], strict=True)}


class Estimate(NamedTuple):
    """Batches of one size compared with the population: means over tokens, lengths relative to the population's."""

    length: float  # of the embedding in one batch
    deviation: float  # of the embedding in one batch, root mean square
    bias: float  # of the mean over batches, corrected for sampling error
    chance: float  # sampling error of an unbiased mean over as many batches
    loss: float | None  # mean over batches
    loss_of_mean: float | None  # of the mean embedding


def estimate(model: Banyan, shuffles: Sequence[dict[int, np.ndarray]], population: dict[int, np.ndarray]) -> Estimate:
    """Estimate the bias from the embeddings [batches, E] of each token in several shuffles of the population.

    The batches of one shuffle are not independent, because they divide the sentences among them. Shuffles are, so the
    sampling error comes from the variance of their means.
    """
    figures, losses = [], []
    for token, target in population.items():
        rows = np.concatenate([samples[token] for samples in shuffles])
        means = np.array([samples[token].mean(0) for samples in shuffles])
        chance = means.var(0, ddof=1).sum() / len(means) if len(means) > 1 else 0.0
        off = ((means.mean(0) - target) ** 2).sum() - chance
        size = target @ target
        squares = ((rows - target) ** 2).sum(1).mean(), off, chance
        figures.append([np.linalg.norm(rows, axis=1).mean() / np.sqrt(size), *(square / size for square in squares)])
        if "out_weight" in model.weights:
            first = shuffles[0][token]
            losses.append([_loss(model, first, token).mean(), _loss(model, means.mean(0)[None], token)[0]])
    length, *squares_of_all = np.mean(figures, axis=0).tolist()
    deviation, bias, chance = (float(np.sqrt(max(square, 0))) for square in squares_of_all)
    loss, loss_of_mean = np.mean(losses, axis=0).tolist() if losses else (None, None)
    return Estimate(length, deviation, bias, chance, loss, loss_of_mean)


def _loss(model: Banyan, rows: np.ndarray, token: int) -> np.ndarray:
    """Cross-entropy of the token over the whole vocabulary [n]."""
    losses = []
    weight, bias = model.weights["out_weight"], model.weights["out_bias"]
    for start in range(0, len(rows), 1024):
        logits = rows[start : start + 1024].astype(np.float32) @ weight.T + bias
        highest = logits.max(1)
        losses.append(highest + np.log(np.exp(logits - highest[:, None]).sum(1)) - logits[:, token])
    return np.concatenate(losses).astype(np.float64)


def in_batches(model: Banyan, forest: Forest, size: int, tokens: np.ndarray) -> dict[int, np.ndarray]:
    """The down embeddings of each token in the batches that contain it [batches, E]."""
    samples: dict[int, list[np.ndarray]] = defaultdict(list)
    for start in range(0, len(forest.offsets) - size, size):
        for token, row in leaves_down(model, part(forest, start, start + size), tokens).items():
            samples[token].append(row)
    return {token: np.array(rows) for token, rows in samples.items()}


def unbiased(models: dict[str, Banyan], paths: Sequence[str], data: Path) -> dict[str, Any]:
    name, model = next(iter(models.items()))
    forest = forest_of(model, corpus_lines(data, "en", "train", 2 * POPULATION), POPULATION)
    tokens = chosen_tokens(forest)
    population = leaves_down(model, forest, tokens)
    rng = np.random.default_rng(0)
    shuffled = [select(forest, rng.permutation(POPULATION)) for _ in range(SHUFFLES)]
    estimates = {
        size: estimate(model, [in_batches(model, one, size, tokens) for one in shuffled], population) for size in SIZES
    }
    whole = estimate(model, [{token: row[None] for token, row in population.items()}], population)
    rows: list[list[Any]] = [[size, POPULATION // size, *_rounded(one)] for size, one in estimates.items()]
    rows.append([POPULATION, 1, *_rounded(whole)])
    return {
        "title": "The down embedding of a leaf, estimated from batches",
        "columns": [
            "sentences", "batches", "length in one batch", "deviation of one batch", "bias", "chance", "loss",
            "loss of the mean embedding",
        ],
        "rows": rows,
        "notes": [
            f"Model: {name}, epochs: {model.config.epochs}, candidates: {model.config.candidates}, with fixed weights, "
            f"without dropout. The tokens: {TOKENS} that occur in {OFTEN[0]} to {OFTEN[1]:,} of {POPULATION:,} "
            "training sentences. The sentences are divided into batches. The down embedding of a token in the graph "
            "of a batch is compared with that in the graph of all sentences (the population). "
            f"Shuffles: {SHUFFLES}",
            "Lengths and distances are relative to the length of the population's embedding. Bias: distance of the "
            "mean over batches, corrected for sampling error. Chance: the sampling error of an unbiased mean over as "
            "many shuffles",
            "A down embedding is a mean over distinct parents, and the set of parents depends on the batch, as do the "
            "embeddings of the parents. It is a ratio, and the mean of a ratio over batches is not the ratio of the "
            "population. The loss is convex in the embedding, so the mean of losses exceeds the loss of the mean "
            "embedding with or without bias",
        ],
        "picture": _picture_of_bias(estimates, whole),
    }  # fmt: skip


def _rounded(values: Sequence[float | None], digits: int = 4) -> list[float | None]:
    return [None if value is None else round(value, digits) for value in values]


def _picture_of_bias(estimates: dict[int, Estimate], whole: Estimate) -> str:
    from matplotlib.figure import Figure

    sizes = list(estimates)
    with_loss = whole.loss is not None
    figure = Figure(figsize=(9 if with_loss else 5, 3.8), layout="constrained")
    left, *right = figure.subplots(1, 1 + with_loss, squeeze=False)[0]
    left.plot(sizes, [one.deviation for one in estimates.values()], "s-", color=ORANGE, label="one batch")
    left.plot(sizes, [one.bias for one in estimates.values()], "o-", color=BLUE, label="mean over batches (bias)")
    left.plot(sizes, [one.chance for one in estimates.values()], ":", color=GREEN, label="sampling error of that mean")
    left.set(ylabel="distance from the population's,\nrelative to its length")
    for axes in right:
        axes.plot(sizes, [one.loss for one in estimates.values()], "s-", color=ORANGE, label="mean of the losses")
        means = [one.loss_of_mean for one in estimates.values()]
        axes.plot(sizes, means, "o-", color=BLUE, label="loss of the mean embedding")
        axes.axhline(whole.loss, linestyle="--", color=GREEN, label="in the population")
        axes.set(ylabel="cross-entropy of the leaf")
    for axes in (left, *right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set(xlabel="sentences in a batch")
        low, high = axes.get_ylim()
        axes.set(ylim=(low, high + 0.25 * (high - low)))  # space for the legend
        plain_axes(axes)
        axes.legend(frameon=False, loc="upper right")
    return picture(figure, "batch_estimate.png")


# --- Inference on a CPU ----------------------------------------------------------------------------------------------

ENCODED = 20_000


def inference(models: dict[str, Banyan], paths: Sequence[str], data: Path) -> dict[str, Any]:
    """Time encoding in separate processes, which never import torch (inference.py asserts it)."""
    path, text = Path(paths[0]), "\n".join(corpus_lines(data, "en", "train", ENCODED))
    rows: list[list[Any]] = []
    cores = len(os.sched_getaffinity(0))
    for threads in sorted({1, min(2, cores)}):
        program = [sys.executable, "-m", "experiments.figures.inference", str(path.resolve())]
        environment = {**os.environ, "BANYAN_THREADS": str(threads)}
        ran = subprocess.run(program, input=text, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        told = json.loads(ran.stdout)
        on = "1 thread" if threads == 1 else f"{threads} threads"
        rows.append([f"sentences per second, {on}", round(told["sentences_per_second"] / 100) * 100])
        rows.append([f"seconds to load and to encode the first sentences, {on}", round(told["seconds_to_load"], 2)])
        rows.append([f"peak memory of the process, {on}, MB", _mb(told["peak_bytes"])])
    rows += _sizes(load(path), path)
    return {
        "title": "Inference on a CPU, without torch",
        "columns": ["measure", "value"],
        "rows": rows,
        "notes": [
            f"{ENCODED:,} English training sentences, from strings to embeddings, fastest of three; {processor()}, "
            f"{cores} cores, on a machine with other work",
            "Encoding needs the embedding, the functions and the tokenizer; a model folder also has the output layer",
        ],
    }


def _sizes(model: Banyan, path: Path) -> list[list[Any]]:
    weights = path / WEIGHTS if path.is_dir() else path
    tokenizer = (path if path.is_dir() else path.parent) / TOKENIZER
    needed = sum(model.weights[name].nbytes for name in ("embedding", *Functions._fields))
    return [
        ["weights on disk, MB", _mb(weights.stat().st_size)],
        ["weights that encoding needs (float32), MB", _mb(needed)],
        ["tokenizer on disk, MB", _mb(tokenizer.stat().st_size)],
        ["parameters of the functions", sum(model.weights[name].size for name in Functions._fields)],
    ]


def _mb(size: int) -> float:
    return round(size / 1e6, 1)


CLAIMS = {"norms": norms, "stability": stability, "unbiased": unbiased, "inference": inference}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(CLAIMS)} (default: all)")
    parser.add_argument("--models", nargs="+", default=[], metavar="MODEL")
    add_data_option(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "claims.json")
    options = parser.parse_args()
    names = options.names or list(CLAIMS)
    for name in names:
        if name not in CLAIMS:
            parser.error(f"there is no claim {name}: choose from {', '.join(CLAIMS)}")
    if not options.models and names != ["stability"]:
        parser.error("--models is required")
    models, file_names = load_all(options.models), " ".join(Path(model).name for model in options.models)
    for name in names:
        entry = CLAIMS[name](models, options.models, options.data)
        command = f"python -m experiments.figures.claims {name}" + (f" --models {file_names}" if file_names else "")
        keep(options.out, name, {**entry, "command": command})


if __name__ == "__main__":
    main()
