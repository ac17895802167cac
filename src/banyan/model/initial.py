"""Initial token vectors from statistics of the corpus.

character_sketches  a random projection of TF-IDF over character n-grams: each n-gram has a random vector, scaled by its
                    inverse document frequency, and a token's sketch is the sum over its n-grams
ppmi_vectors        leading eigenvectors of the matrix of positive pointwise mutual information (PPMI) of co-occurring
                    tokens; the vectors of frequent tokens are shortened
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from banyan.support import threads
from banyan.support.compiling import njit
from banyan.support.needs import needs
from banyan.tokenizer.rules import BYTES

SHORTEST, LONGEST = 3, 4  # n-grams
SAMPLE = 30_000  # sentences from which document frequencies are estimated
MOST = 30_000_000  # tokens of the corpus that are counted
NEAR = 30  # tokens to either side, weighted by distance
SMOOTH = 0.875  # context distribution smoothing: the power of the expected frequencies, which tempers rare tokens
RARE = 1e-4  # relative frequency at which a token's PPMI vector has half its norm
ROUNDS, SPARE = 4, 16  # rounds of subspace iteration; dimensions beyond those that are kept
BLOCK = 1024  # rows of a dense block
_BYTES = frozenset(BYTES)


# --- Character n-gram sketches ---------------------------------------------------------------------------------------


def ngrams_of(piece: str) -> list[str]:
    """The n-grams of a piece, with a mark at either end. The name of a byte is its only n-gram."""
    if piece in _BYTES:
        return [piece]
    marked = f"<{piece}>"
    sizes = range(SHORTEST, min(LONGEST, len(marked)) + 1)
    return [marked[start : start + n] for n in sizes for start in range(len(marked) - n + 1)]


def character_sketches(
    pieces: Sequence[str], tokens: np.ndarray, offsets: np.ndarray, dim: int, seed: int
) -> np.ndarray:
    """Sketches of all pieces [V, dim], with a mean norm of 1."""
    with needs("Training", "train"):
        from scipy.sparse import csr_matrix

    found = [ngrams_of(piece) for piece in pieces]
    numbers = {ngram: i for i, ngram in enumerate(dict.fromkeys(ngram for some in found for ngram in some))}
    ids = np.array([numbers[ngram] for some in found for ngram in some])
    ends = np.cumsum([0, *(len(some) for some in found)])
    having = csr_matrix((np.ones(len(ids), np.float32), ids, ends), (len(pieces), len(numbers)))
    n = min(SAMPLE, len(offsets) - 1)
    sentences = csr_matrix((np.ones(offsets[n], np.float32), tokens[: offsets[n]], offsets[: n + 1]), (n, len(pieces)))
    frequency = np.bincount((sentences @ having).indices, minlength=len(numbers))
    rarity = np.log((n + 1) / (frequency + 1)) + 1
    random = np.random.default_rng(seed).standard_normal((len(numbers), dim), np.float32)
    sketches = having @ (random * rarity[:, None].astype(np.float32))
    return sketches / np.linalg.norm(sketches, axis=1).mean()


# --- Co-occurrence ---------------------------------------------------------------------------------------------------


def ppmi_vectors(
    tokens: np.ndarray, offsets: np.ndarray, vocab_size: int, dim: int, seed: int, device: torch.device
) -> np.ndarray:
    """Co-occurrence vectors of tokens [V, dim]: norm 1 for rare tokens, 0 for tokens without neighbours."""
    matrix = ppmi_matrix(tokens, offsets, vocab_size, device)
    values, vectors = _eigen(matrix, min(dim, vocab_size), seed)
    has_some = matrix.crow_indices().diff() > 0  # otherwise the row is rounding noise and must not be normalised
    rows = torch.nn.functional.normalize(vectors * values.abs().sqrt() * has_some[:, None]).cpu().numpy()
    share = np.bincount(tokens, minlength=vocab_size) / max(len(tokens), 1)
    rows = rows * (RARE / (RARE + share))[:, None]
    return np.pad(rows, ((0, 0), (0, dim - rows.shape[1]))).astype(np.float32)


def ppmi_matrix(tokens: np.ndarray, offsets: np.ndarray, vocab_size: int, device: torch.device) -> Tensor:
    """Positive pointwise mutual information of tokens within NEAR of each other: sparse [V, V]."""
    tokens = tokens.astype(np.int32)
    lengths = np.diff(offsets)
    place = np.arange(len(tokens)) - np.repeat(offsets[:-1], lengths)
    before = np.minimum(place, NEAR).astype(np.int8)
    after = np.minimum(np.repeat(lengths, lengths) - 1 - place, NEAR).astype(np.int8)
    order = np.argsort(tokens, kind="stable")
    starts = np.searchsorted(tokens[order], np.arange(vocab_size + 1))
    weight = np.concatenate([[0], np.arange(NEAR, 0, -1) / NEAR])  # by distance
    met = np.bincount(tokens, weight.cumsum()[before] + weight.cumsum()[after], minlength=vocab_size)
    chance = met**SMOOTH / max((met**SMOOTH).sum() / np.sqrt(max(met.sum(), 1)), 1e-30)
    given = tokens, before, after, order, starts, weight.astype(np.float32), chance
    found = threads.run(_rows, [(rows.start, rows.stop, *given) for rows in threads.shares(vocab_size)])
    counts, columns, values = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    parts = (torch.from_numpy(array).to(device) for array in (np.concatenate([[0], counts.cumsum()]), columns, values))
    with warnings.catch_warnings():  # sparse CSR tensors are in beta
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(*parts, (vocab_size, vocab_size), check_invariants=False)  # type: ignore[call-arg,arg-type]


@njit(cache=True, nogil=True)
def _rows(first, end, tokens, before, after, order, starts, weight, chance):
    """Rows first..end of the matrix: the number of entries of each, their columns and their values."""
    near = np.zeros(len(starts) - 1, np.float32)
    seen = np.empty(len(starts) - 1, np.int64)
    counts = np.zeros(end - first, np.int64)
    room = 1024
    columns, values = np.empty(room, np.int64), np.empty(room, np.float32)
    n = 0
    for token in range(first, end):
        touched = 0
        for k in range(starts[token], starts[token + 1]):
            i = order[k]
            for j in range(i - before[i], i + after[i] + 1):
                if j != i:
                    other = tokens[j]
                    if near[other] == 0:
                        seen[touched] = other
                        touched += 1
                    near[other] += weight[abs(j - i)]
        if n + touched > room:
            room = 2 * (n + touched)
            more_columns, more_values = np.empty(room, np.int64), np.empty(room, np.float32)
            more_columns[:n], more_values[:n] = columns[:n], values[:n]
            columns, values = more_columns, more_values
        for other in np.sort(seen[:touched]):
            value = np.log(near[other] / (chance[token] * chance[other]))
            near[other] = 0
            if value > 0:
                columns[n], values[n] = other, value
                n += 1
                counts[token - first] += 1
    return counts, columns[:n].copy(), values[:n].copy()


def _eigen(matrix: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
    """Approximate the k eigenvalues of largest magnitude of a symmetric matrix, and their vectors [V, k]."""
    generator = torch.Generator().manual_seed(seed)
    size = len(matrix), min(k + SPARE, len(matrix))
    basis = torch.randn(size, generator=generator).to(matrix.device)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(_product(matrix, basis))[0]
    small = (basis.T @ _product(matrix, basis)).double().cpu()  # in float64 on the CPU: solvers may fail on a low rank
    values, vectors = (found.float().to(matrix.device) for found in torch.linalg.eigh(small))
    chosen = values.abs().argsort(descending=True)[:k]
    return values[chosen], basis @ vectors[:, chosen]


def _product(matrix: Tensor, basis: Tensor) -> Tensor:
    """The product with a matrix that may be sparse. It has the same bits every time."""
    return _in_blocks(matrix, basis) if matrix.is_sparse_csr and matrix.is_cuda else matrix @ basis


def _in_blocks(matrix: Tensor, basis: Tensor) -> Tensor:
    """The product with a sparse matrix, some rows at a time as a dense block: CUDA's product of a sparse matrix adds in
    an order that changes from run to run."""
    begins, columns, values = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    made = []
    for first in range(0, len(matrix), BLOCK):
        counts = begins[first : first + BLOCK + 1].diff()
        entries = slice(int(begins[first]), int(begins[first]) + int(counts.sum()))
        block = values.new_zeros(len(counts), matrix.shape[1])
        row = torch.arange(len(counts), device=matrix.device).repeat_interleave(counts)
        block[row, columns[entries]] = values[entries]
        made.append(block @ basis)
    return torch.cat(made)
