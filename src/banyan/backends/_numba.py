"""The CPU kernels: what reference.py says, for any number of threads with the same bits.

Each kernel is a plain loop that releases the interpreter lock; parallelism is over sentences (induction) or over
columns (both passes: no equation mixes channels), through banyan.support.threads. Sums may be reassociated for SIMD, so
their order is fixed by the compiled code; nothing assumes NaN or infinity away.

Diagonal and linear functions share all kernels: a gate is a vector or a matrix, and where a kernel asks an argument
for its `ndim`, Numba compiles only the branch that is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from banyan.config import SETTINGS
from banyan.model.dropout import LEAF, LEFT_MESSAGE, NO_DROPOUT, NODE, RIGHT_MESSAGE, Dropout
from banyan.model.functions import GATES, Functions, per_channel, sigmoid
from banyan.model.graph import Forest, Graph, runs_of_sentences
from banyan.support import threads

COLUMNS = 64  # of one job in the passes: fixed, so that results do not depend on the number of threads

kernel = njit(cache=True, nogil=True, error_model="numpy")
inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
summing = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
step = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, forceinline=True)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
OCCURRENCE = np.uint64(0xD1342543DE82EF95)
GONE = np.int64(-(2**63))  # ranks below every pair
INDUCED, RANDOM, BALANCED = range(3)  # in the order of the choices of "structure"; then comes right-branching


class Gates(NamedTuple):
    """The functions as the kernels use them. Biases are repeated over the channels [E]; so are diagonal gates, their
    sigmoids taken; a linear gate is its matrix [U, U]."""

    comp_l: np.ndarray
    comp_r: np.ndarray
    comp_b: np.ndarray
    decomp_l: np.ndarray
    decomp_r: np.ndarray
    decomp_lb: np.ndarray
    decomp_rb: np.ndarray

    @classmethod
    def of(cls, f: Functions, E: int, dtype: np.dtype) -> Gates:
        def as_used(name: str, value: np.ndarray) -> np.ndarray:
            if value.ndim == 2:
                return value
            return per_channel(sigmoid(value) if name in GATES else value, E)

        return cls(*(np.ascontiguousarray(as_used(*item), dtype) for item in f._asdict().items()))


class Mask(NamedTuple):
    """Dropout at one place."""

    threshold: np.uint32  # 0: none
    scale: float
    stream: np.uint64


class Noise(NamedTuple):
    """A Dropout as the kernels use it."""

    leaf: Mask
    node: Mask
    left: Mask
    right: Mask

    @classmethod
    def of(cls, dropout: Dropout) -> Noise:
        def at(place: int) -> Mask:
            rate = dropout.rate_at(place)
            return Mask(np.uint32(int(rate * 2**32)), 1 / (1 - rate), np.uint64(dropout.stream(place)))

        return cls(at(LEAF), at(NODE), at(LEFT_MESSAGE), at(RIGHT_MESSAGE))


# --- Keys and masks --------------------------------------------------------------------------------------------------


@inlined
def _mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def _leaf_key(token):
    return _mix(np.uint64(token) + GOLDEN)


@inlined
def _node_key(left, right):
    return _mix(left * GOLDEN + right)


@inlined
def _occurrence_key(key, occurrence):
    return _mix(key ^ (np.uint64(occurrence) * OCCURRENCE))


@kernel
def _drop(rows, i, first, last, key, mask):
    """Apply in place to rows[i, first:last] the mask of those columns. (Rows are named by number in all the inner
    loops: a view of a row costs more than the loop over it.)"""
    if mask.threshold == 0:
        return
    state = _mix(key ^ mask.stream)
    low, high = np.uint32(state), np.uint32(state >> np.uint64(32)) | np.uint32(1)
    zero, scale = rows.dtype.type(0), rows.dtype.type(mask.scale)
    for j in range(first, last):
        x = np.uint32(low + np.uint32(np.uint32(j) * high))
        x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        x = np.uint32((x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        x = x ^ (x >> np.uint32(16))
        rows[i, j] = rows[i, j] * scale if x >= mask.threshold else zero


@kernel
def drop_leaves(leaves, keys, noise):
    """Dropout on the leaves, in place."""
    for i in range(len(leaves)):
        _drop(leaves, i, 0, leaves.shape[1], keys[i], noise.leaf)


@kernel
def leaf_keys(tokens, plain):
    """The key of each leaf; in plain trees each occurrence has its own."""
    keys = np.empty(len(tokens), np.uint64)
    for i in range(len(tokens)):
        keys[i] = _leaf_key(tokens[i])
        if plain:
            keys[i] = _occurrence_key(keys[i], i)
    return keys


# --- Equations 1 to 4 and their gradients, one row's columns first..last --------------------------------------------


@step
def _add_product(out, o, rows, i, matrix, first, last):
    """Add to out[o] each channel of rows[i] times a matrix. Channels take turns, so that no sum waits for its last."""
    U = np.uint64(len(matrix))
    for u in range(U):
        for channel in range(first // U, last // U):
            x = rows[i, channel * U + u]
            for v in range(U):
                out[o, channel * U + v] += x * matrix[u, v]


@step
def _compose(rows, parent, left, right, comp_l, comp_r, bias, first, last):
    if comp_l.ndim == 1:
        for j in range(first, last):
            rows[parent, j] = rows[left, j] * comp_l[j] + rows[right, j] * comp_r[j] + bias[j]
    else:
        for j in range(first, last):
            rows[parent, j] = bias[j]
        _add_product(rows, parent, rows, left, comp_l, first, last)
        _add_product(rows, parent, rows, right, comp_r, first, last)


@step
def _decompose(message, down, parent, gate, bias, first, last):
    if gate.ndim == 1:
        for j in range(first, last):
            message[0, j] = down[parent, j] * gate[j] + bias[j]
    else:
        for j in range(first, last):
            message[0, j] = bias[j]
        _add_product(message, 0, down, parent, gate, first, last)


@step
def _back_through(gate, rows, i, g, g_gate, g_rows, first, last):
    """From the gradient g by rows[i] times a gate, add those by the gate and by rows[i]. For a matrix g_gate has a
    matrix of sums per channel, one below another [E, U]: no two jobs share a sum."""
    if gate.ndim == 1:
        for j in range(first, last):
            g_gate[j] += g[0, j] * rows[i, j]
            g_rows[i, j] += g[0, j] * gate[j]
    else:
        U = np.uint64(len(gate))
        for channel in range(first // U, last // U):
            for u in range(U):
                x, total = rows[i, channel * U + u], rows.dtype.type(0)
                for v in range(U):
                    g_gate[channel * U + u, v] += g[0, channel * U + v] * x
                    total += g[0, channel * U + v] * gate[u, v]
                g_rows[i, channel * U + u] += total


# --- Induction: greedy() of reference.py, O(n·E + n·√n) a sentence -------------------------------------------------


@summing
def _dot(rows, a, b):
    total = rows.dtype.type(0)
    for j in range(rows.shape[1]):
        total += rows[a, j] * rows[b, j]
    return total


@kernel
def norms(rows):
    out = np.empty(len(rows), rows.dtype)
    for i in range(len(rows)):
        out[i] = np.sqrt(_dot(rows, i, i))
    return out


@inlined
def _cosine(dot, norm_a, norm_b, same):
    """Equal nodes score exactly 1, all others are clamped to 1, a zero vector scores 0."""
    if same:
        return 1.0
    both = np.float64(norm_a) * np.float64(norm_b)
    if both == 0:
        return 0.0
    cosine = dot / both
    if cosine != cosine:  # an overflow upstream: last in line, but still a pair
        return -2.0
    return min(cosine, 1.0)


@inlined
def _rank(structure, dot, norm_a, norm_b, key_a, key_b, first, last):
    """score() of two neighbours over the tokens first..last, as a whole number in the same order: the search below
    is then a chain of integer comparisons without branches."""
    rank = np.int64(first)  # right-branching
    if structure == INDUCED:
        rank = np.int64(_cosine(dot, norm_a, norm_b, key_a == key_b) * 2.0**61)
    elif structure == RANDOM:
        rank = np.int64(_node_key(key_a, key_b) >> np.uint64(33))
    elif structure == BALANCED:
        rank = np.int64(first) - np.int64(last)
    return rank


@kernel
def _best_of_block(rank, block, shift, n, best, best_at):
    """Find the leftmost of the highest ranks of one block anew."""
    highest, at = GONE, block << shift
    for i in range(block << shift, min((block + 1) << shift, n)):
        higher = rank[i] > highest
        highest = rank[i] if higher else highest
        at = i if higher else at
    best[block], best_at[block] = highest, at


@kernel
def _best_pair(best, best_at, blocks):
    highest, at = best[0], best_at[0]
    for block in range(1, blocks):
        higher = best[block] > highest
        highest = best[block] if higher else highest
        at = best_at[block] if higher else at
    return at


@summing
def _merge(rows, a, b, left, right, comp_l, comp_r, bias):
    """rows[a] becomes the parent of rows[a] and rows[b]. One sweep also gives its norm and its products with its new
    neighbours, rows[left] and rows[right]. The last row is spare."""
    square = rows.dtype.type(0)
    with_left = rows.dtype.type(0)
    with_right = rows.dtype.type(0)
    spare = len(rows) - 1
    if comp_l.ndim == 2:
        _compose(rows, spare, a, b, comp_l, comp_r, bias, np.uint64(0), np.uint64(rows.shape[1]))
    for j in range(rows.shape[1]):
        if comp_l.ndim == 2:
            parent = rows[spare, j]
        else:
            parent = rows[a, j] * comp_l[j] + rows[b, j] * comp_r[j] + bias[j]
        rows[a, j] = parent
        square += parent * parent
        with_left += rows[left, j] * parent
        with_right += rows[right, j] * parent
    return np.sqrt(square), with_left, with_right


@kernel
def _induce_sentence(
    tokens, first, last, merge_id, leaves, rows, gates, noise, plain, structure, children, similarity, space
):
    """Merge sentence first..last in space.work, where a parent takes its left child's place and the root ends in
    row 0; `children` and `similarity` are written from row 0 on.

    A merge changes only two scores. They are ranked in blocks of about √n (and at least 64), each of which
    knows its best, so that the next pair is found in O(√n).
    """
    n, E = last - first, leaves.shape[1]
    work, norm, key, rank, node = space.work, space.norm, space.key, space.rank, space.node
    after, before, best, best_at = space.after, space.before, space.best, space.best_at
    comp_l, comp_r, bias = gates.comp_l, gates.comp_r, gates.comp_b  # a field taken in a loop is counted each time
    shift = 6  # blocks of 1 << shift
    while n >> (2 * shift) > 0:
        shift += 1
    blocks = ((n - 1) >> shift) + 1
    for i in range(n):
        row = rows[first + i]
        for j in range(E):
            work[i, j] = leaves[row, j]
        norm[i] = space.leaf_norms[row]
        key[i] = _leaf_key(tokens[first + i])
        node[i] = first + i
        after[i], before[i] = i + 1, i - 1
    for i in range(n - 1):
        dot = _dot(work, i, i + 1)
        rank[i] = _rank(structure, dot, norm[i], norm[i + 1], key[i], key[i + 1], i, i + 2)
    rank[n - 1] = GONE
    for block in range(blocks):
        _best_of_block(rank, block, shift, n, best, best_at)

    for k in range(n - 1):
        i = _best_pair(best, best_at, blocks)
        j = after[i]
        r, m = after[j], before[i]
        children[k, 0], children[k, 1] = node[i], node[j]
        similarity[k] = rank[i] * 2.0**-61
        node[i] = merge_id + k
        key[i] = _node_key(key[i], key[j])
        left, right = m if m >= 0 else j, r if r < n else j  # where there is no neighbour, any row but i
        norm[i], with_left, with_right = _merge(work, i, j, left, right, comp_l, comp_r, bias)
        if noise.node.threshold > 0:
            _drop(work, i, 0, E, _occurrence_key(key[i], node[i]) if plain else key[i], noise.node)
            norm[i], with_left, with_right = np.sqrt(_dot(work, i, i)), _dot(work, left, i), _dot(work, right, i)
        after[i] = r
        rank[i] = rank[j] = GONE
        of_m, of_i, of_j = m >> shift, i >> shift, j >> shift
        if r < n:
            before[r] = i
            rank[i] = _rank(structure, with_right, norm[i], norm[r], key[i], key[r], i, after[r])
        if m >= 0:
            rank[m] = _rank(structure, with_left, norm[m], norm[i], key[m], key[i], m, r)
            if of_m != of_i:
                _best_of_block(rank, of_m, shift, n, best, best_at)
        _best_of_block(rank, of_i, shift, n, best, best_at)
        if of_j != of_i:
            _best_of_block(rank, of_j, shift, n, best, best_at)


class Space(NamedTuple):
    """Room to work in for sentences of up to n tokens."""

    leaf_norms: np.ndarray  # [L], of all leaves
    work: np.ndarray  # [n+1, E], the frontier's vectors and a spare row
    norm: np.ndarray
    key: np.ndarray
    node: np.ndarray
    after: np.ndarray  # the neighbours in the frontier
    before: np.ndarray
    rank: np.ndarray  # of the score with the right neighbour
    best: np.ndarray  # of each block of ranks, the highest
    best_at: np.ndarray  # and where it stands


@kernel
def _induce(
    tokens, offsets, leaves, rows, leaf_norms, gates, noise, plain, structure, start, end, children, similarity, roots
):
    """Sentences start..end of the batch. `children`, `similarity` and `roots` are of the whole batch, each either
    whole or, when nobody wants it, empty."""
    n = 1
    for b in range(start, end):
        n = max(n, offsets[b + 1] - offsets[b])
    space = Space(
        leaf_norms,
        np.empty((n + 1, leaves.shape[1]), leaves.dtype),
        np.empty(n, leaves.dtype),
        np.empty(n, np.uint64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    spare = np.empty((n, 2), np.int32), np.empty(n, leaves.dtype)
    for b in range(start, end):
        first, last = offsets[b], offsets[b + 1]
        own_children = children[first - b : last - b - 1] if len(children) else spare[0]
        own_similarity = similarity[first - b : last - b - 1] if len(similarity) else spare[1]
        merge_id = len(tokens) + first - b
        _induce_sentence(
            tokens, first, last, merge_id, leaves, rows, gates, noise, plain, structure,
            own_children, own_similarity, space,
        )
        if len(roots):
            roots[b, : space.work.shape[1]] = space.work[0]  # what else a row may hold is not ours


def induce(
    tokens: np.ndarray,
    offsets: np.ndarray,
    leaves: np.ndarray,
    rows: np.ndarray,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
    plain: bool = False,
    structure: str = "induced",
) -> tuple[Forest, np.ndarray]:
    """The trees of a batch and, where they are induced, the similarity at each merge. The vector of position i is
    leaves[rows[i]], already dropped out."""
    T, B = len(tokens), len(offsets) - 1
    children, similarity = np.empty((T - B, 2), np.int32), np.empty(T - B, leaves.dtype)
    gates, noise = Gates.of(f, leaves.shape[1], leaves.dtype), Noise.of(dropout)
    fixed = (tokens, offsets, leaves, rows, norms(leaves), gates, noise, plain, _code(structure))
    nothing = np.empty((0, leaves.shape[1]), leaves.dtype)
    jobs = [(*fixed, s, e, children, similarity, nothing) for s, e in runs_of_sentences(offsets, 2048)]
    threads.run(_induce, jobs)
    return Forest(tokens, offsets, children), similarity


def _code(structure: str) -> int:
    return SETTINGS["structure"].choices.index(structure)


@njit(cache=True, nogil=True)
def kept_occurrences(tokens, offsets, kept):
    """Which tokens are kept, if a sentence keeps only those occurrences of a token: kept says how many-th, rising."""
    keeps = np.empty(len(tokens), np.bool_)
    last_seen = np.full(tokens.max() + 1 if len(tokens) else 0, -1, np.int64)  # in which sentence
    times = np.zeros(len(last_seen), np.int64)
    for sentence in range(len(offsets) - 1):
        for i in range(offsets[sentence], offsets[sentence + 1]):
            token = tokens[i]
            if last_seen[token] != sentence:
                last_seen[token], times[token] = sentence, 0
            times[token] += 1
            at = np.searchsorted(kept, times[token]) if times[token] > 1 else 0
            keeps[i] = at < len(kept) and kept[at] == times[token]
    return keeps


class Encoder:
    """Roots of batches of sentences, and nothing else: what inference needs."""

    def __init__(self, embedding: np.ndarray, f: Functions, structure: str = "induced") -> None:
        self.embedding = embedding
        self.gates = Gates.of(f, embedding.shape[1], embedding.dtype)
        self.structure = _code(structure)
        self.norms = norms(embedding)
        self.noise = Noise.of(NO_DROPOUT)

    def roots(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        fixed = (tokens, offsets, self.embedding, tokens, self.norms, self.gates, self.noise, False, self.structure)
        nothing = (np.empty((0, 2), np.int32), np.empty(0, out.dtype))
        threads.run(_induce, [(*fixed, s, e, *nothing, out) for s, e in runs_of_sentences(offsets, 8192)], n_threads)


# --- From forest to graph ---------------------------------------------------------------------------------------------


@kernel
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


@kernel
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


@kernel
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


# --- Both passes and their gradients, columns first..last ------------------------------------------------------------


@summing
def _up(children, key, up, gates, noise, first, last):
    """From the leaves (already there) up."""
    L = len(up) - len(children)
    comp_l, comp_r, bias = gates.comp_l, gates.comp_r, gates.comp_b
    for m in range(len(children)):
        left, right = children[m, 0], children[m, 1]
        _compose(up, L + m, left, right, comp_l, comp_r, bias, first, last)
        _drop(up, L + m, first, last, key[L + m], noise.node)


@summing
def _send(down, parent, child, message, gate, bias, first, last, key, mask):
    _decompose(message, down, parent, gate, bias, first, last)
    _drop(message, 0, first, last, key, mask)
    for j in range(first, last):
        down[child, j] += message[0, j]


@summing
def _down(children, key, messages, up, down, gates, noise, first, last):
    """From the roots down; a node takes the mean of its messages."""
    L = len(up) - len(children)
    to_left, bias_left, to_right, bias_right = gates.decomp_l, gates.decomp_lb, gates.decomp_r, gates.decomp_rb
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
            _send(down, n, left, message, to_left, bias_left, first, last, key[n], noise.left)
            _send(down, n, right, message, to_right, bias_right, first, last, key[n], noise.right)


@summing
def _return(g_down, down, parent, child, messages, gate, g, g_gate, g_bias, first, last, key, mask):
    """The gradient of one message, back to its parent."""
    share = down.dtype.type(1) / down.dtype.type(messages)
    for j in range(first, last):
        g[0, j] = g_down[child, j] * share
    _drop(g, 0, first, last, key, mask)
    for j in range(first, last):
        g_bias[j] += g[0, j]
    _back_through(gate, down, parent, g, g_gate, g_down, first, last)


@summing
def _backward(children, key, messages, up, down, g_up, g_down, g_gates, gates, noise, first, last):
    """Gradients of both passes. g_up and g_down hold the gradients from outside and end as the whole ones; g_gates
    gets those of the gates and biases, one sum per column."""
    L = len(up) - len(children)
    g = np.empty((1, last), up.dtype)
    s = g_gates
    for m in range(len(children)):
        n, left, right = L + m, children[m, 0], children[m, 1]
        gate, count = gates.decomp_l, messages[left]
        _return(g_down, down, n, left, count, gate, g, s.decomp_l, s.decomp_lb, first, last, key[n], noise.left)
        gate, count = gates.decomp_r, messages[right]
        _return(g_down, down, n, right, count, gate, g, s.decomp_r, s.decomp_rb, first, last, key[n], noise.right)
    for n in range(len(up)):
        if messages[n] == 0:
            for j in range(first, last):
                g_up[n, j] += g_down[n, j]
    for m in range(len(children) - 1, -1, -1):
        n, left, right = L + m, children[m, 0], children[m, 1]
        for j in range(first, last):
            g[0, j] = g_up[n, j]
        _drop(g, 0, first, last, key[n], noise.node)
        for j in range(first, last):
            s.comp_b[j] += g[0, j]
        _back_through(gates.comp_l, up, left, g, s.comp_l, g_up, first, last)
        _back_through(gates.comp_r, up, right, g, s.comp_r, g_up, first, last)


def _column_jobs(E: int, gates: Gates) -> list[tuple[np.uint64, np.uint64]]:
    """Whole channels where a gate mixes their columns. Unsigned, because a column that might be negative (counted
    from the end) keeps the loops from being SIMD."""
    together = len(gates.comp_l) if gates.comp_l.ndim == 2 else 1
    columns = max(COLUMNS // together, 1) * together
    return [(np.uint64(first), np.uint64(min(first + columns, E))) for first in range(0, E, columns)]


def up_pass(graph: Graph, leaves: np.ndarray, f: Functions, dropout: Dropout = NO_DROPOUT) -> np.ndarray:
    """The embedding of every node on the way up [N, E], from leaves already dropped out [L, E]."""
    E = leaves.shape[1]
    up = np.empty((graph.n_nodes, E), leaves.dtype)
    up[: len(leaves)] = leaves
    gates, noise = Gates.of(f, E, leaves.dtype), Noise.of(dropout)
    threads.run(_up, [(graph.children, graph.key, up, gates, noise, *job) for job in _column_jobs(E, gates)])
    return up


def down_pass(graph: Graph, up: np.ndarray, f: Functions, dropout: Dropout = NO_DROPOUT) -> np.ndarray:
    """The embedding of every node on the way down [N, E]."""
    E = up.shape[1]
    down = np.empty_like(up)
    gates, noise = Gates.of(f, E, up.dtype), Noise.of(dropout)
    fixed = (graph.children, graph.key, graph.messages, up, down, gates, noise)
    threads.run(_down, [(*fixed, *job) for job in _column_jobs(E, gates)])
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
    """The gradients by the leaves [L, E] and by the functions; g_up and g_down are used up."""
    E = up.shape[1]
    g_gates = Gates(*(np.zeros((E, *value.shape[1:])) for value in f))
    gates, noise = Gates.of(f, E, up.dtype), Noise.of(dropout)
    fixed = (graph.children, graph.key, graph.messages, up, down, g_up, g_down, g_gates, gates, noise)
    threads.run(_backward, [(*fixed, *job) for job in _column_jobs(E, gates)])
    g_functions = {n: g.reshape(-1, *getattr(f, n).shape).sum(0) for n, g in g_gates._asdict().items()}
    if f.comp_l.ndim == 1:
        for name in GATES:
            s = sigmoid(getattr(f, name))
            g_functions[name] *= s * (1 - s)
    return g_up[: graph.n_leaves], Functions(**g_functions)
