"""Text vectors from word vectors: the mean, the mean without stop words, or SIF.

SIF (Arora, Liang and Ma 2017, "A simple but tough-to-beat baseline for sentence embeddings"): each word has the weight
a / (a + p(word)), where p is its relative frequency and a = 0.001, and the first principal component of the sentence
vectors is removed. The component is computed from the training corpus, so the vector of a text does not depend on the
other texts of an evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from banyan.backends._numba import kernel
from banyan.baselines.text import Coded, Vocabulary, words
from banyan.errors import BanyanError
from banyan.support import files, threads
from banyan.support.needs import needs

VECTORS, WORDS = "vectors.safetensors", "words.txt"
WEIGHTINGS = ("mean", "content", "sif")
SIF_A = 1e-3
SIF_SENTENCES = 50_000  # for the common component, evenly spread over the corpus
_TEXTS = 1024  # texts per job of the thread pool


@kernel
def _means(table, extra, ids, offsets, weights, out):
    """The weighted mean of each text's rows. Ids from len(table) on are rows of `extra`, which have weight 1."""
    size = len(table)
    for text in range(len(out)):
        total = np.float32(0)
        row = out[text]
        for at in range(offsets[text], offsets[text + 1]):
            known = ids[at] < size
            weight = weights[ids[at]] if known else np.float32(1)
            vector = table[ids[at]] if known else extra[ids[at] - size]
            total += weight
            for j in range(len(row)):
                row[j] += weight * vector[j]
        if total > 0:
            for j in range(len(row)):
                row[j] /= total


def means(
    table: np.ndarray, ids: np.ndarray, offsets: np.ndarray, weights: np.ndarray, extra: np.ndarray | None = None
) -> np.ndarray:
    """The weighted means of n texts, float32 [n, E]; zeros for a text without rows."""
    out = np.zeros((len(offsets) - 1, table.shape[1]), np.float32)
    more = np.zeros((0, table.shape[1]), np.float32) if extra is None else extra
    jobs = [
        (table, more, ids, offsets[start : start + _TEXTS + 1], weights, out[start : start + _TEXTS])
        for start in range(0, len(out), _TEXTS)
    ]
    threads.run(_means, jobs)
    return out


def stop_words() -> frozenset[str]:
    """The stop words of the weighting "content": scikit-learn's ENGLISH_STOP_WORDS (318 words, English only)."""
    with needs("The list of stop words", "baselines"):
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def weights_of(vocabulary: Vocabulary, weighting: str) -> np.ndarray:
    """The weights of the words, float32 [V]."""
    if weighting == "mean":
        return np.ones(len(vocabulary), np.float32)
    if weighting == "content":
        stop = stop_words()
        return np.array([word.lower() not in stop for word in vocabulary.words], np.float32)
    if weighting == "sif":
        share = vocabulary.counts / max(int(vocabulary.counts.sum()), 1)
        return (SIF_A / (SIF_A + share)).astype(np.float32)
    raise BanyanError(f"there is no weighting {weighting!r}: choose one of {', '.join(WEIGHTINGS)}")


def common_component(table: np.ndarray, weights: np.ndarray, text: Coded) -> np.ndarray:
    """The first principal component of the sentences (not centred, as in the paper), float32 [E], of norm 1."""
    chosen = np.unique(np.linspace(0, len(text) - 1, SIF_SENTENCES).astype(np.int64))
    total = np.zeros((table.shape[1], table.shape[1]))
    for some in np.array_split(chosen, max(len(chosen) // 8192, 1)):
        counts = text.offsets[some + 1] - text.offsets[some]
        ends = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(ends[-1]) + np.repeat(text.offsets[some] - ends[:-1], counts)
        rows = means(table, text.tokens[places], ends, weights).astype(np.float64)
        total += rows.T @ rows
    return np.linalg.eigh(total)[1][:, -1].astype(np.float32)


@dataclass(frozen=True)
class WordVectors:
    """An Encoder. A text without known words is zeros; a text of only stop words is their mean."""

    vocabulary: Vocabulary
    table: np.ndarray  # float32 [V, E]
    weights: np.ndarray  # float32 [V]
    common: np.ndarray | None = None  # float32 [E]: the component to remove

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", {word: number for number, word in enumerate(self.vocabulary.words)})

    @classmethod
    def of(cls, table: np.ndarray, text: Coded, weighting: str) -> WordVectors:
        weights = weights_of(text.vocabulary, weighting)
        common = common_component(table, weights, text) if weighting == "sif" else None
        return cls(text.vocabulary, table, weights, common)

    @property
    def dim(self) -> int:
        return self.table.shape[1]

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of the texts, float32 [n, E]."""
        ids, offsets, extra = self._looked_up(texts)
        vectors = means(self.table, ids, offsets, self.weights, extra)
        unweighted = ~vectors.any(axis=1)
        if unweighted.any():
            ones = np.ones_like(self.weights)
            vectors[unweighted] = means(self.table, ids, offsets, ones, extra)[unweighted]
        if self.common is not None:
            vectors -= np.outer((vectors * self.common).sum(axis=1), self.common)
        return vectors

    def _looked_up(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The rows of all words of the texts, the offsets of each text, and vectors of unknown words (fastText's)."""
        numbers: dict[str, int] = self._numbers  # type: ignore[attr-defined]
        lower = self.vocabulary.lower
        found = [[numbers[word] for word in words(text, lower) if word in numbers] for text in texts]
        return *ragged(found), None

    def save(self, folder: Path) -> None:
        arrays = {"vectors": self.table, "weights": self.weights}
        save(folder, self.vocabulary, arrays | ({} if self.common is None else {"common": self.common}))

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        vocabulary, arrays = load(folder)
        return cls(vocabulary, arrays["vectors"], arrays["weights"], arrays.get("common"))


def ragged(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The rows concatenated (int64), and the offsets of each row."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return np.array([number for row in rows for number in row], np.int64), offsets


def save(folder: Path, vocabulary: Vocabulary, arrays: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with files.atomic(folder / VECTORS) as temporary:
        save_file(contiguous, temporary, {"lower": str(int(vocabulary.lower))})
    files.write_text(folder / WORDS, vocabulary.to_text())


def load(folder: str | Path) -> tuple[Vocabulary, dict[str, np.ndarray]]:
    from safetensors import SafetensorError, safe_open

    path = Path(folder) / VECTORS
    try:
        with safe_open(path, "np") as file:
            lower = bool(int((file.metadata() or {})["lower"]))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise BanyanError(f"cannot read {path}: {error}; train the baseline again") from None
    vocabulary = Vocabulary.from_text(Path(folder) / WORDS, lower)
    if len(vocabulary) > len(arrays["vectors"]):
        raise BanyanError(f"{folder} is damaged: {WORDS} has more words than {VECTORS} has vectors")
    return vocabulary, arrays
