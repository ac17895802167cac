"""Every setting of a model and of its training, each declared once: type, default, allowed values, help.

The command line, the checks, the presets and the model card are all made from the declarations in `Config`.
E = dim, K = channels, U = dim // channels, as in the paper.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from banyan._version import __version__
from banyan.errors import BanyanError, unknown_setting
from banyan.support.files import read_json

FORMAT = 4  # of config.json and the files beside it; raised when an older version could not read them


class Range(NamedTuple):
    """The values that a number may have, as a test and in words."""

    allows: Callable[[Any], bool]
    words: str


INFINITY = float("inf")
COUNT = Range(lambda n: n >= 1, "at least 1")
DIMENSIONS = Range(lambda n: 0 <= n <= 1 << 16, "between 0 and 65,536")
NORM = Range(lambda x: 0 < x <= 1000, "above 0 and at most 1,000")
POSITIVE = Range(lambda x: 0 < x < INFINITY, "a positive number")
NOT_NEGATIVE = Range(lambda x: 0 <= x < INFINITY, "0 or more")
RATE = Range(lambda x: 0 <= x < 1, "in [0, 1)")
FRACTION = Range(lambda x: 0 <= x <= 1, "in [0, 1]")


class Setting(NamedTuple):
    """A setting as it is declared in `Config`."""

    help: str
    group: str
    range: Range | None
    choices: tuple[str, ...]
    common: bool  # shown by `banyan train --help`; `--help-all` shows every setting
    when_none: str  # what None means, in words
    name: str = ""
    type: str = ""
    default: Any = None


def setting(
    default: Any,
    help: str,
    group: str,
    range: Range | None = None,
    *,
    choices: tuple[str, ...] = (),
    common: bool = False,
    when_none: str = "",
) -> Any:
    """Declare a setting of `Config`."""
    declared = Setting(help, group, range, choices, common, when_none)
    return dataclasses.field(default=default, metadata={"setting": declared})


MODEL, TEXT, TRAINING, TUNING = "model", "text", "training", "tuning"


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a model and of its training. The defaults are the paper's; presets change some of them."""

    preset: str = "paper"

    dim: int = setting(256, "learned dimensions of an embedding (E)", MODEL, COUNT, common=True)
    channels: int = setting(128, "channels that share one composition function (K); must divide --dim", MODEL, COUNT)
    functions: str = setting(
        "diagonal",
        "composition and decomposition: diagonal gates (Equations 3 and 4) or the matrices of Self-StrAE",
        MODEL,
        choices=("diagonal", "linear"),
    )
    trees: str = setting(
        "entangled",
        "entangled: equal subtrees of a batch share one node; plain: every occurrence has its own",
        MODEL,
        choices=("entangled", "plain"),
    )
    halves: str = setting(
        "side",
        "side: the first half of a decomposition goes to the left child; age: to the older child, as in Self-StrAE "
        "(plain trees only); random: a control",
        MODEL,
        choices=("side", "age", "random"),
    )
    structure: str = setting(
        "induced",
        "induced: merge the most similar neighbours; the others are controls that ignore the vectors",
        MODEL,
        choices=("induced", "random", "balanced", "right-branching"),
    )
    init_sketch: float = setting(
        0.0, "mean norm of the character n-gram sketch that token vectors start from (0: none)", MODEL, NOT_NEGATIVE
    )
    init_ppmi: float = setting(
        0.0, "norm of the PPMI co-occurrence vector that token vectors start from (0: none)", MODEL, NOT_NEGATIVE
    )
    lexical_dim: int = setting(
        0,
        "extra dimensions holding a sketch of the text's character n-grams, not trained (0: none)",
        MODEL,
        DIMENSIONS,
    )
    lexical_weight: float = setting(
        0.7, "norm of the lexical part of an embedding; the learned part has norm 1", MODEL, NORM
    )
    lexical_ngrams: str = setting(
        "pieces",
        "n-grams in the lexical dimensions: those inside each subword, or those of whole words",
        MODEL,
        choices=("pieces", "words"),
    )
    lexical_root: bool = setting(False, "take the root of each lexical dimension (--lexical-ngrams words)", MODEL)
    taught_dim: int = setting(
        0, "leading dimensions that only a teacher trains, of --dim (0: no such part)", MODEL, NOT_NEGATIVE
    )
    taught_weight: float = setting(
        1.0, "norm of the taught part of an embedding; the learned part has norm 1", MODEL, NORM
    )
    vectors_share: float = setting(
        0.5, "share of the vectors in a search by vectors and words (tuning chooses it)", MODEL, FRACTION
    )
    init_gate: float | None = setting(
        None,
        "initial value of the gates after the sigmoid",
        MODEL,
        Range(lambda x: 0 < x < 1, "in (0, 1)"),
        when_none="random, about 0.68",
    )
    dropout: float = setting(0.1, "dropout rate", MODEL, RATE)
    leaf_dropout: float | None = setting(None, "dropout rate of leaves", MODEL, RATE, when_none="same as --dropout")

    subword_model: str = setting(
        "bpe", "algorithm that learns the subword vocabulary", TEXT, choices=("bpe", "unigram")
    )
    vocab_size: int | None = setting(
        None,
        "subwords in the vocabulary",
        TEXT,
        Range(lambda n: 300 <= n <= 2_000_000, "between 300 (256 of them stand for bytes) and 2,000,000"),
        common=True,
        when_none="chosen from the size of the corpus",
    )
    vocab_factor: float = setting(1.0, "scales the automatic vocabulary size", TEXT, POSITIVE)
    lowercase: bool = setting(True, "lower-case the text", TEXT, common=True)
    zero_digits: bool = setting(True, "replace every digit with 0", TEXT)
    sublinear_tf: bool = setting(False, "when encoding, keep only 1 + ln n of a token's n occurrences in a text", TEXT)
    end_marks: bool = setting(True, "when encoding, keep full stops, question marks and the like as leaves", TEXT)
    whole_words: bool = setting(False, "when encoding, merge the pieces of a word before anything else", TEXT)
    min_pieces: int = setting(4, "in training, skip sentences of fewer subwords", TEXT, COUNT)
    max_pieces: int = setting(200, "in training, skip sentences of more subwords", TEXT, COUNT)
    passage_sentences: int = setting(
        1,
        "train on passages of up to so many consecutive sentences of a paragraph, if the corpus has paragraphs",
        TEXT,
        COUNT,
    )

    epochs: int | None = setting(
        15,
        "passes over the corpus",
        TRAINING,
        COUNT,
        common=True,
        when_none="chosen from the size of the corpus",
    )
    batch_size: int = setting(512, "sentences or passages per step", TRAINING, COUNT, common=True)
    lr: float = setting(1e-3, "learning rate of Adam", TRAINING, POSITIVE, common=True)
    final_lr_frac: float = setting(
        1.0, "final learning rate as a fraction of --lr, reached by linear decay", TRAINING, FRACTION
    )
    clip_grad_norm: float | None = setting(
        None, "clip the gradient to this norm", TRAINING, POSITIVE, when_none="no clipping"
    )
    objective: str = setting(
        "cross-entropy",
        "predict the leaves from their reconstructions, contrast every node with its reconstruction, both, or neither",
        TRAINING,
        choices=("cross-entropy", "contrastive", "both", "none"),
    )
    teacher_weight: float = setting(
        0.0, "weight of the cosine distance to the vectors of a teacher (0: none)", TRAINING, NOT_NEGATIVE
    )
    teacher_infonce_weight: float = setting(
        0.0, "weight of InfoNCE between texts and the teacher's vectors of them (0: none)", TRAINING, NOT_NEGATIVE
    )
    infonce_weight: float = setting(
        0.0,
        "weight of InfoNCE between the two parts of each sentence, with in-batch negatives (0: none)",
        TRAINING,
        NOT_NEGATIVE,
    )
    infonce_temperature: float = setting(0.05, "temperature of InfoNCE", TRAINING, POSITIVE)
    infonce_min_part: float = setting(
        0.3, "smaller part of a split sentence, as a fraction of its length", TRAINING,
        Range(lambda x: 0 < x <= 0.5, "in (0, 0.5]"),
    )  # fmt: skip
    pairs_weight: float = setting(
        0.0, "weight of the loss on texts that belong together, in tuning (0: no tuning)", TUNING, NOT_NEGATIVE
    )
    pairs_temperature: float = setting(0.05, "temperature of the loss on pairs", TUNING, POSITIVE)
    stay_weight: float = setting(
        0.0, "weight of the squared distance to token vectors and n-gram weights before tuning", TUNING, NOT_NEGATIVE
    )
    hard_negatives: int = setting(
        0, "hard negatives of each pair, mined with the model itself before every epoch (0: none)", TUNING, NOT_NEGATIVE
    )
    candidates: str = setting(
        "all",
        "softmax over the whole vocabulary, or over the tokens of the batch (sampled candidates, cheaper)",
        TRAINING,
        choices=("all", "batch"),
    )
    mean_over: str = setting(
        "leaves",
        "average the cross-entropy over leaves, or over distinct tokens (differs only in plain trees)",
        TRAINING,
        choices=("leaves", "tokens"),
    )
    seed: int = setting(
        0, "random seed", TRAINING, Range(lambda n: 0 <= n < 2**63, "between 0 and 2**63 - 1"), common=True
    )

    @property
    def width(self) -> int:
        """U, the width of a channel."""
        return self.dim // self.channels

    @property
    def embedding_dim(self) -> int:
        """The dimensions of an embedding: learned and lexical."""
        return self.dim + self.lexical_dim

    @property
    def matrix_width(self) -> int:
        """The width of the matrices of linear functions; 0 for diagonal ones."""
        return self.width if self.functions == "linear" else 0

    @property
    def has_output_layer(self) -> bool:
        """Whether training predicts tokens."""
        return self.objective in ("cross-entropy", "both")

    @property
    def has_teacher(self) -> bool:
        """Whether training needs the vectors of a teacher."""
        return bool(self.teacher_weight or self.teacher_infonce_weight)

    @property
    def needs_sentences(self) -> bool:
        """Whether a part of the loss depends on whole sentences, and not only on the parts that InfoNCE compares."""
        return self.objective != "none" or self.has_teacher or bool(self.pairs_weight)

    @property
    def hashes_words(self) -> bool:
        """Whether there are lexical dimensions, and they hold n-grams of words."""
        return self.lexical_dim > 0 and self.lexical_ngrams == "words"

    @property
    def parts(self) -> list[tuple[int, int, float]]:
        """The parts of an embedding that are scaled separately: first dimension, end, norm."""
        parts = [(0, self.taught_dim, self.taught_weight), (self.taught_dim, self.dim, 1.0)]
        parts.append((self.dim, self.embedding_dim, self.lexical_weight))
        return [part for part in parts if part[0] < part[1]]

    @property
    def lr_decays(self) -> bool:
        """Whether the learning rate changes from step to step."""
        return self.final_lr_frac < 1

    def __post_init__(self) -> None:
        if not isinstance(self.preset, str):
            raise BanyanError(f"preset must be str, not {self.preset!r}")
        for name, declared in SETTINGS.items():
            value = getattr(self, name)
            if not _has_type(value, declared.type):
                raise BanyanError(f"{name} must be {declared.type}, not {value!r}")
            if declared.range and value is not None and not declared.range.allows(value):
                raise BanyanError(f"{name} must be {declared.range.words}, not {value}")
            if declared.choices and value not in declared.choices:
                raise BanyanError(f"{name} must be one of {', '.join(declared.choices)}, not {value!r}")
        self._check_together()

    def _check_together(self) -> None:
        """Refuse settings that contradict each other."""
        if self.init_gate is not None and self.functions == "linear":
            raise BanyanError("init_gate is for diagonal functions; linear functions have no gates: leave it out")
        if self.halves != "side" and self.trees != "plain":
            raise BanyanError(f"halves {self.halves} is for plain trees: in entangled trees, halves go by side")
        if self.vocab_size is not None and self.vocab_factor != 1:
            raise BanyanError("vocab_factor scales the automatic vocabulary size: leave out vocab_factor or vocab_size")
        if self.objective == "none" and not (self.has_teacher or self.infonce_weight or self.pairs_weight):
            raise BanyanError("objective none leaves nothing to learn: add teacher_weight or infonce_weight")
        if self.taught_dim >= self.dim:
            raise BanyanError(f"taught_dim ({self.taught_dim}) must be smaller than dim ({self.dim})")
        if self.dim % self.channels:
            raise BanyanError(f"dim ({self.dim}) must be a multiple of channels ({self.channels})")
        if self.min_pieces > self.max_pieces:
            raise BanyanError(f"min_pieces ({self.min_pieces}) is larger than max_pieces ({self.max_pieces})")

    @classmethod
    def from_preset(cls, preset: str | None = None, **overrides: Any) -> Config:
        """The settings of a preset (by default, `default`), with some of them changed."""
        preset = preset or DEFAULT_PRESET
        if preset not in PRESETS:
            raise BanyanError(f"there is no preset {preset!r}; the presets are {', '.join(PRESETS)}")
        check_names(overrides)
        if overrides.get("vocab_size") is not None:  # replaces the automatic size, which the preset may scale
            overrides = {"vocab_factor": 1.0, **overrides}
        return cls(**{"preset": preset, **PRESETS[preset], **overrides})

    def to_dict(self) -> dict[str, Any]:
        """Every setting by its name."""
        return dataclasses.asdict(self)

    @staticmethod
    def head(format: str = "1") -> dict[str, str]:
        """The header of every file we write."""
        return {"model_type": "banyan", "format": format, "banyan_version": __version__}

    def to_json(self, **more: Any) -> str:
        """The content of config.json: the settings, the version that wrote them, and more that belongs to them."""
        return json.dumps({**self.head(str(FORMAT)), **self.to_dict(), **more}, indent=2) + "\n"

    @classmethod
    def from_file(cls, path: str | Path) -> Config:
        """The settings in a config.json. Names of earlier versions are understood; missing settings have defaults."""
        values = read_json(path)
        if not isinstance(values, dict) or values.get("model_type") != "banyan":
            raise BanyanError(f"{path} is not the configuration of a Banyan model")
        check_format(values, path)
        try:
            values = upgraded(values)
            return cls(**{name: value for name, value in values.items() if name == "preset" or name in SETTINGS})
        except BanyanError as error:
            raise BanyanError(f"{path}: {error}") from None


