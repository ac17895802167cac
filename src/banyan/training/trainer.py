"""train(): check what was asked for, prepare the text, run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from banyan import backends
from banyan.config import DEFAULT_PRESET, SMALL_PRESET, Config, check_names
from banyan.corpus import Corpus, Shard
from banyan.corpus.store import Store, Text, of_all_shards, shard
from banyan.corpus.textfile import file_kind
from banyan.encoder import SETTINGS, TOKENIZER, WEIGHTS, Banyan
from banyan.errors import BanyanError, arguments_of
from banyan.evaluate.similarity import read_pairs
from banyan.folders import is_finished
from banyan.model import BanyanModel
from banyan.model.weights import load_weights
from banyan.support import checksums, devices
from banyan.support.display import Display
from banyan.tokenizer import Tokenizer
from banyan.training import card
from banyan.training.distributed import Processes
from banyan.training.folder import TAUGHT_DIM, Given, RunFolder, with_taught_part
from banyan.training.lessons import Lessons, check_width
from banyan.training.run import Run
from banyan.training.teaching import (
    TEACHING_SETTINGS,
    TRANSLATIONS,
    Teaching,
    freeze,
    width_and_option,
    with_taught_leaves,
    write_sides,
)

LESSONS = "lessons"  # in the folder of a run: what a teacher teaches
LEARNED = "learned"  # the same, with translations: the run that learns the text


def train(
    corpus: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    preset: str | None = None,
    config: Config | None = None,
    column: str | None = None,
    layout: str = "auto",
    dev: str | Path | None = None,
    pairs: str | Path | None = None,
    tokenizer: str | Path | None = None,
    init: str | Path | None = None,
    teacher: str | None = None,
    teacher_lines: int | None = None,
    parallel: str | Path | None = None,
    languages: str = "both",
    language: str | None = None,
    license: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = 60,
    device: str = "auto",
    precision: Literal["auto", "float32", "tf32", "bf16"] = "auto",
    deterministic: bool = False,
    tensorboard: bool = False,
    quiet: bool = False,
    **overrides: Any,
) -> Banyan:
    """Train a model on a corpus and write it to the folder `out`.

    corpus: files, folders, globs, "-" or hf:name, as Corpus reads them (`column`, `layout`).
    preset, overrides: the settings: a preset (default: `default` on a GPU, else `light`), and any setting of Config
        that differs from it.
    config: all settings at once, instead of a preset and overrides.
    dev: held-out text for the loss after each epoch (default: 1% of the corpus).
    pairs: a file of two sentences and a score per line. After each epoch, the Spearman correlation with the scores is
        reported, beside that of TF-IDF and of the model before training. The best epoch is the model.
    tokenizer: a tokenizer.json or SentencePiece .model to use instead of training one.
    init: a finished model whose tokenizer and weights to start from.
    teacher: a model to learn from (a sentence-transformers folder or hub name, the address of an OpenAI-compatible
        /v1/embeddings), or vectors of the corpus's lines (.npy, .parquet). teacher_lines: how many to sample for it.
    parallel: a file of translations. The teacher reads the first side; the model reads both, or only the second
        (languages="second"). It is first trained on the text, unless it starts from a finished model (init).
    language, license: of the text, for the model card: "la" or "la,grc", "cc-by-4.0".
    resume: continue an interrupted run with its settings, or start if there is none. Only epochs may change.
    overwrite: replace the model or the run in `out`.
    checkpoint_seconds: the time between checkpoints.
    device: auto (an accelerator if torch finds one), cpu, cuda, cuda:1, mps or xpu. A resumed run may use another one.
    precision: precision of the output layer: auto (the fastest the device supports), float32, tf32 or bf16.
    deterministic: bit-identical results on a GPU, too. On the CPU they always are.

    Processes started by torchrun train one model together (docs/many-machines.md).
    """
    given = {name: value for name, value in locals().items() if name not in ("corpus", "out", "overrides")}
    check_names(overrides, arguments_of(train))
    if parallel and not init:
        return _text_then_translations(corpus, Path(out), given, overrides)
    return _train(corpus, Path(out), overrides=overrides, **given)


def _train(
    corpus: str | Path | Sequence[str | Path],
    out: Path,
    *,
    preset: str | None,
    config: Config | None,
    column: str | None,
    layout: str,
    dev: str | Path | None,
    pairs: str | Path | None,
    tokenizer: str | Path | None,
    init: str | Path | None,
    teacher: str | None,
    teacher_lines: int | None,
    parallel: str | Path | None,
    languages: str,
    language: str | None,
    license: str | None,
    resume: bool,
    overwrite: bool,
    checkpoint_seconds: float,
    device: str,
    precision: str,
    deterministic: bool,
    tensorboard: bool,
    quiet: bool,
    overrides: dict[str, Any],
) -> Banyan:
    """One run, with all arguments of train()."""
    us = Processes.of_environment()
    place = devices.choose(device, us.local_rank if us.several else None)
    pairs_file, start = (None if path is None else str(path) for path in (parallel, init))
    teaching = Teaching(teacher, teacher_lines, pairs_file, start, languages)
    teaching.check(dev, us.several)
    folder, display = RunFolder(out, us.world), Display(quiet or not us.first)
    preset = teaching.preset(preset, config)
    small = place.type == "cpu" and not (preset or config or (resume and folder.record.exists()))
    settings = _settings(SMALL_PRESET if small else preset, config, overrides) | teaching.beginning(overrides)
    paths = {"dev": dev, "pairs": pairs, "tokenizer": tokenizer, "init": init, **teaching.given()}
    paths |= {"language": language, "license": license}
    with us.joined(place), devices.using(place, deterministic), ExitStack() as stack:
        job = _Job(us, place, folder, display, resume, overwrite, teaching)
        job.begin(stack, _Text(corpus, column, layout), settings, paths, precision)
        if small:
            more = f"--preset {DEFAULT_PRESET} takes many times as long for nearly the same quality"
            display.note(f"no GPU: training with preset {SMALL_PRESET} ({more})")
        job.tokenise()
        return job.run(checkpoint_seconds, tensorboard)


def _text_then_translations(
    corpus: str | Path | Sequence[str | Path], out: Path, given: dict[str, Any], overrides: dict[str, Any]
) -> Banyan:
    """Train on the corpus and the sides of the translations in a folder of its own, unless that is done, then start
    from that model and learn the translations."""
    work = RunFolder(out).work
    learned, resume, overwrite = work / LEARNED, given["resume"], given["overwrite"]
    text = {name: value for name, value in given.items() if name not in ("teacher", "parallel", "languages", "pairs")}
    taught = {name: overrides.pop(name) for name in TEACHING_SETTINGS if name in overrides}
    if not (resume and is_finished(learned)):
        for folder in (out, learned):
            RunFolder(folder).refuse_to_lose(resume, overwrite)
        _check_translations(work, given, _settings(given["preset"], given["config"], overrides), taught)
        sources = [corpus] if isinstance(corpus, str | Path) else list(corpus)
        if text["layout"] == "auto" and "-" not in map(str, sources):  # decided by the corpus, not by the translations
            text["layout"] = Corpus(sources, column=text["column"]).layout
        if text["layout"] == "lines":  # then a line of the corpus is a paragraph, too
            text["layout"] = "tabs"
        write_sides(work, str(given["parallel"]), given["languages"], text["layout"])
        train([*sources, work / TRANSLATIONS], learned, **text, **overrides)
    unused = {"preset": None, "config": None, "column": None, "layout": "lines", "dev": None, "tokenizer": None}
    seed = {"seed": overrides["seed"]} if "seed" in overrides else {}
    return train(work / TRANSLATIONS, out, **{**given, **unused, "init": learned}, **taught, **seed)


def _check_translations(work: Path, given: dict[str, Any], settings: dict[str, Any], taught: dict[str, Any]) -> None:
    """Refuse before the text is learned, which may take hours, what would be refused when the translations are."""
    inputs = Given.of(**{name: given[name] for name in ("teacher", "teacher_lines", "parallel", "languages", "pairs")})
    teaching, display = Teaching.of(inputs), Display(given["quiet"])
    teaching.check(None, Processes.of_environment().several)
    width, config = taught.get("taught_dim", TAUGHT_DIM), Config.from_preset(**settings)
    if config.has_teacher:
        raise BanyanError(
            f"with translations, the preset is that of the text, which has no teacher: leave preset {config.preset} out"
        )
    with_taught_part(config.to_dict(), inputs, width)
    if inputs.pairs:
        read_pairs(inputs.pairs)
    if teaching.teacher:
        teaching.try_out(work / LESSONS, width, "taught-dim", given["device"], display)
    else:
        check_width(config.dim, width, "taught-dim")


def _refuse_to_drop_translations(folder: RunFolder, resume: bool) -> None:
    """A run that was stopped before it came to its translations has not recorded them yet."""
    if resume and not folder.record.exists() and RunFolder(folder.work / LEARNED).record.exists():
        raise BanyanError(
            f"the run in {folder.out} has translations to learn after the text: name them again, with --parallel and "
            "whatever else it began with"
        )


def _settings(preset: str | None, config: Config | None, overrides: dict[str, Any]) -> dict[str, Any]:
    """The settings that were asked for, the preset among them if one was named."""
    if config is None:
        return overrides | ({"preset": preset} if preset else {})
    if preset or overrides:
        extra = ", ".join([*(["preset"] if preset else []), *overrides])
        raise BanyanError(f"config holds every setting: leave out {extra}")
    return config.to_dict()


class _Text(NamedTuple):
    """Where the corpus is, and how to read it."""

    corpus: str | Path | Sequence[str | Path]
    column: str | None
    layout: str


@dataclass
class _Job:
    """A call of train(), from its arguments to a finished model."""

    us: Processes
    place: torch.device
    folder: RunFolder
    display: Display
    resume: bool
    overwrite: bool
    teaching: Teaching
    lessons: Lessons | None = None

    def begin(
        self,
        stack: ExitStack,
        text: _Text,
        settings: dict[str, Any],
        paths: dict[str, str | Path | None],
        precision: str,
    ) -> None:
        """Check everything that was asked for before anything is changed, then take the folder."""
        us, folder = self.us, self.folder
        with us.together():
            folder.refuse_to_lose(self.resume, self.overwrite)
            if not self.teaching.parallel:
                _refuse_to_drop_translations(folder, self.resume)
        with folder.copies() if not us.several else nullcontext() as spool:
            with us.together():
                self._check(text, settings, paths, precision, spool)
            with us.together():
                if us.first:  # it holds the folder for all processes
                    stack.enter_context(folder.held())
                    folder.begin(self.config, self.given, self.resume, self.overwrite)
                    for copied in filter(None, (self.text, self.dev_text)):
                        copied.move_copies(folder.work)

    def _check(
        self,
        text: _Text,
        settings: dict[str, Any],
        paths: dict[str, str | Path | None],
        precision: str,
        spool: Path | None,
    ) -> None:
        folder, us = self.folder, self.us
        self.config, self.given = folder.settle(settings, Given.of(**paths), self.resume)
        self.teaching = Teaching.of(self.given)
        self.teaching.check_settings(self.config)
        if self.config.pairs_weight or self.config.stay_weight:
            raise BanyanError("pairs_weight and stay_weight are settings of `banyan tune`: leave them out")
        self.precision = backends.choose_precision(precision, self.place, self.config.matrix_width)
        paragraphs = self.config.passage_sentences > 1
        self.sources = text.corpus
        self.text = _corpus(*text, paragraphs, spool, us)
        dev = self.given.dev
        self.dev_text = _dev_text(dev, text.column, text.layout, paragraphs, spool, us) if dev else None
        self.pairs = read_pairs(self.given.pairs) if self.given.pairs else None
        if self.teaching and us.first:
            wanted = width_and_option(self.config)
            self.teaching.try_out(folder.work / LESSONS, *wanted, str(self.place), self.display)
        self.own_tokenizer = folder.work / TOKENIZER
        self.begun = self.resume and self.own_tokenizer.exists()
        own = self.own_tokenizer
        checksums.verify(folder.work, [TOKENIZER] if self.begun else [])
        self.tokenizer = Tokenizer.from_file(own) if self.begun else _given_tokenizer(self.given, self.config)
        self.weights: dict[str, np.ndarray] = {}
        if self.given.init and self.tokenizer:
            init = Path(self.given.init)
            config = Config.from_file(init / SETTINGS)  # translations add to its dimensions
            self.weights = load_weights(init / WEIGHTS, config, self.tokenizer.vocab_size)
        self.share = _share(self.config.batch_size, us)

    def tokenise(self) -> None:
        """Train the tokenizer, if none was given, and tokenise the corpus."""
        us, display = self.us, self.display
        with us.together():
            if us.first:
                display.note(self.text.layout_reason)
                self.tokenizer = self.tokenizer or _made_tokenizer(self.text, self.config, display)
                if not self.begun:
                    self.tokenizer.save(self.own_tokenizer)
                if not self.begun or not checksums.read(self.folder.work / checksums.SUMS):  # a kill came between
                    checksums.write(self.folder.work, [TOKENIZER])
                display.note(f"vocabulary of {self.tokenizer.vocab_size:,} subwords")
        with us.together():
            self.pieces = self.tokenizer or Tokenizer.from_file(self.own_tokenizer)
        if self.teaching:
            self._teach()
            return
        with us.together():
            mine = Shard(self.text, us.rank, us.world) if us.several else self.text
            where = shard(self.folder.work / "store", us.rank, us.world)
            self.store = _store(where, mine, self.pieces, self.config, display)
            held_out = self.dev_text if us.first else None
            dev = self.folder.work / "dev"
            self.dev_store = _store(dev, held_out, self.pieces, self.config, display) if held_out else None

    def _teach(self) -> None:
        """Make the lessons: the first process makes them, the others open them."""
        us = self.us
        work, text, config = self.folder.work, self.text, self.config
        for turn in (us.first, not us.first):
            with us.together():
                if turn:
                    where, device = work / LESSONS, str(self.place)
                    lessons = self.teaching.lessons(where, text, self.pieces, config, device, self.display)
        self.lessons, self.store, self.dev_store = lessons, lessons.store, None

    def run(self, checkpoint_seconds: float, tensorboard: bool) -> Banyan:
        """Train, and write the model folder."""
        us = self.us
        with us.together():
            several = us.several and us.first and not self.lessons
            report = of_all_shards(self.folder.work / "store", us.world) if several else self.store.report
            summary = self.lessons.summary if self.lessons else report.summary()
            self.display.note(summary)
            model = BanyanModel(self.config, self.pieces.vocab_size).to(self.place)
            model.precision = self.precision
            data = self.store, self.dev_store, self.pairs
            if self.lessons and self.teaching.parallel:
                self.weights = with_taught_leaves(self.weights, self.lessons)
                freeze(model.functions)
            given = bool(self.weights)
            place = self.folder, model, self.pieces
            text = card.text_since(card.named(self.sources, summary), self.given.init)
            run = Run(*place, *data, self.share, text, self.display, us, self.lessons, given)
            run.taught_by, run.given = self.teaching.told(self.lessons, self.given.init), self.given
        run.start_from(self.weights)
        with closing(run):
            with us.together():
                run.measure_beginning(self.text)
            run.go(checkpoint_seconds, tensorboard)
            with us.together():
                return run.finish()


def _corpus(
    sources: str | Path | Sequence[str | Path],
    column: str | None,
    layout: str,
    paragraphs: bool,
    spool: Path | None,
    us: Processes,
) -> Corpus:
    names = [sources] if isinstance(sources, str | Path) else list(sources)
    if us.several and "-" in map(str, names):
        raise BanyanError(f"{us.world} processes cannot all read standard input: write it to a file first")
    return Corpus(names, column=column, layout=layout, spool=spool, paragraphs=paragraphs)


def _dev_text(
    dev: str, column: str | None, layout: str, paragraphs: bool, spool: Path | None, us: Processes
) -> Corpus:
    """The held-out text. The column applies to it, too, if it is a table."""
    is_text = file_kind(Path(dev)) in ("text", None)
    return _corpus(dev, None if is_text else column, layout, paragraphs, spool, us)


def _share(batch_size: int, us: Processes) -> int:
    """The number of sentences or passages per step in each process."""
    if batch_size % us.world:
        raise BanyanError(f"{us.world} processes cannot share batch_size {batch_size}: choose a multiple of {us.world}")
    return batch_size // us.world


def _given_tokenizer(given: Given, config: Config) -> Tokenizer | None:
    """The tokenizer that was given, or that of the model to start from."""
    source = Path(given.init) / TOKENIZER if given.init else given.tokenizer
    if source is None:
        return None
    return Tokenizer.from_file(source, lowercase=config.lowercase, zero_digits=config.zero_digits)


def _made_tokenizer(corpus: Corpus, config: Config, display: Display) -> Tokenizer:
    display.note(f"making a {config.subword_model} vocabulary of the corpus")
    with display.bar("making the vocabulary", None):
        return Tokenizer.train(
            corpus,
            kind=config.subword_model,
            vocab_size=config.vocab_size,
            vocab_factor=config.vocab_factor,
            lowercase=config.lowercase,
            zero_digits=config.zero_digits,
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
