"""The folder of a training run: its lock, its settings, and what must not be lost."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from banyan.classify.classifier import ABOUT, CONFUSION, HEAD
from banyan.config import TUNED, Config, check_resumable
from banyan.errors import BanyanError
from banyan.folders import CARD, LOSS, METRICS, SETTINGS, TAUGHT_BY, TOKENIZER, WEIGHTS, is_finished, verify
from banyan.integrations.opening import FILES
from banyan.support import checksums, files
from banyan.support.checksums import SUMS

CLASSIFIER = (ABOUT, HEAD, CONFUSION)
RESULTS = (WEIGHTS, SETTINGS, TOKENIZER, TAUGHT_BY, SUMS, METRICS, CARD, LOSS, *FILES, *CLASSIFIER)
_ON_THE_CARD = ("language", "license")
_WORDS = ("teacher_lines", "languages", *_ON_THE_CARD)  # given, and no paths
_COPIES = "copies-"  # of what can be read only once, until the run begins: the folder of one process

# Settings that a model given as --init fixes.
_FIXED = (
    "dim", "channels", "functions", "structure", "whole_words",
    "subword_model", "vocab_size", "vocab_factor", "lowercase", "zero_digits", "sublinear_tf", "end_marks",
    "lexical_dim", "lexical_weight", "lexical_ngrams", "lexical_root", "taught_dim", "taught_weight",
)  # fmt: skip
TAUGHT_DIM = 256  # dimensions that translations add to a model
# Settings that only concern initialisation.
_BEGINNING: dict[str, Any] = {"init_sketch": 0.0, "init_ppmi": 0.0, "init_gate": None}


@dataclass(frozen=True)
class Given:
    """The inputs of a run beside its corpus and settings: paths, the digest of the initial weights, and words."""

    dev: str | None = None
    pairs: str | None = None
    tokenizer: str | None = None
    init: str | None = None
    init_weights: str | None = None  # SHA-256
    teacher: str | None = None
    teacher_lines: str | None = None
    parallel: str | None = None
    languages: str | None = None
    tuned_on: str | None = None
    language: str | None = None  # of the text, and its licence: for the model card
    license: str | None = None

    @classmethod
    def of(cls, **paths: str | Path | None) -> Given:
        given = {name: path for name, path in paths.items() if path is not None}
        known = {name: str(path) if name in _WORDS else _whereabouts(path) for name, path in given.items()}
        if "init" in known:
            weights = Path(known["init"]) / WEIGHTS
            if not weights.is_file():
                raise BanyanError(f"{paths['init']} is not a finished model: it has no {WEIGHTS}")
            known["init_weights"] = hashlib.sha256(weights.read_bytes()).hexdigest()
        return cls(**known)


def with_taught_part(found: dict[str, Any], given: Given, width: int) -> dict[str, Any]:
    """The dimensions of a model to which translations add a part of this width."""
    if found.get("taught_dim"):
        raise BanyanError(f"the model in {given.init} has been taught before: start from the model without it")
    if not width:
        raise BanyanError("taught_dim is 0, but translations need dimensions of their own: leave taught_dim out")
    dim = found["dim"] + width
    channel = found["dim"] // found["channels"]
    if dim % channel:
        raise BanyanError(f"taught_dim ({width}) must be a multiple of the width of a channel ({channel})")
    return {"dim": dim, "channels": dim // channel, "taught_dim": width}


def _whereabouts(path: str | Path) -> str:
    """An absolute path. What is not a path (a glob, hf:name, -) stays as it is."""
    return str(Path(path).absolute()) if Path(path).exists() else str(path)


class RunFolder:
    """The folder `out`. Files that only the run needs are in out/training."""

    def __init__(self, out: Path, processes: int = 1) -> None:
        self.out, self.processes = out, processes
        self.work = out / "training"
        self.record = self.work / "run.json"  # its presence means that there is a run
        self.checkpoint = self.work / "checkpoint.safetensors"
        self._new = [folder for folder in (out, *out.parents) if not folder.exists()]
        self._settled_on: list[bytes | None] = []

    def refuse_to_lose(self, resume: bool, overwrite: bool) -> None:
        """Raise an error if the run would destroy something."""
        if self.out.exists() and not self.out.is_dir():
            raise BanyanError(f"{self.out} is a file; --out must name a folder")
        ours = self.record.exists() or ((self.out / WEIGHTS).exists() and _is_banyan(self.out / SETTINGS))
        foreign = [name for name in RESULTS if (self.out / name).exists()]
        if foreign and not ours:
            raise BanyanError(f"{self.out} holds a {foreign[0]} of something else: choose another folder")
        if ours and not resume and not overwrite:
            state = "a finished model" if is_finished(self.out) else "an unfinished run"
            raise BanyanError(f"{self.out} holds {state}: --resume continues it, --overwrite starts over")
        if ours and resume and not self.record.exists():
            raise BanyanError(
                f"{self.out} holds a model without its training run, so there is nothing to resume: "
                "use it as --init, with another folder as --out"
            )

    def settle(self, asked: dict[str, Any], given: Given, resume: bool) -> tuple[Config, Given]:
        """The settings and sources of the run: those asked for or, for a resumed run, those it began with."""
        self._settled_on = self._begun_with()
        if resume and self.record.exists():
            return self._repeated(asked, given)
        if given.init is None:
            return Config.from_preset(**asked), given
        if given.tokenizer:
            raise BanyanError("--init brings its own tokenizer: leave --tokenizer out")
        if Path(given.init).resolve() == self.out.resolve():
            raise BanyanError(f"the model to start from and --out are both {self.out}: name another folder")
        verify(Path(given.init))
        found = Config.from_file(Path(given.init) / SETTINGS).to_dict()
        fixed = {name: found[name] for name in _FIXED}
        if asked.get("preset") == TUNED:
            del fixed["lexical_root"]  # tuning learns the weights of n-grams that go with it
        if given.parallel:
            fixed |= with_taught_part(found, given, asked.get("taught_dim", TAUGHT_DIM))
            for name in ("lexical_weight", "taught_weight", "end_marks"):  # a third part changes the balance
                del fixed[name]
        for name, value in fixed.items():
            if asked.get(name, value) != value:
                raise BanyanError(f"the model in {given.init} has {name} = {value}, which cannot be changed")
        for name, value in _BEGINNING.items():
            if asked.get(name, value) != value:
                raise BanyanError(f"{name} initialises a new model, but {given.init} is already trained: leave it out")
        return Config.from_preset(**{**asked, **fixed, **_BEGINNING}), given

    def _repeated(self, asked: dict[str, Any], given: Given) -> tuple[Config, Given]:
        """The settings of a resumed run. Only the number of epochs may change, and what the model card says."""
        record = checksums.read_sealed(self.record, "--overwrite starts over")
        try:
            check_resumable(record)
        except BanyanError as error:
            raise BanyanError(f"the run in {self.out} cannot be resumed: {error}") from None
        began = Config.from_file(self.record)
        config = Config.from_preset(**{**began.to_dict(), **asked})
        new = {name: getattr(given, name) for name in _ON_THE_CARD if getattr(given, name) is not None}
        began_with = Given(**{**record["given"], **new})
        if (began_by := record.get("processes", 1)) != self.processes:
            raise BanyanError(
                f"the run in {self.out} was started with {_processes(began_by)} and cannot be resumed with "
                f"{_processes(self.processes)}, because each process trains on its own shard: start as many again"
            )
        differing = [name for name in asked if asked[name] != getattr(began, name) and name != "epochs"]
        told = [f"{name} was {getattr(began, name)!r} and is now {asked[name]!r}" for name in differing]
        for name, value in dataclasses.asdict(given).items():
            began_as = getattr(began_with, name)
            if value is not None and began_as not in (value, str(Path(value).absolute())):  # it may be gone by now
                told.append(f"{name} was {began_as!r} and is now {value!r}")
        if told:
            raise BanyanError(f"the run in {self.out} cannot be resumed with different settings: {', '.join(told)}")
        if began_with.init and Given.of(init=began_with.init).init_weights != began_with.init_weights:
            raise BanyanError(f"the run in {self.out} started from {began_with.init}, which has changed since")
        return config, began_with

    def _begun_with(self) -> list[bytes | None]:
        """The files that identify the run in the folder, if there is one."""
        return [path.read_bytes() if path.exists() else None for path in (self.record, self.work / TOKENIZER)]

    @contextmanager
    def copies(self) -> Iterator[Path]:
        """A folder for copies of inputs that can be read only once, such as pipes. It is removed afterwards."""
        try:
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BanyanError(f"cannot create the folder {self.work}: {error.strerror}") from None
        own = self.work / f"{_COPIES}{uuid4().hex}"
        with self._nothing_left(), files.held(own, f"{own} is in use"):
            try:
                yield own
            finally:
                files.clear(own)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder's lock."""
        told = f"another process is training into {self.out}: wait for it, or stop it"
        with self._nothing_left(), files.held(self.work, told):
            try:
                yield
            except KeyboardInterrupt as error:
                if str(error):
                    raise
                raise KeyboardInterrupt("stopped; --resume continues") from None

    @contextmanager
    def _nothing_left(self) -> Iterator[None]:
        """Remove the folders created for the run if they end up empty."""
        try:
            yield
        finally:
            with suppress(OSError):
                for folder in [self.work, *self._new]:
                    if folder.exists():
                        folder.rmdir()

    def begin(self, config: Config, given: Given, resume: bool, overwrite: bool) -> None:
        """Record the run in the folder, which is locked. A new run removes what an old one left."""
        self.refuse_to_lose(resume, overwrite)  # again: another process may have finished before we got the lock
        if resume and self._begun_with() != self._settled_on:
            raise BanyanError(f"another process started a run in {self.out} in the meantime: run the command again")
        for leftover in self.work.glob(f"{_COPIES}*"):  # left by killed processes; those in use are locked
            with suppress(BanyanError), files.held(leftover, "in use"):
                files.clear(leftover)
        for folder in (self.out, self.work):
            files.remove_leftovers(folder)
        # In this order, a kill in between never leaves one run's state under another's settings.
        if not resume:
            _remove(self.checkpoint, self.work / SUMS, self.work / TOKENIZER)
        record = {**json.loads(config.to_json()), "given": dataclasses.asdict(given)}
        if self.processes > 1:
            record["processes"] = self.processes
        files.write_text(self.record, json.dumps(checksums.sealed(record), indent=2) + "\n")
        if not resume:
            _remove(*(self.out / name for name in RESULTS))


def _processes(count: int) -> str:
    return f"{count} process{'es' * (count != 1)}"


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _is_banyan(settings: Path) -> bool:
    try:
        return json.loads(settings.read_text(encoding="utf-8")).get("model_type") == "banyan"
    except (OSError, ValueError, AttributeError):
        return False
