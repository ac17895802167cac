"""One frozen, validated configuration, saved with every model; the presets live here.

E = dim, K = channels, U = dim // channels, as in the paper.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from banyan._version import __version__
from banyan.errors import BanyanError

FORMAT = 2  # of config.json and the files beside it; raised when an older program could not read them


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a Banyan is and how it was trained. The defaults are the paper's."""

    preset: str = "paper"

    # model
    dim: int = 256
    channels: int = 128
    functions: str = "diagonal"  # Equations 3 and 4; or "linear", the predecessor's Equations 1 and 2
    trees: str = "entangled"  # or "plain": every occurrence is a node of its own
    structure: str = "induced"  # the closest pair merges; or, to compare with, trees that ask no vector
    ngrams: int = 0  # buckets of character n-grams whose vectors are added to those of leaves; 0: none
    ngram_shortest: int = 2
    ngram_longest: int = 6
    spelling: float = 0.0  # length, on average, of the sketch of its characters that a token's vector begins with
    company: float = 0.0  # length of the vector of its neighbours in the text that it begins with
    lexical: int = 0  # dimensions beside those that are learnt, in which an embedding is the sum of such sketches
    lexical_weight: float = 0.7  # its length there, where that of what is learnt is 1
    gate: float | None = None  # share of a child that its parent takes, to begin with; None: the authors', about 0.68
    dropout: float = 0.1
    leaf_dropout: float | None = None  # of leaves; None: as of all else

    # text
    pieces: str = "bpe"  # how words are cut; or "unigram"
    vocab_size: int | None = None  # None: chosen to suit the corpus, 25,000 for ten million words
    vocab_factor: float = 1.0  # times the size that suits
    lowercase: bool = True
    zero_digits: bool = True
    repeats: bool = True  # or of n occurrences of a token ⌊1 + ln n⌋, in what is encoded; training has them all
    min_pieces: int = 4
    max_pieces: int = 200

    # training
    epochs: int | None = 15  # None: chosen to suit the corpus, the smaller it is the more, up to 15
    batch_size: int = 512
    lr: float = 1e-3
    lr_end: float = 1.0  # share of it that is left at the end; from step to step it falls by the same
    clip: float | None = None  # the greatest norm of a step's gradient
    objective: str = "cross-entropy"  # rebuild the leaves; or "contrastive" over all nodes; or half of "both"
    crops: float = 0.0  # weight of a second objective: two crops of a sentence find each other by their roots
    crop_temperature: float = 0.05
    crop_shortest: float = 0.5  # share of the sentence
    crop_kind: str = "free"  # each anywhere; or "parts": the sentence is cut in two
    candidates: str = "all"  # what the output layer chooses from: the vocabulary, or the tokens of the "batch"
    mean_over: str = "leaves"  # of the cross-entropy; or "tokens": of plain trees too, each distinct token counts once
    seed: int = 0

    @property
    def width(self) -> int:
        """U, the width of a channel."""
        return self.dim // self.channels

    @property
    def embedding_dim(self) -> int:
        """Of what is encoded: what trees compose, and the lexical dimensions beside it."""
        return self.dim + self.lexical

    @property
    def matrix_width(self) -> int:
        """Of the matrices of linear functions; 0 where there are none."""
        return self.width if self.functions == "linear" else 0

    @property
    def rate_falls(self) -> bool:
        """Whether the learning rate changes from step to step."""
        return self.lr_end < 1

    @property
    def counts(self) -> bool:
        """Whether counting the text tells something of its tokens that the model has from the beginning."""
        return bool(self.spelling or self.company or self.lexical)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not _has_type(value, str(field.type)):
                raise BanyanError(f"{field.name} must be {field.type}, not {value!r}")
        for name, (allowed, told) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not allowed(value):
                raise BanyanError(f"{name} must be {told}, not {value}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise BanyanError(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")
        self._check_together()

    def _check_together(self) -> None:
        """What is wrong of two settings that would be right each."""
        if self.ngram_shortest > self.ngram_longest:
            raise BanyanError("ngrams must be 0 or more, and 1 <= ngram_shortest <= ngram_longest")
        if self.crop_kind == "parts" and self.crop_shortest > 0.5:
            raise BanyanError(f"two parts of a sentence cannot both have a share of {self.crop_shortest}")
        if self.gate is not None and self.functions == "linear":
            raise BanyanError("gate is for diagonal functions, linear ones have matrices: start from preset paper")
        if self.vocab_size is not None and self.vocab_factor != 1:
            raise BanyanError("vocab_factor is for a vocab_size that is not said: leave one of them out")
        if self.dim % self.channels:
            raise BanyanError(f"dim ({self.dim}) must be a multiple of channels ({self.channels})")
        if self.min_pieces > self.max_pieces:
            raise BanyanError(f"min_pieces ({self.min_pieces}) is larger than max_pieces ({self.max_pieces})")

    @classmethod
    def from_preset(cls, preset: str | None = None, **overrides: Any) -> Config:
        """A preset (without a name: the default one) with some settings changed."""
        preset = preset or DEFAULT_PRESET
        if preset not in PRESETS:
            raise BanyanError(f"there is no preset {preset!r}; the presets are {', '.join(PRESETS)}")
        names = [field.name for field in dataclasses.fields(cls)]
        for name in overrides:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"; did you mean {near[0]}?" if near else f"; the settings are {', '.join(names)}"
                raise BanyanError(f"there is no setting {name!r}{hint}")
        if overrides.get("vocab_size") is not None:  # then no preset's factor is meant
            overrides = {"vocab_factor": 1.0, **overrides}
        return cls(**{"preset": preset, **PRESETS[preset], **overrides})

    def to_dict(self) -> dict[str, Any]:
        """Every setting by its name."""
        return dataclasses.asdict(self)

    @staticmethod
    def head(format: str = "1") -> dict[str, str]:
        """What every file we write says of itself."""
        return {"model_type": "banyan", "format": format, "banyan_version": __version__}

    def to_json(self) -> str:
        """What config.json holds: the settings, with the version that wrote them."""
        usual = self.functions == "diagonal" and self.structure == "induced" and self.repeats and not self.lexical
        head = self.head("1" if usual else str(FORMAT))  # what the first format could say, it says
        return json.dumps({**head, **self.to_dict()}, indent=2) + "\n"

    @classmethod
    def from_file(cls, path: str | Path) -> Config:
        """The settings of a model, from its config.json; what they do not name has its default."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BanyanError(f"cannot read {path}: {error}") from None
        if not isinstance(values, dict) or values.get("model_type") != "banyan":
            raise BanyanError(f"{path} is not the configuration of a Banyan model")
        check_format(values, path)
        known = {field.name for field in dataclasses.fields(cls)}
        try:
            return cls(**{name: value for name, value in values.items() if name in known})
        except BanyanError as error:
            raise BanyanError(f"{path}: {error}") from None


def check_format(head: dict[str, Any], path: str | Path) -> None:
    """An error if the file, which says this of itself, is newer than this program."""
    if str(head.get("format", FORMAT)) not in map(str, range(FORMAT + 1)):
        raise BanyanError(
            f"{path} was written by banyan {head.get('banyan_version')} in format {head['format']}; "
            f"this is banyan {__version__}, which reads up to format {FORMAT}: upgrade banyan-embed"
        )


_INFINITE = float("inf")
_COUNT = (lambda n: n >= 1), "at least 1"
_POSITIVE = (lambda x: 0 < x < _INFINITE), "a positive number"
_WEIGHT = (lambda x: 0 <= x < _INFINITE), "0 or more"
_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("dim", "channels", "min_pieces", "max_pieces", "epochs", "batch_size", "ngram_shortest"), _COUNT),
    **dict.fromkeys(("lr", "clip", "vocab_factor", "crop_temperature", "lexical_weight"), _POSITIVE),
    **dict.fromkeys(("ngrams", "crops", "spelling", "company", "lexical"), _WEIGHT),
    **dict.fromkeys(("dropout", "leaf_dropout"), ((lambda x: 0 <= x < 1), "in [0, 1)")),
    "lr_end": ((lambda x: 0 <= x <= 1), "in [0, 1]"),
    "gate": ((lambda x: 0 < x < 1), "in (0, 1)"),
    "crop_shortest": ((lambda x: 0 < x <= 1), "in (0, 1]"),
    "vocab_size": ((lambda n: n >= 300), "at least 300 (256 of them stand for bytes)"),
    "seed": ((lambda n: 0 <= n < 2**63), "between 0 and 2**63 - 1"),
}
CHOICES = {
    "functions": ("diagonal", "linear"),
    "trees": ("entangled", "plain"),
    "structure": ("induced", "random", "balanced", "right-branching"),
    "pieces": ("bpe", "unigram"),
    "objective": ("cross-entropy", "contrastive", "both"),
    "crop_kind": ("free", "parts"),
    "mean_over": ("leaves", "tokens"),
    "candidates": ("all", "batch"),
}

DEFAULT_PRESET = "default"
_DEFAULT: dict[str, Any] = {  # docs/default.md has the reasons
    "pieces": "unigram",
    "vocab_factor": 2.0,
    "zero_digits": False,
    "repeats": False,
    "spelling": 1.0,
    "company": 1.0,
    "lexical": 512,
    "gate": 0.98,
    "crops": 3.0,
    "crop_kind": "parts",
    "crop_shortest": 0.3,
    "crop_temperature": 0.03,
    "epochs": None,
}
PRESETS: dict[str, dict[str, Any]] = {
    "default": _DEFAULT,
    "light": {**_DEFAULT, "candidates": "batch"},
    "paper": {},
    "self-strae": {
        "channels": 16,
        "functions": "linear",
        "trees": "plain",
        "leaf_dropout": 0.2,
        "objective": "contrastive",
        "lr": 1e-4,
        "clip": 1.0,
    },
}


def _has_type(value: object, annotation: str) -> bool:
    kinds: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
    for name in annotation.split(" | "):
        if name == "None" and value is None:
            return True
        if name in kinds and isinstance(value, kinds[name]) and (name == "bool" or not isinstance(value, bool)):
            return True
    return False
