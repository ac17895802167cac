"""The CPU kernels: what reference.py says, for any number of threads with the same bits.

Each kernel is a plain loop that releases the interpreter lock; parallelism is over sentences (induction) or over
columns (both passes: Equations 3 and 4 never mix columns), through banyan.threads. Sums may be reassociated for
SIMD, so their order is fixed by the compiled code; nothing assumes NaN or infinity away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from banyan import threads
from banyan.graph import Forest, Graph
from banyan.reference import (
    LEAF,
    LEFT_MESSAGE,
    NO_DROPOUT,
    NODE,
    RIGHT_MESSAGE,
    Dropout,
    Functions,
    per_channel,
    sigmoid,
)

COLUMNS = 64  # of one job in the passes: fixed, so that results do not depend on the number of threads
SUMS = {"reassoc", "contract"}

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
OCCURRENCE = np.uint64(0xD1342543DE82EF95)


class Gates(NamedTuple):
    """The seven vectors as the kernels use them: sigmoids taken, repeated over the channels [E]."""

    comp_l: np.ndarray
    comp_r: np.ndarray
    comp_b: np.ndarray
    decomp_l: np.ndarray
    decomp_r: np.ndarray
    decomp_lb: np.ndarray
    decomp_rb: np.ndarray

    @classmethod
    def of(cls, f: Functions, E: int) -> Gates:
        biases = ("comp_b", "decomp_lb", "decomp_rb")
        return cls(*(per_channel(v if n in biases else sigmoid(v), E) for n, v in f._asdict().items()))


class Noise(NamedTuple):
    """A Dropout as the kernels use it."""

    threshold: np.uint32  # 0: no dropout
    scale: float
    leaf: np.uint64
    node: np.uint64
    left: np.uint64
    right: np.uint64

    @classmethod
    def of(cls, dropout: Dropout) -> Noise:
        streams = (np.uint64(dropout.stream(place)) for place in (LEAF, NODE, LEFT_MESSAGE, RIGHT_MESSAGE))
        return cls(np.uint32(int(dropout.rate * 2**32)), 1 / (1 - dropout.rate), *streams)


# --- Keys and masks --------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, inline="always")
def _mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def _leaf_key(token):
    return _mix(np.uint64(token) + GOLDEN)


@njit(cache=True, nogil=True, inline="always")
def _node_key(left, right):
    return _mix(left * GOLDEN + right)


@njit(cache=True, nogil=True, inline="always")
def _occurrence_key(key, occurrence):
    return _mix(key ^ (np.uint64(occurrence) * OCCURRENCE))


@njit(cache=True, nogil=True)
def _drop(rows, i, first, last, key, stream, noise):
    """Apply in place to rows[i, first:last] the mask of those columns. (Rows are named by number in all the inner
    loops: a view of a row costs more than the loop over it.)"""
    if noise.threshold == 0:
        return
    state = _mix(key ^ stream)
    low, high = np.uint32(state), np.uint32(state >> np.uint64(32)) | np.uint32(1)
    zero, scale = rows.dtype.type(0), rows.dtype.type(noise.scale)
    for j in range(first, last):
        x = np.uint32(low + np.uint32(np.uint32(j) * high))
        x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        x = np.uint32((x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        x = x ^ (x >> np.uint32(16))
        rows[i, j] = rows[i, j] * scale if x >= noise.threshold else zero


@njit(cache=True, nogil=True)
def drop_leaves(leaves, keys, noise):
    """Dropout on the leaves, in place."""
    for i in range(len(leaves)):
        _drop(leaves, i, 0, leaves.shape[1], keys[i], noise.leaf, noise)


@njit(cache=True, nogil=True)
def leaf_keys(tokens, plain):
    """The key of each leaf; in plain trees each occurrence has its own."""
    keys = np.empty(len(tokens), np.uint64)
    for i in range(len(tokens)):
        keys[i] = _leaf_key(tokens[i])
        if plain:
            keys[i] = _occurrence_key(keys[i], i)
    return keys


# --- Induction: greedy() of reference.py, O(n·E + n·log n) a sentence -------------------------------------------------


@njit(cache=True, nogil=True, fastmath=SUMS)
def _dot(rows, a, b):
    total = rows.dtype.type(0)
    for j in range(rows.shape[1]):
        total += rows[a, j] * rows[b, j]
    return total


@njit(cache=True, nogil=True)
def norms(rows):
    out = np.empty(len(rows), rows.dtype)
    for i in range(len(rows)):
        out[i] = np.sqrt(_dot(rows, i, i))
    return out


@njit(cache=True, nogil=True)
def _similarity(rows, norm, key, a, b):
    one = rows.dtype.type(1)
    if key[a] == key[b]:
        return one
    both = norm[a] * norm[b]
    if both == 0:
        return rows.dtype.type(0)
    cosine = _dot(rows, a, b) / both
    if cosine != cosine:  # an overflow upstream: last in line, but still a pair
        return rows.dtype.type(-2)
    return min(cosine, one)


@njit(cache=True, nogil=True, inline="always")
def _match(best, scores, at):
    left, right = best[2 * at], best[2 * at + 1]
    best[at] = left if scores[left] >= scores[right] else right


@njit(cache=True, nogil=True, inline="always")
def _play(best, scores, i, size):
    """Replay the matches of entry i; best[1] then names the leftmost of the highest scores."""
    at = (i + size) >> 1
    while at > 0:
        _match(best, scores, at)
        at >>= 1


@njit(cache=True, nogil=True, fastmath=SUMS)
def _compose_into(rows, a, b, gates):
    """rows[a] becomes the parent of rows[a] and rows[b]; returns its norm."""
    square = rows.dtype.type(0)
    for j in range(rows.shape[1]):
        parent = rows[a, j] * gates.comp_l[j] + rows[b, j] * gates.comp_r[j] + gates.comp_b[j]
        rows[a, j] = parent
        square += parent * parent
    return np.sqrt(square)


@njit(cache=True, nogil=True)
def _induce_sentence(tokens, first, last, merge_id, leaves, rows, gates, noise, plain, children, similarity, space):
    """Merge sentence first..last in space.work [n, E], where a parent takes its left child's place and the root ends
    in row 0; `children` and `similarity` are written from row 0 on.

    A merge changes only two similarities, and a tournament over all of them finds the next pair in O(log n).
    """
    n, E = last - first, leaves.shape[1]
    work, norm, key, score, node = space.work, space.norm, space.key, space.score, space.node
    after, before, best = space.after, space.before, space.best
    for i in range(n):
        row = rows[first + i]
        for j in range(E):
            work[i, j] = leaves[row, j]
        norm[i] = space.leaf_norms[row]
        key[i] = _leaf_key(tokens[first + i])
        node[i] = first + i
        after[i], before[i] = i + 1, i - 1
    size = 1
    while size < n:
        size *= 2
    for i in range(size):
        best[size + i] = i
        score[i] = _similarity(work, norm, key, i, i + 1) if i < n - 1 else -np.inf
    for at in range(size - 1, 0, -1):
        _match(best, score, at)

    for k in range(n - 1):
        i = best[1]
        j = after[i]
        children[k, 0], children[k, 1] = node[i], node[j]
        similarity[k] = score[i]
        node[i] = merge_id + k
        key[i] = _node_key(key[i], key[j])
        norm[i] = _compose_into(work, i, j, gates)
        if noise.threshold > 0:
            _drop(work, i, 0, E, _occurrence_key(key[i], node[i]) if plain else key[i], noise.node, noise)
            norm[i] = np.sqrt(_dot(work, i, i))
        r, m = after[j], before[i]
        after[i] = r
        score[j] = -np.inf
        _play(best, score, j, size)
        if r < n:
            before[r] = i
            score[i] = _similarity(work, norm, key, i, r)
        else:
            score[i] = -np.inf
        _play(best, score, i, size)
        if m >= 0:
            score[m] = _similarity(work, norm, key, m, i)
            _play(best, score, m, size)


class Space(NamedTuple):
    """Room to work in for sentences of up to n tokens."""

    leaf_norms: np.ndarray  # [L], of all leaves
    work: np.ndarray  # [n, E], the frontier's vectors
    norm: np.ndarray
    key: np.ndarray
    node: np.ndarray
    after: np.ndarray  # the neighbours in the frontier
    before: np.ndarray
    score: np.ndarray  # similarity with the right neighbour
    best: np.ndarray  # the tournament over `score`


@njit(cache=True, nogil=True)
def _induce(tokens, offsets, leaves, rows, leaf_norms, gates, noise, plain, start, end, children, similarity, roots):
    """Sentences start..end of the batch. `children`, `similarity` and `roots` are of the whole batch, each either
    whole or, when nobody wants it, empty."""
    n = 1
    for b in range(start, end):
        n = max(n, offsets[b + 1] - offsets[b])
    space = Space(
        leaf_norms,
        np.empty((n, leaves.shape[1]), leaves.dtype),
        np.empty(n, leaves.dtype),
        np.empty(n, np.uint64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(2 * n, leaves.dtype),
        np.empty(4 * n, np.int32),
    )
    spare = np.empty((n, 2), np.int32), np.empty(n, leaves.dtype)
    for b in range(start, end):
        first, last = offsets[b], offsets[b + 1]
        own_children = children[first - b : last - b - 1] if len(children) else spare[0]
        own_similarity = similarity[first - b : last - b - 1] if len(similarity) else spare[1]
        merge_id = len(tokens) + first - b
        _induce_sentence(
            tokens, first, last, merge_id, leaves, rows, gates, noise, plain, own_children, own_similarity, space
        )
        if len(roots):
            roots[b] = space.work[0]


def _sentence_jobs(offsets: np.ndarray, tokens_per_job: int = 8192) -> list[tuple[int, int]]:
    """Cut a batch into runs of sentences of about equal work."""
    cuts = np.searchsorted(offsets, np.arange(tokens_per_job, offsets[-1], tokens_per_job))
    bounds = np.unique(np.concatenate([[0], cuts, [len(offsets) - 1]]))
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


def induce(
    tokens: np.ndarray,
    offsets: np.ndarray,
    leaves: np.ndarray,
    rows: np.ndarray,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
    plain: bool = False,
    n_threads: int | None = None,
) -> tuple[Forest, np.ndarray]:
    """The induced trees of a batch and the similarity at each merge. The vector of position i is leaves[rows[i]],
    already dropped out."""
    T, B = len(tokens), len(offsets) - 1
    children, similarity = np.empty((T - B, 2), np.int32), np.empty(T - B, leaves.dtype)
    gates, noise = _as(leaves.dtype, Gates.of(f, leaves.shape[1])), Noise.of(dropout)
    fixed = (tokens, offsets, leaves, rows, norms(leaves), gates, noise, plain)
    nothing = np.empty((0, leaves.shape[1]), leaves.dtype)
    jobs = [(*fixed, s, e, children, similarity, nothing) for s, e in _sentence_jobs(offsets, 2048)]
    threads.run(_induce, jobs, n_threads)
    return Forest(tokens, offsets, children), similarity


def _as(dtype: np.dtype, gates: Gates) -> Gates:
    return Gates(*(np.ascontiguousarray(gate, dtype) for gate in gates))


class Encoder:
    """Roots of batches of sentences, and nothing else: what inference needs."""

    def __init__(self, embedding: np.ndarray, f: Functions) -> None:
        self.embedding = embedding
        self.gates = _as(embedding.dtype, Gates.of(f, embedding.shape[1]))
        self.norms = norms(embedding)
        self.noise = Noise.of(NO_DROPOUT)

    def roots(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        fixed = (tokens, offsets, self.embedding, tokens, self.norms, self.gates, self.noise, False)
        nothing = (np.empty((0, 2), np.int32), np.empty(0, out.dtype))
        threads.run(_induce, [(*fixed, s, e, *nothing, out) for s, e in _sentence_jobs(offsets)], n_threads)


# --- From forest to graph ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _entangle(key_of_leaf, leaf, children):
    """Distinct inner nodes in the order they are first met: their children, keys, and the node of each occurrence."""
    T, L, M = len(leaf), len(key_of_leaf), len(children)
    node_of = np.empty(T + M, np.int32)
    node_of[:T] = leaf
    pairs = np.empty((M, 2), np.int32)
    key = np.empty(L + M, np.uint64)
    key[:L] = key_of_leaf
    slots = 16
    while slots < 2 * M:
        slots *= 2
    table = np.full(slots, -1, np.int32)
    met = 0
    for m in range(M):
        left, right = node_of[children[m, 0]], node_of[children[m, 1]]
        slot = _node_key(np.uint64(left), np.uint64(right)) & np.uint64(slots - 1)
        while table[slot] >= 0 and (pairs[table[slot], 0] != left or pairs[table[slot], 1] != right):
            slot = (slot + np.uint64(1)) & np.uint64(slots - 1)
        if table[slot] < 0:
            table[slot] = met
            pairs[met, 0], pairs[met, 1] = left, right
            key[L + met] = _node_key(key[left], key[right])
            met += 1
        node_of[T + m] = L + table[slot]
    return pairs[:met], key[: L + met], node_of


@njit(cache=True, nogil=True)
def _renumber(L, pairs, key, node_of):
    """Inner nodes by height and, within a height, in their old order."""
    M = len(pairs)
    height = np.zeros(L + M, np.int32)
    top = 0
    for m in range(M):
        height[L + m] = 1 + max(height[pairs[m, 0]], height[pairs[m, 1]])
        top = max(top, height[L + m])
    levels = np.zeros(top + 2, np.int64)
    for n in range(L + M):
        levels[height[n] + 1] += 1
    for h in range(1, top + 2):
        levels[h] += levels[h - 1]
    free = levels[:-1].copy()
    new = np.empty(L + M, np.int32)
    for n in range(L + M):
        new[n] = free[height[n]]
        free[height[n]] += 1
    children, new_key = np.empty((M, 2), np.int32), np.empty(L + M, np.uint64)
    for n in range(L + M):
        new_key[new[n]] = key[n]
    for m in range(M):
        children[new[L + m] - L, 0] = new[pairs[m, 0]]
        children[new[L + m] - L, 1] = new[pairs[m, 1]]
    for i in range(len(node_of)):
        node_of[i] = new[node_of[i]]
    return children, levels, new_key, node_of


def entangle(token: np.ndarray, leaf: np.ndarray, children: np.ndarray) -> tuple[np.ndarray, ...]:
    """children, levels, key, node_of of the entangled graph whose leaves are the distinct tokens `token`."""
    pairs, key, node_of = _entangle(leaf_keys(token, False), leaf, children)
    return _renumber(len(token), pairs, key, node_of)


@njit(cache=True, nogil=True)
def _occurrence_keys(tokens, children):
    T, M = len(tokens), len(children)
    span, key = np.empty(T + M, np.uint64), np.empty(T + M, np.uint64)
    for n in range(T + M):
        span[n] = _leaf_key(tokens[n]) if n < T else _node_key(span[children[n - T, 0]], span[children[n - T, 1]])
        key[n] = _occurrence_key(span[n], n)
    return key


def by_height(tokens: np.ndarray, children: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same of the plain graph, where every occurrence is a node."""
    T, M = len(tokens), len(children)
    return _renumber(T, children, _occurrence_keys(tokens, children), np.arange(T + M, dtype=np.int32))


