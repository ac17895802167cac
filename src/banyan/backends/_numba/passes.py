"""Both passes and their gradients: up_pass(), down_pass() and loss_and_gradients() of reference.py.

No equation mixes channels, so each kernel processes columns first..last for the whole graph. It visits inner nodes
sentence by sentence, in the order in which they first occur: children that were just computed are still in the cache.
"""

from __future__ import annotations

import numpy as np

from banyan.backends._numba.compiling import kernel, summing
from banyan.backends._numba.functions import Gates, back_through, compose, decompose
from banyan.backends._numba.masks import Noise, drop
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions, sigmoid
from banyan.model.graph import Graph
from banyan.model.shapes import GATES
from banyan.support import threads

COLUMNS = 32  # a job has a multiple of them
TOGETHER = 64  # nodes whose gradients with respect to gates are added up in the precision of the vectors


@kernel
def _in_order(L, M, node_of):
    """The inner nodes in the order in which they first occur in the forest: children precede their parents."""
    met, order, count = np.zeros(L + M, np.bool_), np.empty(M, np.int32), 0
    for n in node_of:
        if n >= L and not met[n]:
            met[n], order[count] = True, n
            count += 1
    return order[:count]


@summing
def _up(order, children, key, up, gates, noise, first, last):
    """Compute `up` from the leaves, which it already holds, to the roots."""
    L = len(up) - len(children)
    comp_l, comp_r, bias = gates.comp_l, gates.comp_r, gates.comp_b
    for n in order:
        compose(up, n, children[n - L, 0], children[n - L, 1], comp_l, comp_r, bias, first, last)
        drop(up, n, first, last, key[n], noise.node)


@summing
def _send(down, parent, child, message, gate, bias, first, last, key, mask):
    decompose(message, down, parent, gate, bias, first, last)
    drop(message, 0, first, last, key, mask)
    for j in range(first, last):
        down[child, j] += message[0, j]


@summing
def _down(receivers, key, messages, up, down, gates, noise, first, last):
    """Compute `down` from the roots to the leaves. A node takes the mean of its messages."""
    L = len(up) - len(receivers)
    half_1, bias_1, half_2, bias_2 = gates.decomp_l, gates.decomp_lb, gates.decomp_r, gates.decomp_rb
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
            a, b = receivers[n - L, 0], receivers[n - L, 1]
            _send(down, n, a, message, half_1, bias_1, first, last, key[n], noise.left)
            _send(down, n, b, message, half_2, bias_2, first, last, key[n], noise.right)


@summing
def _return(g_down, down, parent, child, messages, gate, g, g_gate, g_bias, first, last, key, mask):
    """Propagate the gradient of one message back to its parent."""
    share = down.dtype.type(1) / down.dtype.type(messages)
    for j in range(first, last):
        g[0, j] = g_down[child, j] * share
    drop(g, 0, first, last, key, mask)
    for j in range(first, last):
        g_bias[j] += g[0, j]
    back_through(gate, down, parent, g, 0, g_gate, g_down, first, last)


@summing
def _back_up(receivers, key, messages, down, g_up, g_down, g_gates, gates, noise, first, last):
    """Compute the gradients of the down pass, from the leaves up. g_down holds the incoming gradients and ends up as
    the total ones; those of the roots are added to g_up. g_gates accumulates the gradients with respect to gates and
    biases, one sum per column."""
    L = len(down) - len(receivers)
    g = np.empty((1, last), down.dtype)
    s = g_gates
    for m in range(len(receivers)):
        n, a, b = L + m, receivers[m, 0], receivers[m, 1]
        gate, count = gates.decomp_l, messages[a]
        _return(g_down, down, n, a, count, gate, g, s.decomp_l, s.decomp_lb, first, last, key[n], noise.left)
        gate, count = gates.decomp_r, messages[b]
        _return(g_down, down, n, b, count, gate, g, s.decomp_r, s.decomp_rb, first, last, key[n], noise.right)
    for n in range(len(down)):
        if messages[n] == 0:
            for j in range(first, last):
                g_up[n, j] += g_down[n, j]


@summing
def _move(part, sums, first, last):
    """Add the sums of a few nodes to those of all, and begin anew."""
    if sums.ndim == 1:
        for j in range(first, last):
            sums[j] += part[j]
            part[j] = 0
    else:
        for j in range(first, last):
            for v in range(sums.shape[1]):
                sums[j, v] += part[j, v]
                part[j, v] = 0


@summing
def _begin(g, n, known, first, last):
    """Begin the sum of a node's gradient, unless it has begun."""
    if not known[n]:
        known[n] = True
        for j in range(first, last):
            g[n, j] = 0


