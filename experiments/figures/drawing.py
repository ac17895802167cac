"""The two diagrams of the paper: trees that become one entangled graph, and messages through a shared node."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from banyan.encoder import Banyan
from banyan.model.graph import Forest, Graph, disentangled, entangle
from banyan.reference import decompose
from experiments.figures.style import BLUE, GREEN, ORANGE, VERMILION
from experiments.measuring.graphs import forest_of, part, up_and_down

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SENTENCES = (
    "some are born to sweet delight",
    "some are born to endless night",
    "every morn and every night",
)
INK = "#222222"
ROW = 0.8  # distance between heights
LETTER = 0.155  # approximate width of a letter
GAP = 0.45  # between words
NUMBER = 0.32  # distance of the number of a sentence from its root


class Words(NamedTuple):
    """A graph with the text of its nodes."""

    graph: Graph
    phrase: list[str]
    sentences: list[set[int]]  # sentences that contain the node
    occurrences: np.ndarray  # how often each node occurs


def words_of(model: Banyan, graph: Graph, forest: Forest) -> Words:
    pieces = [model.tokenizer.pieces[token] for token in graph.token]
    for left, right in graph.children.tolist():
        pieces.append(pieces[left] + pieces[right])
    sentences: list[set[int]] = [set() for _ in pieces]
    T = len(forest.tokens)
    for sentence in range(len(forest.offsets) - 1):
        nodes = [*range(*forest.offsets[sentence : sentence + 2])]
        nodes += range(T + forest.merge_offsets[sentence], T + forest.merge_offsets[sentence + 1])
        for occurrence in nodes:
            sentences[graph.node_of[occurrence]].add(sentence)
    return Words(graph, [_shown(piece) for piece in pieces], sentences, np.bincount(graph.node_of))


def _shown(pieces: str) -> str:
    """The text of pieces; a piece inside a word gets a hyphen in front."""
    text = pieces.replace("▁", " ").strip()
    return text if pieces.startswith("▁") else f"-{text}"


def children_of(graph: Graph, node: int) -> list[int]:
    return graph.children[node - graph.n_leaves].tolist() if node >= graph.n_leaves else []


# --- Layout ----------------------------------------------------------------------------------------------------------


def places(words: Words, order: list[int], below: set[int]) -> np.ndarray:
    """Coordinates of the nodes [N, 2]: leaves in a row in this order, merges halfway between their children, at their
    height above the row, or below it for nodes in `below`."""
    graph = words.graph
    place = np.zeros((graph.n_nodes, 2))
    x = 0.0
    for leaf in order:
        width = LETTER * len(words.phrase[leaf])
        place[leaf, 0] = x + width / 2
        x += width + GAP
    height = np.repeat(np.arange(len(graph.levels) - 1), np.diff(graph.levels))
    for node in range(graph.n_leaves, graph.n_nodes):
        place[node, 0] = place[children_of(graph, node), 0].mean()
        place[node, 1] = ROW * (-height[node] - 0.15 if node in below else height[node] + 0.15)
    return place


def edges_of(graph: Graph) -> np.ndarray:
    """(child, parent) [2M, 2]."""
    parents = np.repeat(np.arange(graph.n_leaves, graph.n_nodes), 2)
    return np.column_stack([graph.children.ravel(), parents])


def disorder(words: Words, order: list[int], below: set[int], forest: Forest) -> float:
    """How hard a drawing is to read: crossings, lines through other nodes, reversed merges and sentences, and the
    length of the lines."""
    place, edges = places(words, order, below), edges_of(words.graph)
    a, b = place[edges[:, 0]], place[edges[:, 1]]
    length = np.linalg.norm(b - a, axis=1).sum()
    crossings = sum(_cross(a[i], b[i], a[j], b[j]) for i, j in combinations(range(len(edges)), 2))
    numbers = place[words.graph.root] + [[0, -NUMBER if root in below else NUMBER] for root in words.graph.root]
    crowded = _crowded(place, edges, place) + _crowded(place, edges, numbers)
    inverted = int((np.diff(place[words.graph.children, 0], axis=1) < 0).sum())
    inner = place[words.graph.n_leaves :]
    gaps = np.linalg.norm(inner[:, None] - inner, axis=2)[np.triu_indices(len(inner), 1)]
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    backwards = 0
    for start, end in zip(forest.offsets[:-1], forest.offsets[1:], strict=True):
        backwards += int((np.diff(rank[words.graph.node_of[start:end]]) < 0).sum())
    touching = int((gaps < 0.4).sum())
    return 30 * touching + 6 * crowded + 3 * crossings + 6 * inverted + 1.5 * backwards + 0.1 * float(length)


def _cross(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
    """Whether the segments ab and cd cross, other than in a common end."""
    if any(p[0] == q[0] and p[1] == q[1] for p in (a, b) for q in (c, d)):
        return False

    def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> bool:
        return bool((q[0] - p[0]) * (r[1] - p[1]) > (q[1] - p[1]) * (r[0] - p[0]))

    return side(a, b, c) != side(a, b, d) and side(c, d, a) != side(c, d, b)


def _crowded(place: np.ndarray, edges: np.ndarray, points: np.ndarray) -> int:
    """How often a line passes closer than a dot to a point that is not its end."""
    a, b = place[edges[:, 0]], place[edges[:, 1]]
    way = (b - a)[:, None]
    along = np.clip(((points[None] - a[:, None]) * way).sum(2) / (way**2).sum(2), 0, 1)
    distance = np.linalg.norm(a[:, None] + along[:, :, None] * way - points[None], axis=2)
    is_end = (points[None] == a[:, None]).all(2) | (points[None] == b[:, None]).all(2)
    return int(((distance < 0.2) & ~is_end).sum())


def best_order(words: Words, below: set[int], forest: Forest, starts: int = 5) -> list[int]:
    """An order of leaves with little disorder: local search by moves and swaps, from several random orders."""
    rng = np.random.default_rng(0)
    found: list[tuple[float, list[int]]] = []
    for start in range(starts):
        seen = dict.fromkeys(words.graph.node_of[: len(forest.tokens)].tolist())
        order = list(seen) if start == 0 else rng.permutation(list(seen)).tolist()
        cost, better = disorder(words, order, below, forest), True
        while better:
            better = False
            for i, j in product(range(len(order)), repeat=2):
                for moved in _moves(order, i, j):
                    moved_cost = disorder(words, moved, below, forest)
                    if moved_cost < cost - 1e-9:
                        order, cost, better = moved, moved_cost, True
        found.append((cost, order))
    return min(found)[1]


def _moves(order: list[int], i: int, j: int) -> tuple[list[int], list[int]]:
    """The order with leaf i moved to position j, and with leaves i and j swapped."""
    moved, swapped = order.copy(), order.copy()
    moved.insert(j, moved.pop(i))
    swapped[i], swapped[j] = order[j], order[i]
    return moved, swapped


# --- Trees and the entangled graph -----------------------------------------------------------------------------------


def draw_graph(axes: Axes, words: Words, order: list[int], below: set[int], highlight: bool) -> None:
    """Draw a graph. With highlight, nodes that occur more than once are blue."""
    graph, place = words.graph, places(words, order, below)
    for child, parent in edges_of(graph):
        (x0, y0), (x1, y1) = place[child], place[parent]
        if child < graph.n_leaves:  # end the line above or below the word
            y0 += 0.2 * np.sign(y1)
        axes.plot([x0, x1], [y0, y1], color=INK, linewidth=1.4, solid_capstyle="round", zorder=1)
    for node in range(graph.n_nodes):
        shared = highlight and words.occurrences[node] > 1
        if node < graph.n_leaves:
            box = {"boxstyle": "round,pad=0.18", "facecolor": BLUE if shared else "white", "edgecolor": "none"}
            x, y = place[node]
            colour = "white" if shared else INK
            axes.text(x, y, words.phrase[node], ha="center", va="center", fontsize=11, color=colour, bbox=box, zorder=3)
        else:
            axes.plot(*place[node], "o", color=BLUE if shared else INK, markersize=9 if shared else 5, zorder=3)
    for number, root in enumerate(graph.root.tolist()):
        direction = -1 if root in below else 1
        name = chr(ord("①") + number) if highlight else ""
        axes.text(place[root, 0], place[root, 1] + NUMBER * direction, name, ha="center", va="center", fontsize=14,
                  color=VERMILION)  # fmt: skip
    axes.axis("off")
    axes.set(xlim=(place[:, 0].min() - 0.8, place[:, 0].max() + 0.8))
    axes.set(ylim=(place[:, 1].min() - 0.6, place[:, 1].max() + 0.6))


def draw_entangling(model: Banyan) -> Figure:
    from matplotlib.figure import Figure

    forest = forest_of(model, SENTENCES)
    figure = Figure(figsize=(12, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.45))[0]
    left.suptitle("Three sentences, three trees", fontsize=12)
    panels = left.subplots(len(SENTENCES), 1)
    for number, axes in enumerate(panels):
        alone = part(forest, number, number + 1)
        words = words_of(model, disentangled(alone), alone)
        draw_graph(axes, words, words.graph.node_of[: len(alone.tokens)].tolist(), set(), highlight=False)
        axes.text(-0.9, 0, chr(ord("①") + number), fontsize=14, color=VERMILION, ha="center", va="center")
    widest, highest = (max(getattr(axes, f"get_{side}lim")()[1] for axes in panels) for side in "xy")
    for axes in panels:  # the same scale for all
        axes.set(xlim=(-1.2, widest), ylim=(-0.5, highest))
    graph = entangle(forest)
    words = words_of(model, graph, forest)
    below = {node for node in range(graph.n_leaves, graph.n_nodes) if words.sentences[node] == {len(SENTENCES) - 1}}
    right.suptitle("One entangled graph: equal spans are one node (blue)", fontsize=12)
    draw_graph(right.subplots(), words, best_order(words, below, forest), below, highlight=True)
    return figure


# --- Messages through a shared node ----------------------------------------------------------------------------------


def shared_node(words: Words) -> int:
    """The longest phrase with at least two parents; a leaf if there is no such phrase."""
    graph = words.graph
    parents = graph.messages.tolist()
    candidates = [node for node in range(graph.n_nodes) if parents[node] > 1 and len(words.sentences[node]) > 1]
    return max(candidates, key=lambda node: (node >= graph.n_leaves, len(words.phrase[node].split()), -node))


def draw_messages(model: Banyan) -> Figure:
    from matplotlib.figure import Figure

    forest = forest_of(model, SENTENCES)
    graph = entangle(forest)
    words = words_of(model, graph, forest)
    figure = Figure(figsize=(12, 5.4), layout="constrained")
    above, beneath = figure.subplots(1, 2)
    _draw_around(above, model, words, upwards=True)
    _draw_around(beneath, model, words, upwards=False)
    above.set_title("Up: composed once, the same in every context", fontsize=12)
    beneath.set_title("Down: one message from each parent, and their mean", fontsize=12)
    figure.supxlabel("cosines are with the up embedding of the blue node", fontsize=9.5, color="#666666")
    return figure


def _draw_around(axes: Axes, model: Banyan, words: Words, upwards: bool) -> None:
    """Draw the shared node, the nodes under it, and its parents with their other children in grey."""
    graph, node = words.graph, shared_node(words)
    up, down = up_and_down(model, graph)
    place = _under(words, node)
    centre = place[node]
    parents = parents_of(graph, node)
    for number, (parent, side) in enumerate(parents):
        colour = (ORANGE, GREEN, VERMILION)[number % 3]
        rank = [s for _, s in parents[:number]].count(side)  # later ones are higher and nearer to the middle
        outwards = np.array([1.0 if side == 0 else -1.0, 1.0])
        place[parent] = centre + outwards * (2.8 - 1.1 * rank, 1.1 + 2.1 * rank)
        _arrow(axes, place, node, parent, upwards, colour)
        other = words.phrase[graph.children[parent - graph.n_leaves, 1 - side]]
        _draw_parent(axes, place[parent], outwards, words.phrase[parent], other)
        if not upwards:
            message = decompose(down[parent].astype(np.float64), model.functions)[side]
            _label(axes, 0.42 * centre + 0.58 * place[parent], f"cosine {_cosine(message, up[node]):.2f}", colour)
    for child, parent in edges_of(graph):
        if child in place and parent in place and (parent, 0) not in parents and (parent, 1) not in parents:
            _arrow(axes, place, child, parent, upwards, BLUE)
    _dots(axes, words, place, node)
    cosine = f"mean of {len(parents)} messages\ncosine {_cosine(down[node], up[node]):.2f}"
    sides = {side for _, side in parents}
    beside = np.array([-1.75, 0]) if sides == {0} else np.array([1.75, 0]) if sides == {1} else np.array([0, -0.6])
    _label(axes, centre + beside, f"“{words.phrase[node]}”\n{'up embedding' if upwards else cosine}", BLUE)
    _frame(axes, place, sides)


def parents_of(graph: Graph, node: int) -> list[tuple[int, int]]:
    """The parents of a node, each with the side on which the node is."""
    return [(int(parent) + graph.n_leaves, int(side)) for parent, side in np.argwhere(graph.children == node)]


def _draw_parent(axes: Axes, at: np.ndarray, outwards: np.ndarray, phrase: str, other: str) -> None:
    aside = at + outwards * (1.0, -0.75)
    axes.plot(*np.column_stack([at, aside + np.array([0, 0.17])]), color="#cccccc", linewidth=1.4, zorder=1)
    side = "left" if outwards[0] > 0 else "right"
    x, y = at + outwards * (0.25, 0.08)
    axes.text(x, y, f"“{phrase}”", ha=side, va="bottom", fontsize=10, color=INK)
    x, y = aside - outwards * (0.4, 0)
    axes.text(x, y, other, ha=side, va="center", fontsize=10, color="#777777")


def _under(words: Words, node: int) -> dict[int, np.ndarray]:
    """Coordinates of a node and of all nodes under it."""
    graph = words.graph
    spread: dict[int, np.ndarray] = {}
    leaves: list[int] = []

    def put(n: int) -> float:
        if n < graph.n_leaves:
            leaves.append(n)
            x = 1.5 * len(leaves)
            y = 0.0
        else:
            x = float(np.mean([put(child) for child in children_of(graph, n)]))
            y = 1.5 + 0.9 * (int(np.searchsorted(graph.levels, n, side="right")) - 2)
        spread[n] = np.array([x, y])
        return x

    put(node)
    return spread


def _arrow(axes: Axes, place: dict[int, np.ndarray], child: int, parent: int, upwards: bool, colour: str) -> None:
    ends = (place[child], place[parent]) if upwards else (place[parent], place[child])
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 2, "shrinkA": 9, "shrinkB": 9, "mutation_scale": 16}
    axes.annotate("", xy=tuple(ends[1]), xytext=tuple(ends[0]), arrowprops=style, zorder=2)


def _dots(axes: Axes, words: Words, place: dict[int, np.ndarray], node: int) -> None:
    for at, point in place.items():
        if at < words.graph.n_leaves:
            box: dict[str, Any] = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none"}
            if at == node:
                box["facecolor"] = BLUE
            (x, y), colour = point, "white" if at == node else INK
            axes.text(x, y, words.phrase[at], ha="center", va="center", fontsize=12, color=colour, bbox=box, zorder=3)
        else:
            axes.plot(*point, "o", color=BLUE if at == node else INK, markersize=13 if at == node else 7, zorder=3)


def _label(axes: Axes, point: np.ndarray, text: str, colour: str) -> None:
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": colour, "linewidth": 1}
    x, y = point
    axes.text(x, y, text, ha="center", va="center", fontsize=10, color=INK, bbox=box, zorder=4)


def _frame(axes: Axes, place: dict[int, np.ndarray], sides: set[int]) -> None:
    points = np.array(list(place.values()))
    left, right = (4.2 if side in sides else 1.6 for side in (1, 0))
    axes.set(xlim=(points[:, 0].min() - left, points[:, 0].max() + right))
    axes.set(ylim=(points[:, 1].min() - 0.4, points[:, 1].max() + 0.6))
    axes.axis("off")


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms > 0 else 0.0
