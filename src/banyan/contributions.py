"""What each token contributes to the embedding of a text, for `Banyan.explain` and for classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from banyan.model.functions import per_channel, repeated
from banyan.model.graph import Forest
from banyan.tree import leaf_labels

if TYPE_CHECKING:
    from banyan.encoder import Banyan


def contributions(
    model: Banyan, text: str, tokens: np.ndarray, kept: np.ndarray, spans: list[tuple[int, int]], forest: Forest
) -> tuple[list[str], np.ndarray]:
    """The contributions of each leaf and of the bias to the root of a text: names and float64 vectors [n+1, E].

    kept: which tokens are leaves. spans: theirs in the text."""
    config, f, n = model.config, model.functions, len(kept)
    if n == 0:
        return ["bias"], np.zeros((1, model.dim))
    leaves = model.embedding[tokens[kept]].astype(np.float64)
    parts = {leaf: leaves[[leaf]] for leaf in range(n)}  # node -> contributions of the leaves under it
    bias = {leaf: np.zeros(config.dim) for leaf in range(n)}  # node -> its embedding if all leaves were zero
    of_left, of_right = (repeated(gate, config.dim) for gate in (f.comp_l, f.comp_r))
    added = per_channel(f.comp_b, config.dim)
    for node, (left, right) in enumerate(forest.children.tolist(), n):
        parts[node] = np.vstack([of_left(parts.pop(left)), of_right(parts.pop(right))])
        bias[node] = of_left(bias.pop(left)) + of_right(bias.pop(right)) + added
    root = 2 * n - 2
    composed = np.vstack([parts[root], bias[root]])
    if config.lexical_dim:
        sketches = np.vstack([_sketches(model, tokens, kept), np.zeros(config.lexical_dim)])
        composed = np.hstack([composed, sketches])
    if config.lexical_dim or config.taught_dim:
        scaled = [_of_length(composed[:, start:end], norm) for start, end, norm in config.parts]
        composed = np.hstack(scaled)
    pieces = [model.tokenizer.pieces[token] for token in forest.tokens]
    return [*leaf_labels(text, pieces, spans), "bias"], composed


def _sketches(model: Banyan, tokens: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """What each leaf contributes to the sketch of a text [n, D]. An occurrence that is not a leaf
    counts as one of the last leaf with the same token, and an end mark as part of the leaf before it."""
    if model._words is None:
        return model.weights["lexical"][tokens[kept]]
    number = {place: leaf for leaf, place in enumerate(kept.tolist())}
    last, leaf_of, owners = 0, dict[int, int](), []
    for place, token in enumerate(tokens.tolist()):
        if place in number:
            last = leaf_of[token] = number[place]
        owners.append(leaf_of.get(token, last))
    parts = model._words.contributions(tokens)
    sketches = np.zeros((len(kept), model.config.lexical_dim), parts.dtype)
    np.add.at(sketches, owners, parts)
    return sketches


def _of_length(parts: np.ndarray, length: float) -> np.ndarray:
    """Scale parts so that their sum has this length, unless it is zero."""
    return parts * (length / (np.linalg.norm(parts.sum(0)) or 1))
