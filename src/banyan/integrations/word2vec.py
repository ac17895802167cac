"""The vectors of words in the format of word2vec, which gensim (KeyedVectors), spaCy and fastText read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.model.word_ngrams import LETTERS, spelling
from banyan.support import files

_BLOCK = 8192  # words encoded at a time


def word2vec(model: Banyan, path: str | Path, words: Sequence[str] | None = None) -> int:
    """Write the vectors of words, of length 1, and return how many: binary if the name ends in .bin, else text.

    words: by default, those that are one piece of the vocabulary. Others work as well: every word has a vector."""
    chosen = list(dict.fromkeys(own_words(model) if words is None else words))
    for number, word in enumerate(chosen, 1):
        if not word or any(character.isspace() for character in word):
            raise BanyanError(f"word {number} is {word!r}: word2vec's format has no words with white space")
    path = Path(path)
    write = _binary if path.suffix == ".bin" else _text
    with files.reported(path), files.atomic(path) as temporary, open(temporary, "wb") as file:
        file.write(f"{len(chosen)} {model.dim}\n".encode())
        for line in write(model, iter(chosen)):
            file.write(line)
    return len(chosen)


def own_words(model: Banyan) -> list[str]:
    """The pieces of the vocabulary that are words by themselves, without the mark of white space."""
    spelt, pieces = spelling(model.tokenizer.pieces), model.tokenizer.pieces
    whole = (spelt.begins & (spelt.kind == LETTERS)).nonzero()[0].tolist()
    return [pieces[i].lstrip("▁Ġ") for i in whole]


def _blocks(model: Banyan, words: Iterator[str]) -> Iterator[tuple[str, list[float], bytes]]:
    while block := list(islice(words, _BLOCK)):
        vectors = model.encode(block, normalize=True).astype("<f4")
        yield from ((word, vector.tolist(), vector.tobytes()) for word, vector in zip(block, vectors, strict=True))


def _text(model: Banyan, words: Iterator[str]) -> Iterator[bytes]:
    for word, numbers, _ in _blocks(model, words):
        yield f"{word} {' '.join(f'{number:.6g}' for number in numbers)}\n".encode()


def _binary(model: Banyan, words: Iterator[str]) -> Iterator[bytes]:
    for word, _, numbers in _blocks(model, words):
        yield word.encode() + b" " + numbers + b"\n"
