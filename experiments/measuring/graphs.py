"""Trees and graphs of a trained model, without dropout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.model.graph import Forest, Graph


def forest_of(model: Banyan, texts: Sequence[str], n: int | None = None) -> Forest:
    """The trees of the first n texts whose number of pieces is in the range for training."""
    from banyan.backends import _numba

    tokens, offsets, _ = model.leaf_choice.leaves(*model.tokenizer.encode(texts))
    lengths = np.diff(offsets)
    kept = np.flatnonzero((lengths >= model.config.min_pieces) & (lengths <= model.config.max_pieces))[:n]
    if n is not None and len(kept) < n:
        raise BanyanError(f"only {len(kept)} of {len(texts)} lines have a length to train on; {n} are needed")
    tokens = np.concatenate([tokens[offsets[i] : offsets[i + 1]] for i in kept]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
    f, structure = model.functions, model.config.structure
    return _numba.induce(tokens, offsets, model.embedding, tokens, f, structure=structure)[0]


def part(forest: Forest, start: int, end: int) -> Forest:
    """The sentences start..end as a forest."""
    first, last = int(forest.offsets[start]), int(forest.offsets[end])
    first_merge, last_merge = forest.merge_offsets[[start, end]]
    T = len(forest.tokens)
    children = forest.children[first_merge:last_merge]
    moved = np.where(children < T, children - first, children - T - first_merge + last - first)
    return Forest(forest.tokens[first:last], forest.offsets[start : end + 1] - first, moved.astype(np.int32))


def select(forest: Forest, sentences: Sequence[int] | np.ndarray) -> Forest:
    """The given sentences, in this order, as a forest."""
    alone = [part(forest, sentence, sentence + 1) for sentence in sentences]
    offsets = np.concatenate([[0], np.cumsum([len(one.tokens) for one in alone])]).astype(np.int64)
    T, children = offsets[-1], []
    for i, one in enumerate(alone):
        n = len(one.tokens)
        children.append(np.where(one.children < n, one.children + offsets[i], one.children - n + T + offsets[i] - i))
    tokens = np.concatenate([one.tokens for one in alone])
    return Forest(tokens, offsets, np.concatenate(children).astype(np.int32))


def up_and_down(model: Banyan, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The up and down embeddings of all nodes [N, E], without dropout."""
    from banyan.backends import _numba

    up = _numba.up_pass(graph, model.embedding[graph.token], model.functions)
    return up, _numba.down_pass(graph, up, model.functions)
