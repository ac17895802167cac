"""The paper's listing in plain NumPy, float64. Read it beside the paper.

Algorithm 1 and its greedy form per sentence, Equations 1 to 4, the mean over parents, the loss, and the gradient of
every parameter. Every back end is tested against this file. Nothing here is fast.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from banyan.model.dropout import (
    LEAF,
    LEFT_MESSAGE,
    NO_DROPOUT,
    NODE,
    RIGHT_MESSAGE,
    Dropout,
    leaf_key,
    node_key,
    occurrence_key,
)
from banyan.model.functions import Functions, Vector, back_through, per_channel, through
from banyan.model.graph import Forest, Graph
from banyan.model.structure import Span, score, similarity


def compose(left: Vector, right: Vector, f: Functions) -> Vector:
    """Equation 3 (diagonal) or 1 (linear)."""
    return through(f.comp_l, left) + through(f.comp_r, right) + per_channel(f.comp_b, left.shape[-1])


def decompose(parent: Vector, f: Functions) -> tuple[Vector, Vector]:
    """Equation 4 (diagonal) or 2 (linear)."""
    E = parent.shape[-1]
    left = through(f.decomp_l, parent) + per_channel(f.decomp_lb, E)
    right = through(f.decomp_r, parent) + per_channel(f.decomp_rb, E)
    return left, right


# --- Structure -------------------------------------------------------------------------------------------------------


def greedy(
    tokens: np.ndarray,
    offsets: np.ndarray,
    embedding: Vector,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
    plain: bool = False,
    structure: str = "induced",
) -> Forest:
    """Merge, in each sentence, the most similar adjacent pair (or the one that `structure` prefers) until one node is
    left. Ties go to the leftmost pair. In plain trees every occurrence has its own dropout mask.
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
    """Algorithm 1: one frontier over all sentences; the most similar pair merges wherever it occurs.

    As printed it needs three repairs: pairs never cross sentences; overlapping repeats ("a a a") merge from the left;
    it stops when every sentence's frontier is one node. A node is identified by (left id, right id).
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
    """Make equal nodes of all sentences one node."""
    token, leaf = np.unique(forest.tokens, return_inverse=True)
    node_of = [int(i) for i in leaf]
    known: dict[tuple[int, int], int] = {}
    for left, right in forest.children:
        pair = node_of[left], node_of[right]
        node_of.append(known.setdefault(pair, len(token) + len(known)))
    return _graph(token, list(known), [node_of[r] for r in forest.root], np.array(node_of))


def _graph(token: np.ndarray, children: list[tuple[int, int]], root: list[int], node_of: np.ndarray) -> Graph:
    """Number the inner nodes by height, and within a height in the order they were made."""
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
    """The embedding of every node on the way down [N, E]: the mean of its messages, one per (distinct parent, side). A
    root that is inside no other tree keeps its up embedding."""
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
    """The mean over reconstructed leaves, and the gradient with respect to the logits [L, V]."""
    logits = rebuilt @ weight.T + bias
    log_p = logits - logits.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    rows = np.arange(len(target))
    g_logits = np.exp(log_p)
    g_logits[rows, target] -= 1
    return -log_p[rows, target].mean(), g_logits / len(target)


def loss_and_gradients(
    graph: Graph,
    embedding: Vector,
    f: Functions,
    weight: Vector,
    bias: Vector,
    dropout: Dropout = NO_DROPOUT,
) -> tuple[float, dict[str, Vector]]:
    """Cross-entropy of the reconstructed leaves, once per distinct token, and its gradient for every parameter."""
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
