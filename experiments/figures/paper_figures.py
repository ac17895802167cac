"""The paper's figures, drawn from trained models.

    python -m experiments.figures.paper_figures nodes      --models MODEL
    python -m experiments.figures.paper_figures uniformity --models MODEL ...
    python -m experiments.figures.paper_figures umap       --models MODEL ... [--points 12000]
    python -m experiments.figures.paper_figures drawings   --models MODEL

A MODEL is a model folder, or an .npz of weights beside its tokenizer.json. Writes pictures in docs/images/results and
their numbers in experiments/results/figures.json.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.model.graph import Forest, Graph, entangle
from experiments.data import add_data_option, corpus_lines
from experiments.figures.drawing import draw_entangling, draw_messages
from experiments.figures.style import BLUE, GREEN, MARKERS, ORANGE, picture, plain_axes
from experiments.measuring.graphs import forest_of, part, up_and_down
from experiments.places import RESULTS
from experiments.records.entries import keep
from experiments.training.weights import load_all

# --- Nodes against batch size ----------------------------------------------------------------------------------------

BATCH_SIZES = tuple(2**i for i in range(4, 14))  # 16 to 8192
BATCHES = 16  # at most, of each size


class Nodes(NamedTuple):
    batch_size: int
    batches: int
    plain: float
    entangled: float
    leaves: float  # distinct tokens


def count_nodes(forest: Forest, batch_size: int, most: int = BATCHES) -> Nodes:
    """Mean numbers of nodes over disjoint batches of this size."""
    starts = range(0, len(forest.offsets) - batch_size, batch_size)[:most]
    if not starts:
        raise BanyanError(f"{len(forest.offsets) - 1} sentences are too few for a batch of {batch_size}")
    batches = [part(forest, start, start + batch_size) for start in starts]
    graphs = [entangle(batch) for batch in batches]
    plain = np.mean([len(batch.tokens) + len(batch.children) for batch in batches])
    entangled, leaves = np.mean([(graph.n_nodes, graph.n_leaves) for graph in graphs], axis=0)
    return Nodes(batch_size, len(batches), float(plain), float(entangled), float(leaves))


def nodes(models: dict[str, Banyan], data: Path, options: argparse.Namespace) -> dict[str, Any]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    name, model = next(iter(models.items()))
    forest = forest_of(model, corpus_lines(data, "en", "train", 2 * BATCH_SIZES[-1]), BATCH_SIZES[-1])
    counts = [count_nodes(forest, size) for size in BATCH_SIZES]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    sizes = [count.batch_size for count in counts]
    axes.plot(sizes, [count.plain for count in counts], "s-", color=ORANGE, label="plain trees")
    axes.plot(sizes, [count.entangled for count in counts], "o-", color=BLUE, label="one entangled graph")
    axes.plot(sizes, [count.leaves for count in counts], "^:", color=GREEN, label="its leaves (distinct tokens)")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set(xlabel="sentences in the batch", ylabel="nodes")
    plain_axes(axes)
    axes.legend(frameon=False)
    shares = [
        [c.batch_size, c.batches, round(c.plain), round(c.entangled), round(c.leaves), round(c.plain / c.entangled, 2)]
        for c in counts
    ]
    slopes = [np.polyfit(np.log(sizes), np.log([c[i] for c in counts]), 1)[0] for i in (2, 3)]
    return {
        "title": "Nodes by batch size",
        "columns": ["sentences", "batches", "plain", "entangled", "leaves", "plain / entangled"],
        "rows": shares,
        "notes": [
            f"Model: {name}; English training text; means over disjoint batches",
            f"The number of nodes grows with the batch size to the power of {slopes[0]:.2f} (plain) "
            f"and {slopes[1]:.2f} (entangled)",
        ],
        "picture": picture(figure, "nodes.png"),
    }


# --- Uniformity and alignment ----------------------------------------------------------------------------------------

SENTENCES = 1024  # of held-out text, in one graph
PAIRS_OF = 4096  # nodes; uniformity is over all pairs of them


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1, in float64; a zero row stays zero."""
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def alignment(a: np.ndarray, b: np.ndarray) -> float:
    """Alignment (Wang and Isola): the mean squared distance between paired embeddings of length 1."""
    return float(((unit(a) - unit(b)) ** 2).sum(1).mean())