# --- Both passes and their gradients, columns first..first+COLUMNS ---------------------------------------------------


@njit(cache=True, nogil=True, fastmath=SUMS)
def _up(children, key, up, gates, noise, first, last):
    """Equation 3 from the leaves (already there) up."""
    L = len(up) - len(children)
    for m in range(len(children)):
        left, right = children[m, 0], children[m, 1]
        for j in range(first, last):
            up[L + m, j] = up[left, j] * gates.comp_l[j] + up[right, j] * gates.comp_r[j] + gates.comp_b[j]
        _drop(up, L + m, first, last, key[L + m], noise.node, noise)


@njit(cache=True, nogil=True, fastmath=SUMS)
def _send(down, parent, child, message, gate, bias, first, last, key, stream, noise):
    for j in range(first, last):
        message[0, j] = down[parent, j] * gate[j] + bias[j]
    _drop(message, 0, first, last, key, stream, noise)
    for j in range(first, last):
        down[child, j] += message[0, j]


@njit(cache=True, nogil=True, fastmath=SUMS)
def _down(children, key, messages, up, down, gates, noise, first, last):
    """Equation 4 from the roots down; a node takes the mean of its messages."""
    L = len(up) - len(children)
    message = np.empty((1, last), up.dtype)
    for n in range(len(up)):
        for j in range(first, last):
            down[n, j] = 0
    for n in range(len(up) - 1, -1, -1):
        if messages[n] == 0:
            for j in range(first, last):
                down[n, j] = up[n, j]
        else:
            share = up.dtype.type(1) / up.dtype.type(messages[n])
            for j in range(first, last):
                down[n, j] *= share
        if n >= L:
            left, right = children[n - L, 0], children[n - L, 1]
            _send(down, n, left, message, gates.decomp_l, gates.decomp_lb, first, last, key[n], noise.left, noise)
            _send(down, n, right, message, gates.decomp_r, gates.decomp_rb, first, last, key[n], noise.right, noise)


