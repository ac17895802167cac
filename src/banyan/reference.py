"""The paper's listing in plain NumPy, float64. Read it beside the paper.

Algorithm 1 and its greedy form per sentence, Equations 1 to 4, the mean over parents, both losses, and the gradient of
every parameter. Every back end is tested against this file. Nothing here is fast.

The halves of a decomposition: in entangled trees, the first goes to the left child. In Self-StrAE's plain trees, it
goes to the older child: leaves from left to right are older than merges, and merges are numbered in the order they were
made.

Neighbours with equal keys score exactly 1, in plain trees too, although the masks of their occurrences differ there and
the authors' program compares the masked vectors. The rule then is the same in training and in encoding, and dropout
never separates a repeat. It concerns few merges: docs/experiments.md counts them.
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

MESSAGES = (LEFT_MESSAGE, RIGHT_MESSAGE)  # where dropout masks the first and the second half of a decomposition
SCALE = np.exp(0.2)  # of the cosines in the contrastive loss: Self-StrAE's temperature, which is not learned


def compose(left: Vector, right: Vector, f: Functions) -> Vector:
    """Equation 3 (diagonal) or 1 (linear)."""
    return through(f.comp_l, left) + through(f.comp_r, right) + per_channel(f.comp_b, left.shape[-1])


def decompose(parent: Vector, f: Functions) -> tuple[Vector, Vector]:
    """Equation 4 (diagonal) or 2 (linear): the two halves. Graph.receivers says which child gets which."""
    E = parent.shape[-1]
    first = through(f.decomp_l, parent) + per_channel(f.decomp_lb, E)
    second = through(f.decomp_r, parent) + per_channel(f.decomp_rb, E)
    return first, second


# --- Structure -------------------------------------------------------------------------------------------------------


def greedy(
    tokens: np.ndarray,
    offsets: np.ndarray,
    embedding: Vector,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
    plain: bool = False,
    structure: str = "induced",
    joined: np.ndarray | None = None,
) -> Forest:
    """Merge, in each sentence, the most similar adjacent pair (or the one that `structure` prefers) until one node is
    left. Ties go to the leftmost pair. In plain trees every occurrence has its own dropout mask.

    joined: tokens that are in one word with the token before [T]. If given, pairs within words merge first.
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
            scores = np.array([float(score(a, b, structure)) for a, b in pairwise(frontier)])
            inside = np.array([joined is not None and joined[b.first] for b in frontier[1:]])
            may_merge = inside if inside.any() else ~inside
            i = int(np.argmax(np.where(may_merge, scores, -np.inf)))  # the first of equals
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
    roots = [frontier[0] for frontier in frontiers]
    return _graph(token, _keys(token, list(known)), list(known), list(known), roots, np.empty(0, np.int32))


def entangle(forest: Forest) -> Graph:
    """Make equal nodes of all sentences one node."""
    token, leaf = np.unique(forest.tokens, return_inverse=True)
    node_of = [int(i) for i in leaf]
    known: dict[tuple[int, int], int] = {}
    for left, right in forest.children:
        pair = node_of[left], node_of[right]
        node_of.append(known.setdefault(pair, len(token) + len(known)))
    pairs, root = list(known), [node_of[r] for r in forest.root]
    return _graph(token, _keys(token, pairs), pairs, pairs, root, np.array(node_of))


def disentangle(forest: Forest, halves: str = "side") -> Graph:
    """Plain trees, as in Self-StrAE: every occurrence is a node of its own. halves: as in the settings."""
    pairs = [(int(left), int(right)) for left, right in forest.children]
    key = [occurrence_key(key, node) for node, key in enumerate(_keys(forest.tokens, pairs))]
    receivers = pairs
    if halves == "age":  # a forest numbers its nodes in the order they were made
        receivers = [(min(pair), max(pair)) for pair in pairs]
    elif halves == "random":
        own = key[len(forest.tokens) :]
        receivers = [pair[::-1] if key & 1 else pair for pair, key in zip(pairs, own, strict=True)]
    return _graph(forest.tokens, key, pairs, receivers, forest.root.tolist(), np.arange(len(key)))


def _keys(token: np.ndarray, children: list[tuple[int, int]]) -> list[int]:
    key = [leaf_key(int(t)) for t in token]
    for left, right in children:
        key.append(node_key(key[left], key[right]))
    return key