def uniformity(rows: np.ndarray, seed: int = 0) -> float:
    """Uniformity (Wang and Isola): log of the mean of exp(-2 · distance²) over pairs of rows of length 1.

    At most PAIRS_OF rows are used, drawn at random.
    """
    rows = unit(rows)
    if len(rows) > PAIRS_OF:
        rows = rows[np.random.default_rng(seed).choice(len(rows), PAIRS_OF, replace=False)]
    squared = np.maximum(2 - 2 * rows @ rows.T, 0)
    pairs = squared[np.triu_indices(len(rows), 1)]
    return float(np.log(np.exp(-2 * pairs).mean()))


def with_parents(graph: Graph) -> np.ndarray:
    """bool [N]: False for roots that no other tree contains; their down embedding is their up embedding."""
    return graph.messages > 0


class Spread(NamedTuple):
    alignment: float
    uniformity_up: float
    uniformity_down: float

    @property
    def uniformity(self) -> float:
        return (self.uniformity_up + self.uniformity_down) / 2


def spread(up: np.ndarray, down: np.ndarray) -> Spread:
    return Spread(alignment(up, down), uniformity(up), uniformity(down))


def uniform_and_aligned(models: dict[str, Banyan], data: Path, options: argparse.Namespace) -> dict[str, Any]:
    from matplotlib.figure import Figure

    lines = corpus_lines(data, "en", "dev", 2 * SENTENCES)
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.subplots()
    rows = []
    for (name, model), (colour, marker) in zip(models.items(), MARKERS, strict=False):
        graph = entangle(forest_of(model, lines, SENTENCES))
        up, down = up_and_down(model, graph)
        inside = with_parents(graph)
        one, everything = spread(up[inside], down[inside]), spread(up, down)
        axes.plot(one.alignment, one.uniformity, marker, color=colour, markersize=11, label=name)
        figures = [*one, one.uniformity, everything.alignment, everything.uniformity]
        rows.append([name, graph.n_nodes, *(round(figure, 3) for figure in figures)])
    axes.set(xlabel="alignment: up against down (lower is better)", ylabel="uniformity (lower is better)")
    axes.margins(0.25)
    plain_axes(axes)
    axes.legend(frameon=False, loc="best")
    return {
        "title": "Uniformity and alignment",
        "columns": [
            "model", "nodes", "alignment", "uniformity, up", "uniformity, down", "uniformity, mean of both",
            "alignment with roots", "uniformity with roots",
        ],
        "rows": rows,
        "notes": [
            f"One entangled graph of {SENTENCES:,} held-out English sentences, without dropout, with the trees of each "
            "model",
            "Except in the last two columns, roots that no other tree contains are left out, because their up and down "
            "embeddings are identical",
            f"Uniformity is over all pairs of {PAIRS_OF:,} random nodes (seed 0)",
        ],
        "picture": picture(figure, "uniformity_alignment.png"),
    }  # fmt: skip


# --- UMAP of up and down embeddings ----------------------------------------------------------------------------------

WANTED_NODES = 30_000
NEIGHBOURS = 10
ASKED = 4096
METRICS = ("cosine", "euclidean")


