"""TF-IDF of character 3- and 4-grams inside words (scikit-learn's char_wb), with sublinear term frequency and cosine.

Its vectors have one dimension per n-gram. They are kept sparse, so this is a Comparer and not an Encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from banyan.baselines import folder as folders
from banyan.baselines.text import check, sentences
from banyan.errors import BanyanError
from banyan.support import files
from banyan.support.display import Display
from banyan.support.needs import needs

LINES = 30_000
_NGRAMS, _IDF = "ngrams.txt", "idf.safetensors"


def train(corpus_paths: Sequence[str | Path], out: str | Path, *, quiet: bool = False, lines: int = LINES) -> None:
    """lines: compute the n-grams and their IDF from this many lines, from the beginning of the text."""
    check(lines=(lines, 1))
    folders.check_new(out)
    model = TfIdf(islice(sentences(corpus_paths, Display(quiet)), lines))
    about = {"ngrams": len(model.vectorizer.vocabulary_)}
    with folders.made(out, folders.Manifest("tfidf", {"lines": lines}, about=about)) as building:
        model.save(building)


def load(folder: str | Path) -> TfIdf:
    return TfIdf.load(Path(folder))


def _vectorizer(**more: Any) -> Any:
    with needs("The TF-IDF baseline", "baselines"):
        from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), sublinear_tf=True, **more)


class TfIdf:
    """A Comparer with sparse vectors."""

    def __init__(self, lines: Iterable[str]) -> None:
        vectorizer = _vectorizer()
        try:
            self.vectorizer = vectorizer.fit(lines)
        except ValueError as error:
            raise BanyanError(f"cannot count character n-grams: {error}") from None

    def rows(self, texts: Sequence[str]) -> Any:
        """Vectors of norm 1, csr_matrix [n, n-grams]."""
        return self.vectorizer.transform(texts)

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        return np.asarray(self.rows(first).multiply(self.rows(second)).sum(1)).ravel()

    def index(self, documents: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
        of_documents = self.rows(documents).T.tocsr()
        return lambda queries: (self.rows(queries) @ of_documents).toarray()

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        numbers = self.vectorizer.vocabulary_
        files.write_text(folder / _NGRAMS, "".join(f"{ngram}\n" for ngram in sorted(numbers, key=numbers.__getitem__)))
        with files.atomic(folder / _IDF) as temporary:
            save_file({"idf": self.vectorizer.idf_}, temporary)

    @classmethod
    def load(cls, folder: Path) -> TfIdf:
        from safetensors.numpy import load_file

        ngrams = (folder / _NGRAMS).read_text(encoding="utf-8").split("\n")[:-1]  # n-grams contain no newlines
        vectorizer = _vectorizer(vocabulary={ngram: number for number, ngram in enumerate(ngrams)})
        vectorizer.idf_ = load_file(folder / _IDF)["idf"]
        model = cls.__new__(cls)  # __init__ would fit a vectorizer
        model.vectorizer = vectorizer
        return model