def _graph(
    token: np.ndarray,
    key: list[int],
    children: list[tuple[int, int]],
    receivers: list[tuple[int, int]],
    root: list[int],
    node_of: np.ndarray,
) -> Graph:
    """Number the inner nodes by height, and within a height in the order they were made."""
    L = len(token)
    height = [0] * L
    for left, right in children:
        height.append(1 + max(height[left], height[right]))
    order = np.argsort(height, kind="stable")
    new = np.empty(len(order), np.int32)
    new[order] = np.arange(len(order))

    def by_height(pairs: list[tuple[int, int]]) -> np.ndarray:
        return new[np.array(pairs, np.int64).reshape(-1, 2)[order[L:] - L]]

    levels = np.concatenate([[0], np.cumsum(np.bincount(height))])
    own_key = np.array(key, np.uint64)[order]
    return Graph(token, by_height(children), new[root], levels, own_key, new[node_of], by_height(receivers))


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
            halves = decompose(down[node], f)
            for child, half, place in zip(graph.receivers[node - graph.n_leaves], halves, MESSAGES, strict=True):
                messages[child].append(half * dropout.mask(place, int(graph.key[node]), E))
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
    L = graph.n_leaves
    up = up_pass(graph, embedding[graph.token], f, dropout)
    down = down_pass(graph, up, f, dropout)
    loss, g_logits = cross_entropy(down[:L], graph.token, weight, bias)
    g_down = np.zeros_like(down)
    g_down[:L] = g_logits @ weight
    gradients = _back(graph, embedding, f, up, down, np.zeros_like(up), g_down, dropout)
    gradients["out_weight"] = g_logits.T @ down[:L]
    gradients["out_bias"] = g_logits.sum(0)
    return float(loss), gradients


def contrastive(up: Vector, down: Vector) -> tuple[float, Vector, Vector]:
    """Self-StrAE's loss: each up vector must find its node among all down vectors, and each down vector among all up
    vectors. The mean over nodes and both directions, and the gradients with respect to up and down [N, E]."""
    N, norms = len(up), [np.linalg.norm(rows, axis=1, keepdims=True) for rows in (up, down)]
    a, b = up / norms[0], down / norms[1]
    p = np.exp(SCALE * a @ b.T)
    by_row, by_column = p / p.sum(1, keepdims=True), p / p.sum(0)
    loss = -np.log(np.diag(by_row) * np.diag(by_column)).mean() / 2
    g = SCALE * ((by_row + by_column) / 2 - np.eye(N)) / N
    g_a, g_b = g @ b, g.T @ a
    g_up = (g_a - a * (a * g_a).sum(1, keepdims=True)) / norms[0]
    g_down = (g_b - b * (b * g_b).sum(1, keepdims=True)) / norms[1]
    return float(loss), g_up, g_down


def contrastive_loss_and_gradients(
    graph: Graph, embedding: Vector, f: Functions, dropout: Dropout = NO_DROPOUT
) -> tuple[float, dict[str, Vector]]:
    """The contrastive loss over all nodes, and its gradient for every parameter."""
    up = up_pass(graph, embedding[graph.token], f, dropout)
    down = down_pass(graph, up, f, dropout)
    loss, g_up, g_down = contrastive(up, down)
    return loss, _back(graph, embedding, f, up, down, g_up, g_down, dropout)


def _back(
    graph: Graph,
    embedding: Vector,
    f: Functions,
    up: Vector,
    down: Vector,
    g_up: Vector,
    g_down: Vector,
    dropout: Dropout,
) -> dict[str, Vector]:
    """The gradients of the embedding and the functions, from those of every node. Overwrites g_up and g_down."""
    E, L = embedding.shape[1], graph.n_leaves
    gradients = {name: np.zeros_like(value) for name, value in f._asdict().items()}
    for node in range(L, graph.n_nodes):  # back up along the messages
        for child, gate, place in zip(graph.receivers[node - L], ("decomp_l", "decomp_r"), MESSAGES, strict=True):
            g_message = g_down[child] / graph.messages[child] * dropout.mask(place, int(graph.key[node]), E)
            g_parent, g_gate, g_bias = back_through(getattr(f, gate), down[node], g_message)
            gradients[gate] += g_gate
            gradients[gate + "b"] += g_bias
            g_down[node] += g_parent
    roots = graph.messages == 0
    g_up[roots] += g_down[roots]
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
    return gradients
