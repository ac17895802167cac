"""fastText (Bojanowski et al. 2017): the vector of a word is the mean of its own vector and its character n-grams'.

gensim trains it. Published vectors are read from .vec files (text, one word and its numbers per line, most frequent
words first); word frequencies then come from the corpus. A text is a SIF-weighted mean of its words
(banyan.baselines.vectors). With vectors trained here, an unknown word is the mean of its n-grams. A .vec file has no
n-grams, so unknown words are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from banyan.baselines import folder as folders
from banyan.baselines.text import Coded, check, coded, coded_as, sentences, words
from banyan.baselines.vectors import WordVectors, ragged, save, weights_of
from banyan.baselines.vectors import load as load_arrays
from banyan.errors import BanyanError
from banyan.support import threads
from banyan.support.display import Display, Meter
from banyan.support.needs import needs

SHORTEST, LONGEST = 3, 6  # lengths of the n-grams of "<word>"


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    vectors: str = "",
    most: int = 200_000,
    dim: int = 256,
    window: int = 5,
    epochs: int = 5,
    negatives: int = 5,
    buckets: int = 500_000,
    min_count: int = 5,
    lower: bool = True,
    weighting: str = "sif",
    seed: int = 0,
) -> None:
    """Train word vectors on the text, or use published ones.

    vectors: a published .vec file, of which the first `most` words are read. It replaces training: dim, window, epochs,
    negatives, buckets, min_count and seed then have no effect. Most published vectors need lower=no.
    buckets: vectors for hashed n-grams; each takes 4 * dim bytes.
    weighting: "sif", "mean", or "content" (mean without scikit-learn's ENGLISH_STOP_WORDS).
    gensim's training is reproducible only with one thread (BANYAN_THREADS=1).
    """
    check(most=(most, 1), dim=(dim, 1), window=(window, 1), epochs=(epochs, 1), negatives=(negatives, 1))
    check(buckets=(buckets, 1), min_count=(min_count, 1))
    settings = {name: value for name, value in locals().items() if name not in ("corpus_paths", "out", "quiet")}
    folders.check_new(out)
    display = Display(quiet)
    texts = sentences(corpus_paths, display)
    ngrams = None
    if vectors:
        spelt, table = read_vec(vectors, most)
        text = coded_as(texts, spelt, lower)
    else:
        text = coded(texts, min_count, lower)
        weights_of(text.vocabulary, weighting)  # refuse an unknown weighting before training
        table, ngrams = _trained(text, dim, window, epochs, negatives, buckets, seed, display)
    made = FastText.of_tables(table, ngrams, text, weighting)
    about = {"words": len(text.vocabulary), "tokens": len(text.tokens), "dim": table.shape[1]}
    with folders.made(out, folders.Manifest("fasttext", settings, about=about)) as building:
        made.save(building)


def load(folder: str | Path) -> FastText:
    vocabulary, arrays = load_arrays(folder)
    return FastText(vocabulary, arrays["vectors"], arrays["weights"], arrays.get("common"), arrays.get("ngrams"))


@dataclass(frozen=True)
class FastText(WordVectors):
    """An Encoder."""

    ngrams: np.ndarray | None = None  # float32 [buckets, E]

    @classmethod
    def of_tables(cls, table: np.ndarray, ngrams: np.ndarray | None, text: Coded, weighting: str) -> FastText:
        made = WordVectors.of(table, text, weighting)
        return cls(made.vocabulary, table, made.weights, made.common, ngrams)

    def _looked_up(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        if self.ngrams is None:
            return super()._looked_up(texts)
        numbers: dict[str, int] = self._numbers  # type: ignore[attr-defined]
        unknown: dict[str, int] = {}
        rows = [
            [
                numbers[word] if word in numbers else unknown.setdefault(word, len(self.table) + len(unknown))
                for word in words(text, self.vocabulary.lower)
            ]
            for text in texts
        ]
        spelt = [self.ngrams[buckets_of(word, len(self.ngrams))] for word in unknown]
        extra = np.stack([vectors.sum(0) / max(len(vectors), 1) for vectors in spelt]) if spelt else None
        return *ragged(rows), extra

    def save(self, folder: Path) -> None:
        arrays = {"vectors": self.table, "weights": self.weights, "common": self.common, "ngrams": self.ngrams}
        save(folder, self.vocabulary, {name: array for name, array in arrays.items() if array is not None})


def buckets_of(word: str, buckets: int) -> list[int]:
    """The buckets of a word's n-grams. fastText hashes with 32-bit FNV-1a and treats bytes as signed."""
    found = []
    characters = [character.encode("utf-8", "surrogatepass") for character in f"<{word}>"]
    for start in range(len(characters)):
        value = 2166136261
        for n, character in enumerate(characters[start : start + LONGEST], 1):
            for byte in character:
                value = ((value ^ (byte | (0xFFFFFF00 if byte > 127 else 0))) * 16777619) & 0xFFFFFFFF
            if n >= SHORTEST:
                found.append(value % buckets)
    return found


# --- Training with gensim --------------------------------------------------------------------------------------------


class _Sentences:
    """A corpus as gensim reads it: an iterable of lists of words that can be read repeatedly. Updates the meter."""

    def __init__(self, text: Coded, meter: Meter) -> None:
        self.text, self.meter, self.taken = text, meter, 0

    def __iter__(self) -> Iterator[list[str]]:
        spelt, tokens, offsets = self.text.vocabulary.words, self.text.tokens, self.text.offsets.tolist()
        for start, end in pairwise(offsets):
            self.taken += 1
            if self.taken % 10_000 == 0:
                self.meter(self.taken)
            if end > start:
                yield [spelt[token] for token in tokens[start:end].tolist()]


def _trained(
    text: Coded, dim: int, window: int, epochs: int, negatives: int, buckets: int, seed: int, display: Display
) -> tuple[np.ndarray, np.ndarray]:
    """Train; return the vectors of words [V, E] and of n-grams [buckets, E]."""
    with needs("The fastText baseline", "baselines"):
        from gensim.models import FastText as Gensim

    model = Gensim(
        vector_size=dim,
        window=window,
        sg=1,
        negative=negatives,
        min_count=1,
        min_n=SHORTEST,
        max_n=LONGEST,
        bucket=buckets,
        workers=threads.available(),
        seed=seed,
    )
    model.build_vocab_from_freq(dict(zip(text.vocabulary.words, text.vocabulary.counts.tolist(), strict=True)))
    with display.bar("training", epochs * len(text), "sentences") as meter:
        taken = _Sentences(text, meter)
        model.train(corpus_iterable=taken, total_examples=len(text), total_words=len(text.tokens), epochs=epochs)
    order = [model.wv.key_to_index[word] for word in text.vocabulary.words]
    return model.wv.vectors[order], model.wv.vectors_ngrams


# --- Published vectors -----------------------------------------------------------------------------------------------


def read_vec(path: str | Path, most: int) -> tuple[list[str], np.ndarray]:
    """The first `most` words of a .vec file and their vectors [n, E].

    The header "words dimensions" of fastText is optional; GloVe's files have none. If a word occurs twice, the first
    vector is used.
    """
    spelt: dict[str, np.ndarray] = {}
    dim = None
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(islice(file, most + 1), 1):
                parts = line.rstrip("\r\n").rstrip(" ").split(" ")
                if number == 1 and len(parts) == 2 and all(part.isdecimal() for part in parts):
                    continue
                dim = dim or len(parts) - 1
                vector = _numbers(parts[-dim:]) if len(parts) > dim else None
                if vector is None:
                    raise BanyanError(f"{path}, line {number}: expected a word and {dim} numbers, separated by spaces")
                if len(parts) == dim + 1 and len(spelt) < most:  # GloVe's files have some "words" with spaces
                    spelt.setdefault(parts[0], vector)
    except (OSError, UnicodeError) as error:
        raise BanyanError(f"cannot read vectors from {path}: {error}") from None
    if len(spelt) < 2:
        raise BanyanError(f"{path} has {len(spelt)} word vectors; is it a .vec file?")
    return list(spelt), np.stack(list(spelt.values()))


def _numbers(values: list[str]) -> np.ndarray | None:
    try:
        vector = np.array(values, np.float32)
    except ValueError:
        return None
    return vector if len(vector) and np.isfinite(vector).all() else None
