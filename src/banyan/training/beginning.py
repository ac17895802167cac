"""The initial weights of a run: statistics of the corpus, or the vectors of a teacher. And what a teacher's lessons say
about tokens that are not in them."""

from __future__ import annotations

import math

import numpy as np
import torch

from banyan.corpus.store import Store
from banyan.model import BanyanModel, initial, lexical, word_ngrams
from banyan.training.passages import Part

RARITY = 1e-3  # relative frequency at which the teacher's vector of a token has half its norm
UNKNOWN = 0.1  # norm of the random vector of a token that the teacher cannot read
RIDGE = 1e-2  # regularisation of the maps into the teacher's space, relative to the mean variance
SEEN, ENOUGH = 5, 50  # occurrences from which a token helps to fit the map, and at which its weight stops growing
PRIOR = 3  # occurrences that the prediction of the map counts for


@torch.no_grad()
def count_leaves(model: BanyanModel, pieces: list[str], text: Part, device: torch.device) -> None:
    """Initialise token vectors and lexical sketches from statistics of a text.

    device: for counting."""
    config = model.config
    some = text[:: math.ceil(text.store.n_tokens / initial.MOST)]
    paragraphs = some.batch()
    sentences = paragraphs[0], np.append(0, some.sentences().spans()[1].cumsum())
    rows = np.zeros((len(pieces), config.dim), np.float32)
    if config.init_sketch:
        rows += config.init_sketch * initial.character_sketches(pieces, *sentences, config.dim, config.seed)
    if config.init_ppmi:
        rows += config.init_ppmi * initial.ppmi_vectors(*paragraphs, len(pieces), config.dim, config.seed, device)
    if config.init_sketch or config.init_ppmi:
        model.embedding.copy_(torch.from_numpy(rows))
    if config.hashes_words:
        spelling = word_ngrams.spelling(pieces)
        model.lexical_idf.copy_(torch.from_numpy(word_ngrams.weights_of(*sentences, spelling)))
    elif config.lexical_dim:  # different random vectors from those of the leaves
        sketches = initial.character_sketches(pieces, *sentences, config.lexical_dim, config.seed + 1)
        model.lexical.copy_(torch.from_numpy(lexical.rounded(sketches)))


def from_pieces(vectors: np.ndarray, tokens: np.ndarray, seed: int) -> np.ndarray:
    """Leaves from a teacher's vectors of the pieces [V, T]: shorter for frequent tokens, random where it has none."""
    share = np.bincount(tokens, minlength=len(vectors)) / max(len(tokens), 1)
    random = np.random.default_rng(seed).standard_normal(vectors.shape, np.float32)
    random *= UNKNOWN / math.sqrt(vectors.shape[1])
    known = np.linalg.norm(vectors, axis=1, keepdims=True) > 0
    return np.where(known, vectors * (RARITY / (RARITY + share))[:, None], random).astype(np.float32)


def mapped(leaves: np.ndarray, store: Store, targets: np.ndarray) -> np.ndarray:
    """Leaves in a teacher's space [V, T]: a linear map of given leaves [V, E], fitted by ridge regression of the texts'
    targets on the normalised sums of their leaves. Tokens that no text contains are mapped, too."""
    E, T = leaves.shape[1], targets.shape[1]
    square, product = np.zeros((E, E)), np.zeros((E, T))
    for start in range(0, len(store), 8192):
        chosen = np.arange(start, min(start + 8192, len(store)))
        tokens, offsets = store.batch(chosen)
        sums = np.add.reduceat(leaves[tokens], offsets[:-1], axis=0)
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        square += sums.T @ sums
        product += sums.T @ np.asarray(targets[chosen], np.float32)
    square[np.diag_indices(E)] += RIDGE * np.trace(square) / E
    return (leaves @ np.linalg.solve(square, product)).astype(np.float32)


def carried_over(taught: np.ndarray, own: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Taught leaves [V, T] of all tokens, from those of the tokens in the lessons.

    A linear map from a token's own leaf [V, E] to its taught leaf, fitted on the tokens that the lessons contain often,
    predicts the leaf of every token. The rarer a token is in the lessons, the more the prediction counts."""
    count = np.bincount(tokens, minlength=len(own)).astype(np.float64)
    weight = np.where(count >= SEEN, np.minimum(count, ENOUGH), 0.0)[:, None]
    features = np.hstack([own / max(own.std(), 1e-12), np.ones((len(own), 1))]).astype(np.float64)
    square = features.T @ (features * weight)
    square[np.diag_indices(len(square))] += RIDGE * max(np.trace(square) / len(square), 1e-12)
    predicted = features @ np.linalg.solve(square, (features * weight).T @ taught)
    share = (count / (count + PRIOR))[:, None]
    return (share * taught + (1 - share) * predicted).astype(np.float32)