@summing
def _back_down(order, children, key, up, g_up, given, g_gates, gates, noise, first, last):
    """Compute the gradients of the up pass, from the roots down. g_up holds the incoming gradients of the nodes where
    `given` is true. Those of the leaves end up as the total ones."""
    L = len(up) - len(children)
    comp_l, comp_r = gates.comp_l, gates.comp_r  # reading fields in the loop would count references
    of_l, of_r, of_b = g_gates.comp_l, g_gates.comp_r, g_gates.comp_b
    part_l, part_r, part_b = np.zeros(of_l.shape, up.dtype), np.zeros(of_r.shape, up.dtype), np.zeros(last, up.dtype)
    known = given.copy()
    for k in range(len(order) - 1, -1, -1):
        n = order[k]
        left, right = children[n - L, 0], children[n - L, 1]
        for i in (n, left, right):
            _begin(g_up, i, known, first, last)
        drop(g_up, n, first, last, key[n], noise.node)
        for j in range(first, last):
            part_b[j] += g_up[n, j]
        back_through(comp_l, up, left, g_up, n, part_l, g_up, first, last)
        back_through(comp_r, up, right, g_up, n, part_r, g_up, first, last)
        if k % TOGETHER == 0:
            _move(part_l, of_l, first, last)
            _move(part_r, of_r, first, last)
            _move(part_b, of_b, first, last)


def _column_jobs(E: int, gates: Gates) -> list[tuple[np.uint64, np.uint64]]:
    """Split the columns into a job for each thread, of whole channels if the gates mix their columns, and of whole
    vectors of the processor. No sum crosses columns, so results do not depend on the split. Bounds are unsigned,
    because an index that might be negative (counted from the end) would prevent SIMD."""
    together = len(gates.comp_l) if gates.comp_l.ndim == 2 else 1
    together *= -(-COLUMNS // together)
    columns = -(-E // (together * threads.available())) * together
    return [(np.uint64(first), np.uint64(min(first + columns, E))) for first in range(0, E, columns)]


def _order(graph: Graph) -> np.ndarray:
    return _in_order(graph.n_leaves, len(graph.children), graph.node_of)


def up_pass(
    graph: Graph, leaves: np.ndarray, f: Functions, dropout: Dropout = NO_DROPOUT, out: np.ndarray | None = None
) -> np.ndarray:
    """The up vector of every node [N, E], from leaves after dropout [L, E]. out: where to write them."""
    E = leaves.shape[1]
    up = np.empty((graph.n_nodes, E), leaves.dtype) if out is None else out
    up[: len(leaves)] = leaves
    gates, noise = Gates.of(f, E, leaves.dtype), Noise.of(dropout)
    fixed = (_order(graph), graph.children, graph.key, up, gates, noise)
    threads.run(_up, [(*fixed, *job) for job in _column_jobs(E, gates)])
    return up


def down_pass(graph: Graph, up: np.ndarray, f: Functions, dropout: Dropout = NO_DROPOUT) -> np.ndarray:
    """The down vector of every node [N, E]."""
    E = up.shape[1]
    down = np.empty_like(up)
    gates, noise = Gates.of(f, E, up.dtype), Noise.of(dropout)
    fixed = (graph.receivers, graph.key, graph.messages, up, down, gates, noise)
    threads.run(_down, [(*fixed, *job) for job in _column_jobs(E, gates)])
    return down


def backward(
    graph: Graph,
    up: np.ndarray,
    down: np.ndarray | None,
    g_up: np.ndarray,
    g_down: np.ndarray | None,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
    given: np.ndarray | None = None,
) -> tuple[np.ndarray, Functions]:
    """The gradients with respect to the leaves [L, E] and the functions. Overwrites g_up and g_down. down, g_down: None
    if there was no down pass. given: which rows of g_up hold gradients, bool [N]; the others count as zero."""
    E = up.shape[1]
    g_gates = Gates(*(np.zeros((E, *value.shape[1:])) for value in f))
    gates, noise = Gates.of(f, E, up.dtype), Noise.of(dropout)
    jobs = _column_jobs(E, gates)
    if down is not None:
        sent = (graph.receivers, graph.key, graph.messages, down, g_up, g_down, g_gates, gates, noise)
        threads.run(_back_up, [(*sent, *job) for job in jobs])
    given = np.ones(len(up), np.bool_) if given is None else given
    composed = (_order(graph), graph.children, graph.key, up, g_up, given, g_gates, gates, noise)
    threads.run(_back_down, [(*composed, *job) for job in jobs])
    g_functions = {n: g.reshape(-1, *getattr(f, n).shape).sum(0) for n, g in g_gates._asdict().items()}
    if f.comp_l.ndim == 1:
        for name in GATES:
            s = sigmoid(getattr(f, name))
            g_functions[name] *= s * (1 - s)
    return g_up[: graph.n_leaves], Functions(**g_functions)
