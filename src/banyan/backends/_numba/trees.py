"""From tokens to trees: greedy() of reference.py, in O(n·E + n·√n) per sentence. For encoding, only the roots."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.backends._numba.compiling import inlined, kernel, summing
from banyan.backends._numba.functions import Gates, compose
from banyan.backends._numba.masks import Noise, drop, leaf_key, node_key, occurrence_key
from banyan.backends._numba.passes import up_pass
from banyan.config import SETTINGS
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions
from banyan.model.graph import Forest, disentangled, runs_of_sentences
from banyan.support import threads

GONE = np.int64(-(2**63))  # ranks below every pair
ONE = np.int64(2**61)  # the rank of a cosine of 1
INSIDE = np.int64(3 * 2**61 - 1)  # added to the ranks of pairs within a word, which rank above all others
NOT_JOINED = np.empty(0, np.bool_)  # words do not matter
INDUCED, RANDOM, BALANCED = range(3)  # as in SETTINGS["structure"].choices; the last one is right-branching


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
    """The cosine: exactly 1 for equal nodes, at most 1 for all others, 0 for a zero vector."""
    if same:
        return 1.0
    both = np.float64(norm_a) * np.float64(norm_b)
    if both == 0:
        return 0.0
    cosine = dot / both
    if cosine != cosine:  # NaN after an overflow: ranks last, but is still a pair
        return -2.0
    return min(cosine, 1.0)


@inlined
def _rank(structure, dot, norm_a, norm_b, key_a, key_b, first, last, inside):
    """score() of two neighbours that span tokens first..last, as an integer with the same order. The search below then
    consists of integer comparisons without branches. inside: they are in the same word."""
    rank = np.int64(first)  # right-branching
    if structure == INDUCED:
        rank = np.int64(_cosine(dot, norm_a, norm_b, key_a == key_b) * 2.0**61)
    elif structure == RANDOM:
        rank = np.int64(node_key(key_a, key_b) >> np.uint64(33))
    elif structure == BALANCED:
        rank = np.int64(first) - np.int64(last)
    if inside:
        rank = max(rank, -ONE) + INSIDE
    return rank


@kernel
def _best_of_block(rank, block, shift, n, best, best_at):
    """Recompute the highest rank of one block and its leftmost position."""
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
    """Replace rows[a] by the parent of rows[a] and rows[b]. The same sweep computes its norm and its dot products with
    its new neighbours, rows[left] and rows[right]. The last row is scratch space."""
    square = rows.dtype.type(0)
    with_left = rows.dtype.type(0)
    with_right = rows.dtype.type(0)
    spare = len(rows) - 1
    if comp_l.ndim == 2:
        compose(rows, spare, a, b, comp_l, comp_r, bias, np.uint64(0), np.uint64(rows.shape[1]))
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
    tokens, joined, first, last, merge_id, leaves, rows, gates, noise, plain, structure, children, similarity, space
):
    """Merge sentence first..last in space.work. A parent replaces its left child, so the root ends up in row 0.
    `children` and `similarity` are written from row 0 on.

    A merge changes only two scores. Ranks are kept in blocks of about √n (at least 64), and the best of each block
    is stored, so that finding the next pair takes O(√n).
    """
    n, E, whole = last - first, leaves.shape[1], len(joined) > 0
    work, norm, key, rank, node = space.work, space.norm, space.key, space.rank, space.node
    after, before, best, best_at = space.after, space.before, space.best, space.best_at
    comp_l, comp_r, bias = gates.comp_l, gates.comp_r, gates.comp_b  # reading fields in the loop would count references
    shift = 6  # blocks hold 1 << shift ranks
    while n >> (2 * shift) > 0:
        shift += 1
    blocks = ((n - 1) >> shift) + 1
    for i in range(n):
        row = rows[first + i]
        for column in range(E):
            work[i, column] = leaves[row, column]
        norm[i] = space.leaf_norms[row]
        key[i] = leaf_key(tokens[first + i])
        node[i] = first + i
        after[i], before[i] = i + 1, i - 1
    for i in range(n - 1):
        dot, inside = _dot(work, i, i + 1), whole and joined[first + i + 1]
        rank[i] = _rank(structure, dot, norm[i], norm[i + 1], key[i], key[i + 1], i, i + 2, inside)
    rank[n - 1] = GONE
    for block in range(blocks):
        _best_of_block(rank, block, shift, n, best, best_at)

    for k in range(n - 1):
        i = _best_pair(best, best_at, blocks)
        j = np.int64(after[i])
        r, m = np.int64(after[j]), np.int64(before[i])
        children[k, 0], children[k, 1] = node[i], node[j]
        similarity[k] = (rank[i] - (INSIDE if rank[i] > ONE else 0)) * 2.0**-61
        node[i], key[i] = merge_id + k, node_key(key[i], key[j])
        left, right = m if m >= 0 else j, r if r < n else j  # if a neighbour is missing, any row but i will do
        norm[i], with_left, with_right = _merge(work, i, j, left, right, comp_l, comp_r, bias)
        if noise.node.threshold > 0:
            drop(work, i, 0, E, occurrence_key(key[i], node[i]) if plain else key[i], noise.node)
            norm[i], with_left, with_right = np.sqrt(_dot(work, i, i)), _dot(work, left, i), _dot(work, right, i)
        after[i] = r
        rank[i] = rank[j] = GONE
        of_m, of_i, of_j = m >> shift, i >> shift, j >> shift
        if r < n:
            before[r] = i
            inside = whole and joined[first + r]
            rank[i] = _rank(structure, with_right, norm[i], norm[r], key[i], key[r], i, np.int64(after[r]), inside)
        if m >= 0:
            inside = whole and joined[first + i]
            rank[m] = _rank(structure, with_left, norm[m], norm[i], key[m], key[i], m, r, inside)
            if of_m != of_i:
                _best_of_block(rank, of_m, shift, n, best, best_at)
        _best_of_block(rank, of_i, shift, n, best, best_at)
        if of_j != of_i:
            _best_of_block(rank, of_j, shift, n, best, best_at)


class Space(NamedTuple):
    """Workspace for sentences of up to n tokens."""

    leaf_norms: np.ndarray  # [L], the norms of all leaves
    work: np.ndarray  # [n+1, E], the vectors of the frontier and a scratch row
    norm: np.ndarray
    key: np.ndarray
    node: np.ndarray
    after: np.ndarray  # the neighbours in the frontier
    before: np.ndarray
    rank: np.ndarray  # of the score with the right neighbour
    best: np.ndarray  # the highest rank of each block
    best_at: np.ndarray  # its position


@kernel
def _induce(
    tokens, offsets, joined, leaves, rows, leaf_norms, gates, noise, plain, structure, start, end, children, similarity,
    roots,
):  # fmt: skip
    """Induce the trees of sentences start..end. `children`, `similarity` and `roots` have room for the whole batch, or
    are empty if not needed. `joined` is empty if words do not matter."""
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
            tokens, joined, first, last, merge_id, leaves, rows, gates, noise, plain, structure,
            own_children, own_similarity, space,
        )
        if len(roots):
            for j in range(space.work.shape[1]):  # the other columns belong to the caller
                roots[b, j] = space.work[0, j]


def induce(
    tokens: np.ndarray,
    offsets: np.ndarray,
    leaves: np.ndarray,
    rows: np.ndarray,
    f: Functions,
    dropout: Dropout = NO_DROPOUT,
    plain: bool = False,
    structure: str = "induced",
    joined: np.ndarray | None = None,
) -> tuple[Forest, np.ndarray]:
    """The trees of a batch and, if they are induced, the similarity at each merge. The vector of position i is
    leaves[rows[i]], after dropout."""
    T, B = len(tokens), len(offsets) - 1
    children, similarity = np.empty((T - B, 2), np.int32), np.empty(T - B, leaves.dtype)
    gates, noise = Gates.of(f, leaves.shape[1], leaves.dtype), Noise.of(dropout)
    joined = NOT_JOINED if joined is None else joined
    fixed = (tokens, offsets, joined, leaves, rows, norms(leaves), gates, noise, plain, _code(structure))
    nothing = np.empty((0, leaves.shape[1]), leaves.dtype)
    jobs = [(*fixed, s, e, children, similarity, nothing) for s, e in runs_of_sentences(offsets, 2048)]
    threads.run(_induce, jobs)
    return Forest(tokens, offsets, children), similarity


def _code(structure: str) -> int:
    return SETTINGS["structure"].choices.index(structure)


class Encoder:
    """Computes only the roots of sentences, which is all that inference needs."""

    def __init__(self, embedding: np.ndarray, f: Functions, structure: str = "induced") -> None:
        self.embedding, self.functions = embedding, f
        self.gates = Gates.of(f, embedding.shape[1], embedding.dtype)
        self.structure = _code(structure)
        self.norms = norms(embedding)
        self.noise = Noise.of(NO_DROPOUT)

    def roots(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        out: np.ndarray,
        n_threads: int | None = None,
        joined: np.ndarray | None = None,
    ) -> None:
        fixed = tokens, offsets, *self._fixed(tokens, joined)
        nothing = (np.empty((0, 2), np.int32), np.empty(0, out.dtype))
        threads.run(_induce, [(*fixed, s, e, *nothing, out) for s, e in runs_of_sentences(offsets, 8192)], n_threads)

    def _fixed(self, tokens: np.ndarray, joined: np.ndarray | None) -> tuple:
        joined = NOT_JOINED if joined is None else joined
        return joined, self.embedding, tokens, self.norms, self.gates, self.noise, False, self.structure

    def tree(self, tokens: np.ndarray, joined: np.ndarray | None = None) -> np.ndarray:
        tokens = np.ascontiguousarray(tokens, np.int32)
        offsets = np.array([0, len(tokens)])
        children = np.empty((len(tokens) - 1, 2), np.int32)
        fixed = tokens, offsets, *self._fixed(tokens, joined)
        similarity, roots = np.empty(len(children), self.embedding.dtype), np.empty((0, 0), self.embedding.dtype)
        threads.run(_induce, [(*fixed, 0, 1, children, similarity, roots)])
        return children

    def phrases(self, tokens: np.ndarray, children: np.ndarray) -> np.ndarray:
        graph = disentangled(Forest(tokens, np.array([0, len(tokens)]), children))
        return up_pass(graph, self.embedding[tokens], self.functions)[graph.node_of]