def overlap(up: np.ndarray, down: np.ndarray, metric: str = "cosine", neighbours: int = NEIGHBOURS) -> float:
    """The share of a vector's nearest neighbours that are of the other kind (up or down), including its own node's.

    It is 0 if the kinds are separate and about 0.5 if they are mixed. At most ASKED random vectors are used as queries.
    """
    rows = np.concatenate([up, down]).astype(np.float32)
    if metric == "cosine":
        rows = unit(rows).astype(np.float32)  # now distances have the order of cosines
    is_down = np.repeat([False, True], [len(up), len(down)])
    squares = np.einsum("ij,ij->i", rows, rows)
    asked = np.random.default_rng(0).permutation(len(rows))[:ASKED]
    other = 0
    for block in np.array_split(asked, -(-len(asked) // 1024)):
        distances = squares - 2 * rows[block] @ rows.T
        distances[np.arange(len(block)), block] = np.inf
        nearest = np.argpartition(distances, neighbours, axis=1)[:, :neighbours]
        other += int((is_down[nearest] != is_down[block, None]).sum())
    return other / (neighbours * len(asked))


def graph_of_about(model: Banyan, lines: list[str], wanted: int) -> Graph:
    """The entangled graph of the first sentences, as many as give about the wanted number of nodes (by bisection)."""
    forest = forest_of(model, lines)
    low, high = 1, len(forest.offsets) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if entangle(part(forest, 0, middle)).n_nodes < wanted:
            low = middle
        else:
            high = middle
    return entangle(part(forest, 0, high))


def project(rows: np.ndarray, metric: str) -> np.ndarray:
    """UMAP with the settings of the paper's Appendix C."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import umap

        reducer = umap.UMAP(n_neighbors=100, min_dist=0.3, metric=metric, local_connectivity=3, random_state=0)
        return reducer.fit_transform(rows)


def umaps(models: dict[str, Banyan], data: Path, options: argparse.Namespace) -> dict[str, Any]:
    from matplotlib.figure import Figure

    lines = corpus_lines(data, "en", "dev", 5000)
    figure = Figure(figsize=(4.2 * len(models), 8.6), layout="constrained")
    panels = figure.subplots(len(METRICS), len(models), squeeze=False)
    rows = []
    for column, (name, model) in enumerate(models.items()):
        graph = graph_of_about(model, lines, WANTED_NODES)
        inside = np.flatnonzero(with_parents(graph))
        up, down = (both[inside] for both in up_and_down(model, graph))
        drawn = np.random.default_rng(0).permutation(len(inside))[: options.points // 2]
        row: list[Any] = [name, graph.n_nodes, len(inside), len(drawn)]
        for place, metric in enumerate(METRICS):
            mixed = overlap(up, down, metric)
            start = time.perf_counter()
            flat = project(np.concatenate([up[drawn], down[drawn]]), metric)
            print(f"{name}, {metric}: UMAP of {len(flat):,} points took {time.perf_counter() - start:.0f} s")
            row += [round(mixed, 3), round(overlap(flat[: len(drawn)], flat[len(drawn) :], "euclidean"), 3)]
            title = f"{name}, {metric.replace('euc', 'Euc')}\nof {NEIGHBOURS} neighbours, {mixed:.0%} of the other kind"
            _scatter(panels[place, column], flat, title)
        rows.append(row)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return {
        "title": "UMAP of up and down embeddings",
        "columns": [
            "model", "nodes", "with parents", "nodes drawn", "overlap, cosine", "in the picture, cosine",
            "overlap, Euclidean", "in the picture, Euclidean",
        ],
        "rows": rows,
        "notes": [
            f"One entangled graph of about {WANTED_NODES:,} nodes from held-out English text. Roots that no other tree "
            "contains are left out, because their up and down embeddings are identical",
            f"Overlap: the share of the {NEIGHBOURS} nearest neighbours of an embedding that are of the other kind (0 "
            f"if separate, about 0.5 if mixed), for {ASKED:,} random embeddings among all of the graph. 'In the "
            "picture': the same for the points of the picture, in UMAP's plane",
            "UMAP: 100 neighbours, minimum distance 0.3, local connectivity 3, as in the paper; random nodes",
        ],
        "picture": picture(figure, "umap.png"),
    }  # fmt: skip


def _scatter(axes: Any, flat: np.ndarray, title: str) -> None:
    """Draw the points in random order, so that neither kind hides the other."""
    half = len(flat) // 2
    order = np.random.default_rng(0).permutation(len(flat))
    colours = np.repeat([BLUE, ORANGE], half)[order]
    size = np.clip(30_000 / len(flat), 1.5, 8)
    axes.scatter(*flat[order].T, s=size, c=colours, alpha=0.5, linewidths=0, rasterized=True)
    for colour, kind in (BLUE, "up (composed)"), (ORANGE, "down (decomposed)"):
        axes.scatter([], [], s=40, c=colour, label=kind)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=11)


# --- Drawings --------------------------------------------------------------------------------------------------------


def drawings(models: dict[str, Banyan], data: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    name, model = next(iter(models.items()))
    trees = picture(draw_entangling(model), "entangling.png")
    messages = picture(draw_messages(model), "messages.png")
    return {
        "title": "Three sentences as trees and as one entangled graph; messages up and down",
        "columns": ["drawing", "picture"],
        "rows": [["three trees, one graph", trees], ["messages", messages]],
        "notes": [f"Model: {name}, with the trees that it induces"],
    }


FIGURES = {"nodes": nodes, "uniformity": uniform_and_aligned, "umap": umaps, "drawings": drawings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=FIGURES)
    parser.add_argument("--models", nargs="+", required=True, metavar="MODEL")
    add_data_option(parser)
    parser.add_argument("--points", type=int, default=12_000, help="points of UMAP, two for each node")
    parser.add_argument("--out", type=Path, default=RESULTS / "figures.json")
    options = parser.parse_args()
    entry = FIGURES[options.name](load_all(options.models), options.data, options)
    file_names = " ".join(Path(model).name for model in options.models)
    command = f"python -m experiments.figures.paper_figures {options.name} --models {file_names}"
    keep(options.out, options.name, {**entry, "command": command})


if __name__ == "__main__":
    main()
