"""The model as the paper states it, in plain NumPy float64: read it beside the paper.

Algorithm 1 and the per-sentence greedy form, Equations 1 to 4, the mean over parents, the loss, and the gradient of
every weight. Every fast version in backends/ is tested against this file. Nothing here is fast.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from banyan.graph import Forest, Graph

Vector = np.ndarray
Bits = TypeVar("Bits", int, np.ndarray)


class Functions(NamedTuple):
    """What all K channels share. Diagonal (Equations 3 and 4): seven vectors [U], four of them gates, before their
    sigmoid. Linear (Equations 1 and 2, the predecessor's): the gates are matrices [U, U]."""

    comp_l: Vector  # Φl
    comp_r: Vector  # Φr
    comp_b: Vector  # φ
    decomp_l: Vector  # Θl
    decomp_r: Vector  # Θr
    decomp_lb: Vector  # θl
    decomp_rb: Vector  # θr


GATES = ("comp_l", "comp_r", "decomp_l", "decomp_r")  # the others are biases


def sigmoid(x: Vector) -> Vector:
    return (1 + np.tanh(x / 2)) / 2


def per_channel(vector: Vector, E: int) -> Vector:
    """Entry u of channel k stands at k·U+u, so a U-wide vector repeats K times."""
    return np.tile(vector, E // len(vector))


def through(gate: Vector, x: Vector) -> Vector:
    """Each channel of x [..., E] times the sigmoid of a vector, or times a matrix."""
    if gate.ndim == 1:
        return x * per_channel(sigmoid(gate), x.shape[-1])
    return (x.reshape(-1, len(gate)) @ gate).reshape(x.shape)


def compose(left: Vector, right: Vector, f: Functions) -> Vector:
    """Equation 3, or 1."""
    return through(f.comp_l, left) + through(f.comp_r, right) + per_channel(f.comp_b, left.shape[-1])


def decompose(parent: Vector, f: Functions) -> tuple[Vector, Vector]:
    """Equation 4, or 2."""
    E = parent.shape[-1]
    left = through(f.decomp_l, parent) + per_channel(f.decomp_lb, E)
    right = through(f.decomp_r, parent) + per_channel(f.decomp_rb, E)
    return left, right


def similarity(a: Vector, b: Vector, same: bool) -> float:
    """Cosine; equal nodes score exactly 1, all others are clamped to 1, a zero vector scores 0."""
    if same:
        return 1.0
    norms = np.sqrt(a @ a) * np.sqrt(b @ b)
    return min(a @ b / norms, 1.0) if norms > 0 else 0.0


# --- Dropout: a mask is a function of (seed, step, place, key), so equal spans stay equal within a step -------------

LEAF, NODE, LEFT_MESSAGE, RIGHT_MESSAGE = range(4)  # the places
_64, _32 = (1 << 64) - 1, (1 << 32) - 1


def mix(x: Bits) -> Bits:
    """Scramble 64 bits (the finaliser of SplitMix64), of one number or of an array of uint64."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _64
    return x ^ x >> 31


def leaf_key(token: int) -> int:
    return mix(token + 0x9E3779B97F4A7C15 & _64)


def node_key(left: int, right: int) -> int:
    return mix(left * 0x9E3779B97F4A7C15 + right & _64)


def occurrence_key(key: int, occurrence: int) -> int:
    return mix((key ^ occurrence * 0xD1342543DE82EF95) & _64)


class Dropout(NamedTuple):
    rate: float
    seed: int = 0
    step: int = 0
    leaf_rate: float | None = None  # the rate of leaves; None: as everywhere

    def rate_at(self, place: int) -> float:
        return self.leaf_rate if place == LEAF and self.leaf_rate is not None else self.rate

    def stream(self, place: int) -> int:
        return mix(mix(mix(self.seed) + self.step & _64) + place & _64)

    def mask(self, place: int, key: int, E: int) -> Vector:
        """0 where dropped, 1/(1-rate) where kept."""
        rate = self.rate_at(place)
        state = mix(key ^ self.stream(place))
        low, high = state & _32, state >> 32 | 1
        kept = np.empty(E)
        for j in range(E):
            x = low + j * high & _32  # then the finaliser of Murmur3
            x = (x ^ x >> 16) * 0x85EBCA6B & _32
            x = (x ^ x >> 13) * 0xC2B2AE35 & _32
            kept[j] = (x ^ x >> 16) >= int(rate * 2**32)
        return kept / (1 - rate)


NO_DROPOUT = Dropout(0.0)


# --- Structure -------------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """A node of a frontier."""

    node: int
    key: int
    vector: Vector
    first: int  # its tokens in the batch
    last: int


def score(a: Span, b: Span, structure: str) -> float:
    """The neighbours that score highest merge. All but "induced" ask no vector."""
    if structure == "induced":
        return similarity(a.vector, b.vector, a.key == b.key)
    if structure == "random":
        return node_key(a.key, b.key) >> 33  # the same wherever the span occurs
    if structure == "balanced":
        return a.first - b.last  # the fewest tokens first
    assert structure == "right-branching", structure
    return a.first


def greedy(
    tokens: np.ndarray,
    offsets: np.ndarray,
    embedding: Vector,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
    plain: bool = False,
    structure: str = "induced",
) -> Forest:
    """Per sentence, again and again, the most similar adjacent pair (or what else `structure` wants) merges; among
    equals the leftmost. In plain trees each occurrence has a dropout mask of its own.
    """

    def dropped(vector: Vector, place: int, key: int, occurrence: int) -> Vector:
        return vector * dropout.mask(place, occurrence_key(key, occurrence) if plain else key, len(vector))

    T = len(tokens)
    children: list[tuple[int, int]] = []
    for start, end in pairwise(offsets):
        frontier = []
        for i in range(start, end):
            key = leaf_key(int(tokens[i]))
            frontier.append(Span(i, key, dropped(embedding[tokens[i]], LEAF, key, i), i, i + 1))
        while len(frontier) > 1:
            i = int(np.argmax([score(a, b, structure) for a, b in pairwise(frontier)]))  # the first of equals
            a, b = frontier[i : i + 2]
            node, key = T + len(children), node_key(a.key, b.key)
            parent = dropped(compose(a.vector, b.vector, f), NODE, key, node)
            frontier[i : i + 2] = [Span(node, key, parent, a.first, b.last)]
            children.append((a.node, b.node))
    return Forest(tokens, offsets, np.array(children, np.int32).reshape(-1, 2))


def algorithm_1(tokens: np.ndarray, offsets: np.ndarray, embedding: Vector, f: Functions) -> Graph:
    """Algorithm 1: one frontier over all sentences; the closest pair merges wherever it occurs.

    As printed it needs three repairs: no merge across sentences; overlapping repeats ("a a a") are taken from the
    left; it stops when every sentence's frontier is one node. Node identity is (left id, right id).
    """
    token, leaf = np.unique(tokens, return_inverse=True)
    vector = [embedding[t] for t in token]  # e, by node
    known: dict[tuple[int, int], int] = {}  # V and E: (left, right) -> parent
    frontiers = [list(leaf[s:e]) for s, e in pairwise(offsets)]
    while any(len(frontier) > 1 for frontier in frontiers):
        pairs = [pair for frontier in frontiers for pair in pairwise(frontier)]
        scores = [similarity(vector[i], vector[j], i == j) for i, j in pairs]
        closest = pairs[int(np.argmax(scores))]
        if closest not in known:
            known[closest] = len(vector)
            vector.append(compose(vector[closest[0]], vector[closest[1]], f))
        for frontier in frontiers:
            j = 0
            while j < len(frontier) - 1:
                if (frontier[j], frontier[j + 1]) == closest:
                    frontier[j : j + 2] = [known[closest]]
                j += 1
    return _graph(token, list(known), [frontier[0] for frontier in frontiers], np.empty(0, np.int32))


def entangle(forest: Forest) -> Graph:
    """Equal nodes of all sentences become one."""
    token, leaf = np.unique(forest.tokens, return_inverse=True)
    node_of = [int(i) for i in leaf]
    known: dict[tuple[int, int], int] = {}
    for left, right in forest.children:
        pair = node_of[left], node_of[right]
        node_of.append(known.setdefault(pair, len(token) + len(known)))
    return _graph(token, list(known), [node_of[r] for r in forest.root], np.array(node_of))


def _graph(token: np.ndarray, children: list[tuple[int, int]], root: list[int], node_of: np.ndarray) -> Graph:
    """Number the inner nodes by height (and, within a height, as they were made)."""
    L = len(token)
    height = [0] * L
    key = [leaf_key(int(t)) for t in token]
    for left, right in children:
        height.append(1 + max(height[left], height[right]))
        key.append(node_key(key[left], key[right]))
    order = np.argsort(height, kind="stable")
    new = np.empty(len(order), np.int32)
    new[order] = np.arange(len(order))
    by_height = new[np.array(children, np.int64).reshape(-1, 2)[order[L:] - L]]
    levels = np.concatenate([[0], np.cumsum(np.bincount(height))])
    return Graph(token, by_height, new[root], levels, np.array(key, np.uint64)[order], new[node_of])


# --- Both passes, the loss, and the gradients ------------------------------------------------------------------------


def up_pass(graph: Graph, leaves: Vector, f: Functions, dropout: Dropout = NO_DROPOUT) -> Vector:
    """The embedding of every node on the way up [N, E]."""
    up = [leaf * dropout.mask(LEAF, int(key), len(leaf)) for leaf, key in zip(leaves, graph.key, strict=False)]
    for (left, right), key in zip(graph.children, graph.key[graph.n_leaves :], strict=True):
        up.append(compose(up[left], up[right], f) * dropout.mask(NODE, int(key), leaves.shape[1]))
    return np.array(up)


def down_pass(graph: Graph, up: Vector, f: Functions, dropout: Dropout = NO_DROPOUT) -> Vector:
    """The embedding of every node on the way down [N, E]: the mean of the messages it gets, one per (distinct
    parent, side); a root that no tree contains keeps its own."""
    E = up.shape[1]
    messages: list[list[Vector]] = [[] for _ in range(graph.n_nodes)]
    down = up.copy()
    for node in reversed(range(graph.n_nodes)):
        if messages[node]:
            down[node] = np.mean(messages[node], axis=0)
        if node >= graph.n_leaves:
            left, right = graph.children[node - graph.n_leaves]
            to_left, to_right = decompose(down[node], f)
            messages[left].append(to_left * dropout.mask(LEFT_MESSAGE, int(graph.key[node]), E))
            messages[right].append(to_right * dropout.mask(RIGHT_MESSAGE, int(graph.key[node]), E))
    return down


def cross_entropy(rebuilt: Vector, target: np.ndarray, weight: Vector, bias: Vector) -> tuple[float, Vector]:
    """The mean over rebuilt leaves, and the gradient by the logits [L, V]."""
    logits = rebuilt @ weight.T + bias
    log_p = logits - logits.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    rows = np.arange(len(target))
    g_logits = np.exp(log_p)
    g_logits[rows, target] -= 1
    return -log_p[rows, target].mean(), g_logits / len(target)


def back_through(gate: Vector, x: Vector, g: Vector) -> tuple[Vector, Vector, Vector]:
    """From the gradient g by `through(gate, x) + bias` [E], those by x, by the gate and by the bias."""
    U = len(gate)
    x_k, g_k = x.reshape(-1, U), g.reshape(-1, U)  # one row per channel
    if gate.ndim == 1:
        s = sigmoid(gate)
        return through(gate, g), (g_k * x_k).sum(0) * s * (1 - s), g_k.sum(0)
    return through(gate.T, g), x_k.T @ g_k, g_k.sum(0)


def loss_and_gradients(
    graph: Graph,
    embedding: Vector,
    f: Functions,
    weight: Vector,
    bias: Vector,
    dropout: Dropout = NO_DROPOUT,
) -> tuple[float, dict[str, Vector]]:
    """Cross-entropy of the rebuilt leaves, once per distinct token, and its gradient by every weight."""
    E, L = embedding.shape[1], graph.n_leaves
    up = up_pass(graph, embedding[graph.token], f, dropout)
    down = down_pass(graph, up, f, dropout)
    loss, g_logits = cross_entropy(down[:L], graph.token, weight, bias)

    gradients = {name: np.zeros_like(value) for name, value in f._asdict().items()}
    g_down, g_up = np.zeros_like(down), np.zeros_like(up)
    g_down[:L] = g_logits @ weight
    for node in range(L, graph.n_nodes):  # back up along the messages
        for child, side, place in zip(graph.children[node - L], "lr", (LEFT_MESSAGE, RIGHT_MESSAGE), strict=True):
            g_message = g_down[child] / graph.messages[child] * dropout.mask(place, int(graph.key[node]), E)
            gate = f"decomp_{side}"
            g_parent, g_gate, g_bias = back_through(getattr(f, gate), down[node], g_message)
            gradients[gate] += g_gate
            gradients[gate + "b"] += g_bias
            g_down[node] += g_parent
    roots = graph.messages == 0
    g_up[roots] = g_down[roots]
    for node in reversed(range(L, graph.n_nodes)):  # back down along the compositions
        g_sum = g_up[node] * dropout.mask(NODE, int(graph.key[node]), E)
        for child, gate in zip(graph.children[node - L], ("comp_l", "comp_r"), strict=True):
            g_child, g_gate, g_bias = back_through(getattr(f, gate), up[child], g_sum)
            gradients[gate] += g_gate
            g_up[child] += g_child
        gradients["comp_b"] += g_bias  # once: left and right share it

    gradients["embedding"] = np.zeros_like(embedding)
    for leaf, token in enumerate(graph.token):
        gradients["embedding"][token] += g_up[leaf] * dropout.mask(LEAF, int(graph.key[leaf]), E)
    gradients["out_weight"] = g_logits.T @ down[:L]
    gradients["out_bias"] = g_logits.sum(0)
    return float(loss), gradients