@njit(cache=True, nogil=True, fastmath=SUMS)
def _return(g_down, down, parent, child, messages, gate, g, g_gate, g_bias, first, last, key, stream, noise):
    """The gradient of one message, back to its parent."""
    share = down.dtype.type(1) / down.dtype.type(messages)
    for j in range(first, last):
        g[0, j] = g_down[child, j] * share
    _drop(g, 0, first, last, key, stream, noise)
    for j in range(first, last):
        g_gate[j] += g[0, j] * down[parent, j]
        g_bias[j] += g[0, j]
        g_down[parent, j] += g[0, j] * gate[j]


@njit(cache=True, nogil=True, fastmath=SUMS)
def _backward(children, key, messages, up, down, g_up, g_down, g_gates, gates, noise, first, last):
    """Gradients of both passes. g_up and g_down hold the gradients from outside and end as the whole ones; g_gates
    gets those of the gates and biases, one sum per column."""
    L = len(up) - len(children)
    g = np.empty((1, last), up.dtype)
    s = g_gates
    for m in range(len(children)):
        n, left, right = L + m, children[m, 0], children[m, 1]
        gate, count, stream = gates.decomp_l, messages[left], noise.left
        _return(g_down, down, n, left, count, gate, g, s.decomp_l, s.decomp_lb, first, last, key[n], stream, noise)
        gate, count, stream = gates.decomp_r, messages[right], noise.right
        _return(g_down, down, n, right, count, gate, g, s.decomp_r, s.decomp_rb, first, last, key[n], stream, noise)
    for n in range(len(up)):
        if messages[n] == 0:
            for j in range(first, last):
                g_up[n, j] += g_down[n, j]
    for m in range(len(children) - 1, -1, -1):
        n, left, right = L + m, children[m, 0], children[m, 1]
        for j in range(first, last):
            g[0, j] = g_up[n, j]
        _drop(g, 0, first, last, key[n], noise.node, noise)
        for j in range(first, last):
            s.comp_l[j] += g[0, j] * up[left, j]
            s.comp_r[j] += g[0, j] * up[right, j]
            s.comp_b[j] += g[0, j]
        for j in range(first, last):
            g_up[left, j] += g[0, j] * gates.comp_l[j]
        for j in range(first, last):
            g_up[right, j] += g[0, j] * gates.comp_r[j]


