"""Encoding on CPUs with the native kernels (banyan.native): the same results as those of _numba, up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from banyan.backends.interface import LexicalSums
from banyan.config import SETTINGS
from banyan.model.functions import Functions, per_channel, sigmoid
from banyan.model.graph import KEPT, runs_of_sentences
from banyan.model.leaves import LeafChoice
from banyan.model.whole_words import WordPieces
from banyan.model.word_ngrams import WordNgrams, block_of
from banyan.support import threads
from banyan.tokenizer.tables import PAGES

if TYPE_CHECKING:
    import torch

    from banyan.tokenizer.lookup import Native as Splitting

NONE_KEPT = KEPT[:0]  # all occurrences count
_BEGINS = np.uint8(4)  # in the flags of a piece, beside its kind


class Encoder:
    """Trees over tokens and their roots."""

    def __init__(self, kernels: ModuleType, embedding: np.ndarray, f: Functions, structure: str) -> None:
        def as_used(gate: np.ndarray) -> np.ndarray:
            return gate if gate.ndim == 2 else per_channel(sigmoid(gate), columns)

        columns = embedding.shape[1]
        gates = as_used(f.comp_l), as_used(f.comp_r), per_channel(f.comp_b, columns)
        shape = columns, len(f.comp_b), f.comp_l.ndim == 2
        kind = SETTINGS["structure"].choices.index(structure)
        self.embedding = np.ascontiguousarray(embedding, np.float32)
        self.trees = kernels.Trees(
            self.embedding, *(np.ascontiguousarray(gate, np.float32) for gate in gates), *shape, kind
        )

    def roots(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        out: np.ndarray,
        n_threads: int | None = None,
        joined: np.ndarray | None = None,
    ) -> None:
        _in_runs(self.trees.roots, tokens, offsets, out, n_threads, (joined,))

    def tree(self, tokens: np.ndarray, joined: np.ndarray | None = None) -> np.ndarray:
        children = self.trees.induce(np.ascontiguousarray(tokens, np.int32), joined)
        return np.frombuffer(children, np.int32).reshape(-1, 2)

    def phrases(self, tokens: np.ndarray, children: np.ndarray) -> np.ndarray:
        rows = np.empty((len(tokens) + len(children), self.embedding.shape[1]), np.float32)
        rows[: len(tokens)] = self.embedding[tokens]
        self.trees.compose(np.ascontiguousarray(children, np.int32), rows)
        return rows


class Sums:
    """The lexical dimensions."""

    def __init__(self, lexical: Any) -> None:
        self.lexical = lexical

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        _in_runs(self.lexical.put, tokens, offsets, out, n_threads)


def _in_runs(
    kernel: Any, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None, more: tuple = ()
) -> None:
    tokens, offsets = np.ascontiguousarray(tokens, np.int32), np.ascontiguousarray(offsets, np.int64)
    threads.run(kernel, [(tokens, offsets, out, *run, *more) for run in runs_of_sentences(offsets, 8192)], n_threads)


class Native:
    """The back end for encoding. It does not train."""

    name = "native"
    on_device = False

    def __init__(self, kernels: ModuleType) -> None:
        self.kernels = kernels

    def encoder(
        self, embedding: np.ndarray, functions: Functions, structure: str, device: torch.device | str
    ) -> Encoder:
        return Encoder(self.kernels, embedding, functions, structure)

    def lexical_sums(self, table: np.ndarray, weight: float, device: torch.device | str) -> LexicalSums:
        table = np.ascontiguousarray(table, np.int8)
        return Sums(self.kernels.Lexical(table.shape[1], weight, table, None, 0))

    def word_sums(self, ngrams: WordNgrams, weight: float, device: torch.device | str) -> LexicalSums:
        spelt, kept = ngrams.spelling, KEPT if ngrams.sublinear_tf else NONE_KEPT
        flags = spelt.kind + _BEGINS * spelt.begins.astype(np.uint8)
        arrays = flags, spelt.start, spelt.characters, spelt.value, spelt.factor, ngrams.weights, kept
        return Sums(self.kernels.Lexical(ngrams.dim, weight, None, arrays, block_of(ngrams.dim), ngrams.root))


class Flags(NamedTuple):
    """How leaves are chosen, as the kernels take it."""

    kept: np.ndarray  # the occurrences of a token that are leaves; empty: all
    words: np.ndarray  # uint8 [V]: what each piece can be in a word; empty if words do not matter
    marks: np.ndarray  # uint8 [V]: whether a piece is an end mark; empty if these are leaves

    @classmethod
    def of(cls, choice: LeafChoice) -> Flags:
        none = np.empty(0, np.uint8)
        words = none if choice.words is None else _bits(choice.words)
        marks = none if choice.marks is None else choice.marks.astype(np.uint8)
        return cls(KEPT if choice.sublinear_tf else NONE_KEPT, words, marks)


def _bits(words: WordPieces) -> np.ndarray:
    return words.begins + np.uint8(2) * words.solid + np.uint8(4) * words.blank


def embed(
    split: Splitting,
    encoder: Encoder,
    lexical: Sums | None,
    flags: Flags,
    texts: Sequence[str],
    out: np.ndarray,
) -> np.ndarray:
    """Write the embeddings of texts to `out` on one thread. Return which texts are left to the library `tokenizers`."""
    missing = np.zeros(PAGES, np.uint8)

    def run(texts: Sequence[str], out: np.ndarray) -> np.ndarray:
        left = np.empty(len(texts), np.uint8)
        tables = split.pieces, split.characters, encoder.trees, lexical and lexical.lexical
        split.kernels.embed(*tables, out.shape[1], *flags, texts, out, left, missing)
        return np.flatnonzero(left)

    left = run(texts, out)
    if not split.learn(missing):
        return left
    rows = np.empty((len(left), out.shape[1]), np.float32)
    again = run([texts[i] for i in left], rows)
    out[left] = rows
    return left[again]
