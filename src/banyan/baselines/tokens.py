"""A tokenised corpus for training transformers, with batches of sentences of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from banyan.config import Config
from banyan.corpus import Corpus
from banyan.corpus.store import Store, shuffled_batches
from banyan.encoder import TOKENIZER
from banyan.errors import BanyanError
from banyan.support.display import Display
from banyan.tokenizer import Tokenizer

POOL = 50  # batches whose sentences are sorted by length together
ROUND = 8  # batch widths are multiples of this, which suits GPUs
HELD_OUT, HELD_OUT_SHARE = 1000, 100  # one sentence in 100 is held out, at most 1000
_DECODED = 10_000  # sentences at a time


@dataclass(frozen=True)
class Sentences:
    """Some sentences of a store, with the special tokens that a transformer adds to them."""

    store: Store
    indices: np.ndarray  # of the sentences in the store
    before: tuple[int, ...]  # special tokens at the start of a text
    after: tuple[int, ...]  # and at its end
    pad: int

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def lengths(self) -> np.ndarray:
        offsets = np.asarray(self.store.offsets)
        return offsets[self.indices + 1] - offsets[self.indices]

    def batch(self, chosen: np.ndarray, longest: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Token ids [n, width]; a mask of real tokens (not padding); a mask of text (neither padding nor special).

        longest: truncate sentences to this many tokens, including special ones.
        """
        pieces, offsets = self.store.batch(self.indices[chosen])
        lengths = np.diff(offsets)
        own = len(self.before) + len(self.after)
        kept = lengths if longest is None else np.minimum(lengths, longest - own)
        width = -(-(int(kept.max()) + own) // ROUND) * ROUND
        column, start = np.arange(width), len(self.before)
        real = column < kept[:, None] + own
        text = (column >= start) & (column < kept[:, None] + start)
        ids = np.full(real.shape, self.pad, np.int64)
        ids[:, :start] = self.before
        ids[text] = pieces[np.arange(len(pieces)) - np.repeat(offsets[:-1], lengths) < np.repeat(kept, lengths)]
        ids[real & (column >= kept[:, None] + start)] = np.tile(self.after, len(kept))
        return ids, real, text

    def parts(self, seed: int) -> tuple[Sentences, Sentences]:
        """The sentences to train on, and the held-out ones."""
        (order,) = shuffled_batches(len(self), len(self), seed, epoch=2**32)  # an epoch that no run reaches
        out = min(len(self) // HELD_OUT_SHARE, HELD_OUT)
        if not out:
            raise BanyanError(f"{len(self)} sentences are too few to train on: at least {HELD_OUT_SHARE} are needed")
        train, held_out = np.sort(order[out:]), np.sort(order[:out])
        rest = (self.before, self.after, self.pad)
        return Sentences(self.store, self.indices[train], *rest), Sentences(self.store, self.indices[held_out], *rest)


def by_length(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Batches of indices of sentences of similar length, in random order: a function of (seed, epoch)."""
    pools = shuffled_batches(len(lengths), POOL * batch_size, seed, epoch)
    ranked = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[start : start + batch_size] for pool in ranked for start in range(0, len(pool), batch_size)]
    (order,) = shuffled_batches(len(batches), len(batches), seed, epoch, rank=1)  # rank=1: a different random stream
    return [batches[number] for number in order]


def is_prepared(paths: Sequence[str | Path]) -> bool:
    """Whether a corpus is one folder with a tokenizer.json and the store/ tokenised with it."""
    return len(paths) == 1 and all((Path(paths[0]) / name).exists() for name in (TOKENIZER, "store/meta.json"))


def made_tokenizer(paths: Sequence[str | Path], vocab_size: int, display: Display) -> Tokenizer:
    """The tokenizer of a prepared corpus, or one trained on the text (vocab_size 0: chosen from the corpus size)."""
    if is_prepared(paths):
        return Tokenizer.from_file(Path(paths[0]) / TOKENIZER)
    display.note("training a BPE tokenizer on the corpus")
    return Tokenizer.train(Corpus(list(paths)), vocab_size=vocab_size or None)


def sentences(
    paths: Sequence[str | Path], work: Path, pieces: Tokenizer, special: Any, display: Display
) -> Sentences:
    """The tokenised corpus: a prepared one as it is, or one tokenised with `pieces` into a store in the folder `work`.

    special: the transformers tokenizer with the same subwords, which defines the special tokens.
    """
    if is_prepared(paths):
        folder = Path(paths[0])
        known = Tokenizer.from_file(folder / TOKENIZER).pieces
        if known != pieces.pieces[: len(known)]:  # special tokens may follow
            raise BanyanError(f"{folder} was tokenised with a different tokenizer than the model's: give the text")
        store = Store.open(folder / "store")
    else:
        limits = Config()
        with display.bar("tokenising", None, "sentences") as meter:
            store = Store.build(
                work / "store",
                Corpus(list(paths), spool=work),
                pieces,
                min_pieces=limits.min_pieces,
                max_pieces=limits.max_pieces,
                progress=meter,
            )
    return Sentences(store, np.arange(len(store)), *around(special))


def texts(paths: Sequence[str | Path]) -> Iterator[str]:
    """The sentences of a corpus; those of a prepared one are decoded from its tokens."""
    if not is_prepared(paths):
        yield from Corpus(list(paths))
        return
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(paths[0]) / TOKENIZER))
    store = Store.open(Path(paths[0]) / "store")
    for start in range(0, len(store), _DECODED):
        pieces, offsets = store.batch(np.arange(start, min(start + _DECODED, len(store))))
        yield from tokenizer.decode_batch([part.tolist() for part in np.split(pieces, offsets[1:-1])])


def around(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The special tokens that a tokenizer adds before and after a text, and its padding token."""
    marked = tokenizer("a", return_special_tokens_mask=True)
    text = np.flatnonzero(np.equal(marked["special_tokens_mask"], 0))
    ids = marked["input_ids"]
    return tuple(ids[: text[0]]), tuple(ids[text[-1] + 1 :]), tokenizer.pad_token_id
