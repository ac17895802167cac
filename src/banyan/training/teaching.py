"""Who teaches a run, and with what: the options teacher, teacher_lines, parallel and languages of train()."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from banyan.config import Config
from banyan.corpus import Corpus
from banyan.corpus.parallel import ParallelText
from banyan.encoder import Banyan, teacher_of
from banyan.errors import BanyanError
from banyan.support import files
from banyan.support.display import Display
from banyan.teachers import Remembered, Teacher, about, holds_vectors, open_teacher, recorded
from banyan.teachers.endpoint import Endpoint
from banyan.tokenizer import Tokenizer
from banyan.training import beginning, lessons
from banyan.training.folder import Given
from banyan.training.lessons import Asked, Lessons

LANGUAGES = ("both", "second")
# Settings of the stage that learns translations.
TEACHING_SETTINGS = ("taught_dim", "taught_weight", "teacher_weight", "teacher_infonce_weight")
TRANSLATIONS = "translations.txt"  # their sides as text to train on
RECORD = "teacher.json"  # in the folder of the lessons: what is known about the teacher


@dataclass
class Teaching:
    """The options of train() that concern teachers. False if there is neither a teacher nor translations."""

    teacher: str | None = None
    lines: int | None = None
    parallel: str | None = None
    init: str | None = None
    languages: str = "both"
    init_weights: str | None = None  # SHA-256
    _about: dict[str, Any] | None = None
    _opened: Teacher | None = None

    @classmethod
    def of(cls, given: Given) -> Teaching:
        """The options that a run began with."""
        lines = int(given.teacher_lines) if given.teacher_lines else None
        languages = given.languages or "both"
        return cls(given.teacher, lines, given.parallel, given.init, languages, given.init_weights)

    def __bool__(self) -> bool:
        return bool(self.teacher or self.parallel)

    @property
    def stored(self) -> bool:
        """Whether the vectors exist already."""
        return bool(self.teacher and holds_vectors(self.teacher))

    def check(self, dev: Any, several: bool) -> None:
        """Refuse options that contradict each other."""
        if self.languages not in LANGUAGES:
            raise BanyanError(f"languages must be one of {', '.join(LANGUAGES)}, not {self.languages!r}")
        if self.lines is not None and self.lines < 1:
            raise BanyanError(f"teacher_lines must be at least 1, not {self.lines}")
        if self.lines is not None and self.parallel:
            raise BanyanError("of translations, the teacher encodes every pair: leave teacher_lines out")
        if self.lines is not None and (not self.teacher or self.stored):
            raise BanyanError("teacher_lines samples the lines that a teacher encodes: name one that can encode")
        if self.parallel and self.stored:
            raise BanyanError(
                f"{self.teacher} holds vectors of a corpus; translations need a teacher that can encode"
            )
        if self and dev:
            raise BanyanError("with a teacher, the held-out texts are a part of what it encoded: leave --dev out")
        if self.teacher and self.init and not self.parallel:
            raise BanyanError("a teacher starts a new model: leave --init out, or add --parallel")
        if self.parallel and several:
            raise BanyanError("translations are learned in one process: train on the text first, then use --init")

    def check_settings(self, config: Config) -> None:
        """Refuse a teacher that the settings ignore, and settings that need a teacher when there is none."""
        if self and not config.has_teacher:
            raise BanyanError(
                f"preset {config.preset} does not learn from a teacher: leave the preset out, or set teacher_weight"
            )
        if config.has_teacher and not self:
            raise BanyanError("teacher_weight needs the vectors of a teacher: name one with --teacher")

    def preset(self, asked: str | None, config: Config | None) -> str | None:
        """The preset, unless one was asked for."""
        if asked or config or not self:
            return asked
        return "translated" if self.parallel else "taught"

    def beginning(self, overrides: dict[str, Any]) -> dict[str, Any]:
        """Settings of the initial leaves: without the teacher's vectors of subwords, they are counted and mapped."""
        return {"init_sketch": 1.0, "init_ppmi": 1.0, **overrides} if self.stored else {}

    def given(self) -> dict[str, str | None]:
        """What the record of the run says about the teacher."""
        if not self:
            return {}
        lines = str(self.lines) if self.lines else None
        languages = self.languages if self.parallel else None
        return {"teacher": self.teacher, "teacher_lines": lines, "parallel": self.parallel, "languages": languages}

    def lessons(
        self, folder: Path, corpus: Corpus, tokenizer: Tokenizer, config: Config, device: str, display: Display
    ) -> Lessons:
        """Make the lessons in a folder, or open them if they are finished, which does not need the teacher."""
        folder = folder.resolve()  # fingerprints contain paths, and the folder may be a link that runs share
        asked = Asked(folder, tokenizer, config.max_pieces, *width_and_option(config), display)
        if self.stored:
            assert self.teacher
            self._about = about(self.teacher)
            return lessons.from_vectors(asked, corpus, self.teacher)
        teacher = Remembered(folder / RECORD, self._source, lambda: self._open(device, display))
        if self.parallel:
            pairs = ParallelText(self.parallel)
            display.note(pairs.note)
            made = lessons.from_pairs(asked, pairs, teacher, self.languages == "both")
        else:
            made = lessons.from_corpus(asked, corpus, teacher, self.lines)
        self._about = teacher.about()
        return made

    def try_out(self, folder: Path, width: int, option: str, device: str, display: Display) -> None:
        """Refuse a teacher that cannot be opened, does not answer or is too narrow, before it encodes anything. One
        that has taught into this folder of lessons before is not asked again.

        option: that asks for this width.
        """
        if self.stored:
            found = about(str(self.teacher))["width"]
        elif told := recorded(folder.resolve() / RECORD, self._source):
            found = told["about"].get("width")
        else:
            found = self._open(device, display).encode(["text"]).shape[1]
        if found:
            lessons.check_width(found, width, option)

    @property
    def _source(self) -> str:
        return self.teacher or f"itself {self.init_weights}"

    def _open(self, device: str, display: Display) -> Teacher:
        if self._opened is None:
            self._opened = self._newly_opened(device, display)
        return self._opened

    def _newly_opened(self, device: str, display: Display) -> Teacher:
        if not self.teacher:
            assert self.init  # check() and train() see to it
            return Itself(self.init)
        teacher = open_teacher(self.teacher, device)
        if isinstance(teacher, Endpoint):
            teacher.note = display.note
        return teacher

    def told(self, taught: Lessons | None, init: str | None) -> dict[str, Any] | None:
        """Who taught the model, for Banyan.taught_by. The teacher of a model that it starts from stays on record."""
        before = teacher_of(Path(init)) if init else None
        if taught is None:
            return before
        told = {**(self._about or {}), "texts": taught.encoded}
        if self.parallel:
            told |= {"translations": Path(self.parallel).name, "pairs": taught.encoded, "languages": self.languages}
        return {**told, "before": before} if before else told