def _column_jobs(E: int) -> list[tuple[np.uint64, np.uint64]]:
    """Unsigned, because a column that might be negative (counted from the end) keeps the loops from being SIMD."""
    return [(np.uint64(first), np.uint64(min(first + COLUMNS, E))) for first in range(0, E, COLUMNS)]


def up_pass(graph: Graph, leaves: np.ndarray, f: Functions, dropout: Dropout = NO_DROPOUT) -> np.ndarray:
    """The embedding of every node on the way up [N, E], from leaves already dropped out [L, E]."""
    E = leaves.shape[1]
    up = np.empty((graph.n_nodes, E), leaves.dtype)
    up[: len(leaves)] = leaves
    gates, noise = _as(leaves.dtype, Gates.of(f, E)), Noise.of(dropout)
    threads.run(_up, [(graph.children, graph.key, up, gates, noise, *job) for job in _column_jobs(E)])
    return up


def down_pass(graph: Graph, up: np.ndarray, f: Functions, dropout: Dropout = NO_DROPOUT) -> np.ndarray:
    """The embedding of every node on the way down [N, E]."""
    E = up.shape[1]
    down = np.empty_like(up)
    gates, noise = _as(up.dtype, Gates.of(f, E)), Noise.of(dropout)
    fixed = (graph.children, graph.key, graph.messages, up, down, gates, noise)
    threads.run(_down, [(*fixed, *job) for job in _column_jobs(E)])
    return down


def backward(
    graph: Graph,
    up: np.ndarray,
    down: np.ndarray,
    g_up: np.ndarray,
    g_down: np.ndarray,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
) -> tuple[np.ndarray, Functions]:
    """The gradients by the leaves [L, E] and by the seven vectors; g_up and g_down are used up."""
    E, U = up.shape[1], len(f.comp_l)
    g_gates = Gates(*np.zeros((7, E)))
    gates, noise = _as(up.dtype, Gates.of(f, E)), Noise.of(dropout)
    fixed = (graph.children, graph.key, graph.messages, up, down, g_up, g_down, g_gates, gates, noise)
    threads.run(_backward, [(*fixed, *job) for job in _column_jobs(E)])
    by_vector = {name: g.reshape(-1, U).sum(0) for name, g in g_gates._asdict().items()}
    for name in ("comp_l", "comp_r", "decomp_l", "decomp_r"):
        s = sigmoid(getattr(f, name))
        by_vector[name] *= s * (1 - s)
    return g_up[: graph.n_leaves], Functions(**by_vector)
