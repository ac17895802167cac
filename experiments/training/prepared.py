"""A language's corpus as training reads it: tokenizer.json, store/ and dev/ in a folder of its own, made once.

Where the folder holds them already they are used as they are, so it can be carried to a machine without the corpus;
delete it to have them made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from banyan.config import Config
from banyan.corpus import Corpus
from banyan.corpus.store import Store
from banyan.encoder import TOKENIZER
from banyan.errors import BanyanError
from banyan.support.display import Display
from banyan.tokenizer import Tokenizer
from experiments.data import corpus


@dataclass(frozen=True)
class Prepared:
    folder: Path
    tokenizer: Tokenizer
    store: Store
    dev: Store


def sources(language: str, data: Path) -> tuple[Path, Path]:
    """The corpus and its held-out part."""
    return corpus(data, language, "train"), corpus(data, language, "dev")


def prepared(language: str, data: Path, work: Path, display: Display, config: Config | None = None) -> Prepared:
    """With the tokenizer that the settings ask for; without them, the usual one."""
    config = config or Config()
    folder = work / name_of(language, config)
    train, dev = sources(language, data)
    tokenizer = _tokenizer(folder, train, config, display)
    store = _store(folder / "store", train, tokenizer, config, display)
    return Prepared(folder, tokenizer, store, _store(folder / "dev", dev, tokenizer, config, display))


def name_of(language: str, config: Config) -> str:
    """Of the folder."""
    usual = Config()
    parts = [config.subword_model if config.subword_model != usual.subword_model else None, config.vocab_size]
    parts += [f"x{config.vocab_factor:g}" if config.vocab_factor != 1 else None]
    parts += [None if config.zero_digits else "digits"]
    return "-".join(str(part) for part in [language, *parts] if part is not None)


def _tokenizer(folder: Path, corpus: Path, config: Config, display: Display) -> Tokenizer:
    path = folder / TOKENIZER
    if not path.exists():
        _must_exist(corpus, folder)
        display.note(f"making a vocabulary of {corpus}")
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
            Corpus(corpus),
            tokenizer,
            min_pieces=config.min_pieces,
            max_pieces=config.max_pieces,
            progress=meter,
        )


def _must_exist(corpus: Path, folder: Path) -> None:
    if not corpus.exists():
        raise BanyanError(f"there is neither {corpus} nor what was prepared of it in {folder}: say --data, or --work")