def with_taught_leaves(weights: dict[str, np.ndarray], taught: Lessons) -> dict[str, np.ndarray]:
    """The weights of a model with a part for the teacher in front of its own leaves, which are mapped into it."""
    own = weights["embedding"]
    leaves = beginning.mapped(own, taught.store, taught.vectors)
    return {**weights, "embedding": np.hstack([leaves, own])}


def freeze(parameters: Iterable[nn.Parameter]) -> None:
    """Leave these as they are in training."""
    for parameter in parameters:
        parameter.requires_grad_(False)


def write_sides(folder: Path, parallel: str, languages: str, layout: str) -> None:
    """Write translations as text to train on: each pair as a paragraph of two sentences, or the second sides as
    sentences. A run that is resumed with the same translations finds the same text, and with others another one."""
    folder.mkdir(parents=True, exist_ok=True)
    between, end = ("\n", "\n\n") if layout in ("running", "blocks") else ("\t", "\n")
    with files.atomic(folder / TRANSLATIONS) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        for pair in ParallelText(parallel):
            sides = pair if languages == "both" else pair[1:]
            file.write(between.join(" ".join(text.split()) for text in sides) + end)


def width_and_option(config: Config) -> tuple[int, str]:
    """How many dimensions are taught, and which option says so."""
    return (config.taught_dim, "taught-dim") if config.taught_dim else (config.dim, "dim")


class Itself:
    """A trained model as the teacher of its own translations: its vectors of the first side teach the second."""

    kind = "itself"
    licence: str | None = None

    def __init__(self, path: str) -> None:
        self.model = Banyan.from_pretrained(path)
        self.name = f"itself, before it saw translations ({self.model.fingerprint()[:8]})"
        self.width = self.model.config.dim

    def encode(self, texts: list[str]) -> np.ndarray:
        return self.model.encode(texts)[:, : self.width]
