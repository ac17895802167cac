"""train(): check what was asked for, prepare the text, run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.config import Config
from banyan.corpus import Corpus, Shard
from banyan.corpus.store import Store, Text, of_all_shards, shard
from banyan.corpus.textfile import kind
from banyan.encoder import TOKENIZER, WEIGHTS, Banyan, load_weights
from banyan.errors import BanyanError
from banyan.evaluate.similarity import read_pairs
from banyan.model import BanyanModel
from banyan.support import devices
from banyan.support.display import COMPILING, Display
from banyan.tokenizer import Tokenizer
from banyan.training.distributed import Processes
from banyan.training.folder import Given, RunFolder
from banyan.training.run import Run

if TYPE_CHECKING:
    pass

def train(
    corpus: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    preset: str | None = None,
    column: str | None = None,
    layout: str = "auto",
    dev: str | Path | None = None,
    pairs: str | Path | None = None,
    tokenizer: str | Path | None = None,
    init: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = 60,
    device: str = "auto",
    precision: str = "auto",
    deterministic: bool = False,
    tensorboard: bool = False,
    quiet: bool = False,
    **overrides: Any,
) -> Banyan:
    """Train a model on a corpus and write it to the folder `out`. Without a preset, that is `default`.

    corpus: files, folders, globs, "-" or hf:name, as Corpus reads them (`column`, `layout`).
    dev: held-out text for the loss after each epoch; without it, 1% of the corpus is held out.
    pairs: two sentences and a score a line; their correlation is shown after each epoch.
    tokenizer: a tokenizer.json or SentencePiece .model to use instead of training one.
    init: a finished model whose tokenizer and weights to start from.
    resume: go on where an interrupted run stopped (or start, if there is none), with its settings; epochs may be more.
    overwrite: start again where `out` holds a model or a run.
    device: auto (the accelerator that torch finds, else the CPU), cpu, cuda, cuda:1, mps, xpu. A run begun on one
        device may be resumed on another.
    precision: of the output layer: auto (the fastest that the device has), float32, tf32 or bf16.
    deterministic: the same seed gives the same bits on a GPU too, as it always does on the CPU.
    overrides: any setting of Config.

    Started several times by torchrun, the processes train one model together (docs/many-machines.md).
    """
    us = Processes.of_environment()
    place = devices.choose(device, us.local_rank if us.several else None)
    with us.joined(place), devices.using(place, deterministic), ExitStack() as stack:
        display = Display(quiet or not us.first)
        folder = RunFolder(Path(out), us.world)

        with us.together():
            folder.refuse_to_lose(resume, overwrite)
        with folder.copies() if not us.several else nullcontext() as spool:
            with us.together():  # whatever may be wrong with what was given is found before anything is changed
                given = Given.of(dev=dev, pairs=pairs, tokenizer=tokenizer, init=init)
                config, given = folder.settle(preset, overrides, given, resume)
                chosen = devices.choose_precision(precision, place, config.matrix_width)
                text = _text(corpus, column, layout, spool, us)
                dev_text = _dev_text(given.dev, column, layout, spool, us) if given.dev else None
                scored = read_pairs(given.pairs) if given.pairs else None
                own = folder.work / TOKENIZER
                begun = resume and own.exists()
                made = Tokenizer.from_file(own) if begun else _given_tokenizer(given, config)
                source = Path(given.init) / WEIGHTS if given.init else None
                weights = load_weights(source, config, made.vocab_size) if source and made else {}
                share = _share(config.batch_size, us)

            with us.together():
                if us.first:  # it alone holds the folder, for all of them
                    stack.enter_context(folder.held())
                    folder.begin(config, given, resume, overwrite)
                    for copied in filter(None, (text, dev_text)):
                        copied.move_copies(folder.work)

        with us.together():
            if us.first:
                display.note(text.layout_reason)
                made = made or _made_tokenizer(text, config, display)
                if not begun:
                    made.save(own)
                display.note(f"vocabulary of {made.vocab_size:,} pieces")

        with us.together():
            pieces = made or Tokenizer.from_file(own)
            where = folder.work / "store"
            mine = Shard(text, us.rank, us.world) if us.several else text
            store = _store(shard(where, us.rank, us.world), mine, pieces, config, display)
            dev_text = dev_text if us.first else None
            dev_store = _store(folder.work / "dev", dev_text, pieces, config, display) if dev_text else None

        with us.together():
            report = of_all_shards(where, us.world) if us.several and us.first else store.report
            display.note(report.summary())
            model = BanyanModel(config, pieces.vocab_size).to(place)
            model.precision = chosen
            run = Run(folder, model, pieces, store, dev_store, scored, share, report, display, us)
        run.start_from(weights)
        with closing(run):
            run.go(checkpoint_seconds, tensorboard)
            with us.together():
                return run.finish()


def _text(
    sources: str | Path | Sequence[str | Path], column: str | None, layout: str, spool: Path | None, us: Processes
) -> Corpus:
    names = [sources] if isinstance(sources, str | Path) else list(sources)
    if us.several and "-" in map(str, names):
        raise BanyanError(f"{us.world} processes cannot all read standard input: write it to a file first")
    return Corpus(names, column=column, layout=layout, spool=spool)


def _dev_text(dev: str, column: str | None, layout: str, spool: Path | None, us: Processes) -> Corpus:
    """The held-out text; the column is meant for it too if it is a table."""
    is_text = kind(Path(dev)) in ("text", None)
    return _text(dev, None if is_text else column, layout, spool, us)


def _share(batch_size: int, us: Processes) -> int:
    """The sentences of a step that each process takes."""
    if batch_size % us.world:
        raise BanyanError(f"{us.world} processes cannot share batch_size {batch_size}: choose a multiple of {us.world}")
    return batch_size // us.world


def _given_tokenizer(given: Given, config: Config) -> Tokenizer | None:
    """The one that was asked for, or that of the model to start from."""
    source = Path(given.init) / TOKENIZER if given.init else given.tokenizer
    if source is None:
        return None
    return Tokenizer.from_file(source, lowercase=config.lowercase, zero_digits=config.zero_digits)


def _made_tokenizer(corpus: Corpus, config: Config, display: Display) -> Tokenizer:
    display.note(f"making a {config.subword_model} vocabulary of the corpus")
    with display.patience(COMPILING, 15):
        return Tokenizer.train(
            corpus,
            kind=config.subword_model,
            vocab_size=config.vocab_size,
            vocab_factor=config.vocab_factor,
            lowercase=config.lowercase,
            zero_digits=config.zero_digits,
            show_progress=display.live,
        )


def _store(folder: Path, corpus: Text, tokenizer: Tokenizer, config: Config, display: Display) -> Store:
    with display.bar("tokenising", None, "sentences") as meter:
        return Store.build(
            folder,
            corpus,
            tokenizer,
            min_pieces=config.min_pieces,
            max_pieces=config.max_pieces,
            progress=meter,
        )


