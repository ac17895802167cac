"""Tokenised corpora: a folder for each language and tokenizer, with tokenizer.json, store/ and dev/.

A folder that exists is used as it is, so that it can be copied to a machine without the corpus. Delete it to make it
again.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from banyan.config import Config
from banyan.corpus import Corpus
from banyan.corpus.store import Store
from banyan.encoder import TOKENIZER
from banyan.errors import BanyanError
from banyan.support import files
from banyan.support.display import Display
from banyan.tokenizer import Tokenizer
from experiments.data import corpus
from experiments.training import amounts
from experiments.training.spacing import spaced

HELD_OUT = 500  # lines


@dataclass(frozen=True)
class Prepared:
    folder: Path
    tokenizer: Tokenizer
    store: Store
    dev: Store


def prepared(
    language: str, data: Path, work: Path, display: Display, config: Config | None = None, amount: str = ""
) -> Prepared:
    """The prepared corpus of a language, made if needed, with the tokenizer of the settings (default: preset paper).

    amount: of the text, as in amounts.py (default: the whole corpus)."""
    config = config or Config()
    folder = work / name_of(language, config, amount)
    train, dev = _texts(data, language, folder, amount)
    tokenizer = _tokenizer(folder, train, config, display)
    store = _store(folder / "store", train, tokenizer, config, display)
    return Prepared(folder, tokenizer, store, _store(folder / "dev", dev, tokenizer, config, display))


def _texts(data: Path, language: str, folder: Path, amount: str) -> tuple[Path, Path]:
    """The training and the held-out text. Of a corpus without a file of held-out text, the first lines are held out."""
    train, dev = (corpus(data, language, split) for split in ("train", "dev"))
    if amount:
        part = folder / "text" / "train.txt"
        if train.exists() and not part.exists():
            part.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(part, "".join(f"{line}\n" for line in amounts.lines(data, language, amount)))
        if not amount.endswith(amounts.SPACED):
            return part, dev
        held_out = part.with_name("dev.txt")
        if dev.exists() and not held_out.exists():
            with lzma.open(dev, "rt", encoding="utf-8") as lines:
                files.write_text(held_out, "".join(f"{spaced(line)}\n" for line in lines))
        return part, held_out
    if dev.exists() or not train.exists():
        return train, dev
    own = folder / "text"
    paths = own / "train.txt", own / "dev.txt"
    if not all(path.exists() for path in paths):
        own.mkdir(parents=True, exist_ok=True)
        with lzma.open(train, "rt", encoding="utf-8", newline="\n") as lines:
            files.write_text(paths[1], "".join(islice(lines, HELD_OUT)))
            files.write_text(paths[0], "".join(lines))
    return paths


def name_of(language: str, config: Config, amount: str = "") -> str:
    """The name of the folder."""
    usual = Config()
    parts: list[object] = [amount or None]
    parts += [config.subword_model if config.subword_model != usual.subword_model else None, config.vocab_size]
    parts += [f"x{config.vocab_factor:g}" if config.vocab_factor != 1 else None]
    parts += [None if config.zero_digits else "digits"]
    return "-".join(str(part) for part in [language, *parts] if part is not None)


def _tokenizer(folder: Path, corpus: Path, config: Config, display: Display) -> Tokenizer:
    path = folder / TOKENIZER
    if not path.exists():
        _must_exist(corpus, folder)
        display.note(f"training a tokenizer on {corpus}")
        folder.mkdir(parents=True, exist_ok=True)
        Tokenizer.train(
            Corpus(corpus),
            kind=config.subword_model,
            vocab_size=config.vocab_size,
            vocab_factor=config.vocab_factor,
            lowercase=config.lowercase,
            zero_digits=config.zero_digits,
        ).save(path)
    return Tokenizer.from_file(path)


def _store(folder: Path, corpus: Path, tokenizer: Tokenizer, config: Config, display: Display) -> Store:
    if (folder / "meta.json").exists():
        return Store.open(folder)
    _must_exist(corpus, folder.parent)
    with display.bar("tokenising", None, "sentences") as meter:
        return Store.build(
            folder,
            Corpus(corpus, paragraphs=True),
            tokenizer,
            min_pieces=config.min_pieces,
            max_pieces=config.max_pieces,
            progress=meter,
        )


def _must_exist(corpus: Path, folder: Path) -> None:
    if not corpus.exists():
        raise BanyanError(f"there is no corpus {corpus} and no prepared copy in {folder}: check --data and --work")