SETTINGS: dict[str, Setting] = {
    field.name: field.metadata["setting"]._replace(name=field.name, type=str(field.type), default=field.default)
    for field in dataclasses.fields(Config)
    if "setting" in field.metadata
}


def check_format(head: dict[str, Any], path: str | Path) -> None:
    """Refuse a file with this header if a newer version wrote it."""
    if str(head.get("format", FORMAT)) not in map(str, range(FORMAT + 1)):
        raise BanyanError(
            f"{path} was written by banyan {head.get('banyan_version')} in format {head['format']}; "
            f"this is banyan {__version__}, which reads up to format {FORMAT}: upgrade banyan-embed"
        )


def check_names(given: Iterable[str], arguments: Iterable[str] = ()) -> None:
    """Raise an error about the first name that is no setting. It may be meant for one of these arguments."""
    for name in given:
        if name in RENAMED:
            raise BanyanError(f"the setting {name} is now called {RENAMED[name]}")
        if name in DROPPED:
            raise BanyanError(f"the setting {name} is gone: {DROPPED[name]}")
        if name not in SETTINGS and name != "preset":
            raise unknown_setting(name, SETTINGS, arguments)


DEFAULT_PRESET = "default"
SMALL_PRESET = "light"  # what train() takes where there is no GPU
TUNED = "tuned"  # the preset of banyan tune
_DEFAULT: dict[str, Any] = {  # docs/default.md has the reasons
    "subword_model": "unigram",
    "vocab_factor": 2.0,
    "zero_digits": False,
    "sublinear_tf": True,
    "end_marks": False,
    "whole_words": True,
    "passage_sentences": 4,
    "init_sketch": 0.5,
    "init_ppmi": 1.0,
    "lexical_dim": 768,
    "lexical_weight": 1.0,
    "lexical_ngrams": "words",
    "init_gate": 0.98,
    "infonce_weight": 3.0,
    "infonce_temperature": 0.07,
    "epochs": None,
}
_TAUGHT: dict[str, Any] = {  # docs/teacher.md has the reasons
    **_DEFAULT,
    "init_sketch": 0.0,
    "init_ppmi": 0.0,
    "objective": "none",
    "infonce_weight": 0.0,
    "teacher_weight": 1.0,
    "lexical_dim": 512,
    "lexical_weight": 0.4,
    "lexical_ngrams": "pieces",
    "end_marks": True,
    "dropout": 0.0,
    "min_pieces": 1,
    "final_lr_frac": 0.0,
}
PRESETS: dict[str, dict[str, Any]] = {
    "default": _DEFAULT,
    SMALL_PRESET: {**_DEFAULT, "objective": "none"},
    "taught": _TAUGHT,
    "translated": {
        **_TAUGHT,
        "teacher_infonce_weight": 0.3,
        "lexical_dim": 768,
        "lexical_weight": 1.3,
        "lexical_ngrams": "words",
        "end_marks": False,
        "dropout": 0.1,
        "batch_size": 256,
    },
    TUNED: {
        **_DEFAULT,
        "init_sketch": 0.0,
        "init_ppmi": 0.0,
        "init_gate": None,
        "passage_sentences": 1,
        "max_pieces": 512,
        "objective": "none",
        "infonce_weight": 0.0,
        "pairs_weight": 1.0,
        "dropout": 0.0,
        "stay_weight": 3.0,
        "lexical_root": True,
        "lr": 6e-3,
        "final_lr_frac": 0.0,
        "epochs": None,
    },
    "paper": {},
    "self-strae": {
        "channels": 16,
        "functions": "linear",
        "trees": "plain",
        "halves": "age",
        "leaf_dropout": 0.2,
        "objective": "contrastive",
        "lr": 1e-4,
        "clip_grad_norm": 1.0,
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


# --- Files of earlier versions ---------------------------------------------------------------------------------------

LAST_WITH_DROPPED = "0.1.0"  # the last version that reads what is refused here

RENAMED = {  # names up to 0.1.0 -> names now
    "spelling": "init_sketch",
    "company": "init_ppmi",
    "lexical": "lexical_dim",
    "gate": "init_gate",
    "pieces": "subword_model",
    "repeats": "sublinear_tf",  # its opposite
    "lr_end": "final_lr_frac",
    "clip": "clip_grad_norm",
    "crops": "infonce_weight",
    "crop_temperature": "infonce_temperature",
    "crop_shortest": "infonce_min_part",
}
DROPPED = {
    "ngrams": "learned n-gram vectors never improved a preset",
    "ngram_shortest": "learned n-gram vectors never improved a preset",
    "ngram_longest": "learned n-gram vectors never improved a preset",
    "crop_kind": "sentences are always split into two parts",
}


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a saved file under their present names. Raise an error if the model needs what is gone."""
    if values.get("ngrams"):
        raise BanyanError(
            f"the model has learned n-gram vectors; the last version that reads it is banyan-embed {LAST_WITH_DROPPED}"
        )
    new = {RENAMED.get(name, name): value for name, value in values.items() if name not in DROPPED}
    if "repeats" in values:
        new["sublinear_tf"] = not values["repeats"]
    if "crop_shortest" in values:
        new["infonce_min_part"] = min(values["crop_shortest"], 0.5)
    return new


def check_resumable(values: dict[str, Any]) -> None:
    """Raise an error if the run with these saved settings cannot go on because of what is gone."""
    if values.get("crops") and values.get("crop_kind", "free") == "free":
        raise BanyanError(
            "the run trains with overlapping crops; the last version that can continue it is "
            f"banyan-embed {LAST_WITH_DROPPED}"
        )


def earlier_settings(path: Path | None) -> list[dict[str, Any]]:
    """The settings in a config.json of an earlier version under their names there; nothing if it is a present one."""
    if path is None or not path.is_file():
        return []
    values = read_json(path)
    if str(values.get("format")) not in ("1", "2"):
        return []
    return [{name: value for name, value in values.items() if name not in Config.head()}]
