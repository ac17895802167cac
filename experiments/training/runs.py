"""The training runs behind the tables, by name: the settings that each one changes, and its importance.

The paper leaves some settings open. Here, rows that mix Self-StrAE with Banyan use the optimiser of their objective:
contrastive rows that of Self-StrAE (learning rate 1e-4, gradients clipped at norm 1, leaf dropout 0.2, which in
entangled trees applies to leaf types), rows with cross-entropy that of Banyan (1e-3, dropout 0.1). Linear functions
have K = U = 16, diagonal ones K = 128, U = 2. Self-StrAE with both objectives has the learning rate that its authors'
instructions give for it. The halves of a decomposition go by age in plain trees and by side in entangled ones, as in
the authors' programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from banyan.config import DEFAULT_PRESET, Config
from banyan.evaluate.suites import LANGUAGES
from experiments.data import PARAGRAPHS, SHOWN, corpus
from experiments.training.amounts import BOTH, MILLIONS, SPACED, THIRD, WHOLE

LANGUAGE_EPOCHS = 8
STRUCTURES = ("random", "balanced", "right-branching")
CHANNELS = (4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Experiment:
    """A training run, for any seed."""

    name: str
    groups: tuple[str, ...]
    importance: int  # runs of importance 1 get further seeds first
    language: str = "en"
    preset: str = "paper"
    settings: Mapping[str, Any] = field(default_factory=dict)  # that differ from the preset's
    model: str = "banyan"  # or "no-tree"
    trained: bool = True  # False: evaluate the initial weights
    choosing: bool = False  # an idea: evaluate it on the development sets only
    amount: str = ""  # of the text, as in amounts.py; empty: the whole corpus

    def config(self, seed: int) -> Config:
        return Config.from_preset(self.preset, **self.settings, seed=seed)

    def recorded(self, seed: int) -> dict[str, Any]:
        """The part of a record that identifies the run."""
        settings = self.config(seed).to_dict()
        if not self.trained:
            settings["epochs"] = 0
        if self.language != PARAGRAPHS:  # without effect
            settings["passage_sentences"] = Config().passage_sentences
        run = {"name": self.name, "seed": seed, "language": self.language, "model": self.model, "settings": settings}
        return {**run, "amount": self.amount} if self.amount else run

    def command(self, seed: int) -> str | None:
        """The command that trains the same model; None if `banyan train` cannot."""
        if self.model != "banyan" or not self.trained or self.amount:
            return None
        train, dev = (corpus(SHOWN, self.language, split) for split in ("train", "dev"))
        held_out = [] if self.language == PARAGRAPHS else ["--dev", str(dev)]  # a part of the text, as by default
        parts = ["banyan", "train", str(train), *held_out, "--out", f"models/{self.name}-{seed}"]
        if self.preset != DEFAULT_PRESET:
            parts += ["--preset", self.preset]
        usual = Config.from_preset(self.preset).to_dict()
        for name, value in self.config(seed).to_dict().items():
            if value != usual[name]:
                flag = name.replace("_", "-")
                off = "" if value else "no-"
                parts += [f"--{off}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
        return " ".join(parts)


def _ablation(name: str, preset: str, importance: int = 2, **settings: Any) -> Experiment:
    return Experiment(name, ("ablations",), importance, preset=preset, settings=settings)


def _on_paragraphs(preset: str) -> list[Experiment]:
    """Running text in order, and the same text cut into sentences."""
    cut = {"passage_sentences": 1}
    return [
        Experiment(f"{preset}-paragraphs", ("paragraphs",), 1, PARAGRAPHS, preset),
        Experiment(f"{preset}-paragraphs-cut", ("paragraphs",), 1, PARAGRAPHS, preset, cut),
    ]


def _amount(amount: str, language: str = "en") -> Experiment:
    return Experiment(f"default-{language}-{amount}", ("amounts",), 2, language, "default", amount=amount)


_DIAGONAL: dict[str, Any] = {"functions": "diagonal", "channels": 128}
_LINEAR: dict[str, Any] = {"functions": "linear", "channels": 16}
_PLAIN: dict[str, Any] = {"trees": "plain", "halves": "age"}
_ENTANGLED: dict[str, Any] = {"trees": "entangled", "halves": "side"}

def _spaced(name: str, preset: str) -> Experiment:
    """The same run on text whose punctuation is set apart from words, evaluated on texts of that form."""
    return Experiment(f"{name}{SPACED}", ("spaced",), 3, preset=preset, amount=f"{WHOLE}{SPACED}")


_ALL = [
    Experiment("banyan", ("english", "ablations", "channels", "controls"), 1),
    Experiment("self-strae", ("english", "ablations"), 1, preset="self-strae"),
    *(Experiment(name, ("languages",), 2, name, settings={"epochs": LANGUAGE_EPOCHS}) for name in LANGUAGES),
    _ablation("plain-diagonal-ce", "paper", **_PLAIN),
    _ablation("entangled-diagonal-contrastive", "self-strae", **_ENTANGLED, **_DIAGONAL),
    _ablation("plain-diagonal-contrastive", "self-strae", **_DIAGONAL),
    _ablation("entangled-linear-contrastive", "self-strae", **_ENTANGLED),
    _ablation("entangled-linear-ce", "paper", **_LINEAR),
    _ablation("plain-linear-ce", "paper", 3, **_PLAIN, **_LINEAR),
    _ablation("plain-diagonal-ce-tokens", "paper", 3, **_PLAIN, mean_over="tokens"),
    *(Experiment(name, ("controls",), 2, settings={"structure": name}) for name in STRUCTURES),
    Experiment("no-tree", ("controls",), 2, model="no-tree"),
    Experiment("banyan-untrained", ("controls",), 3, trained=False),
    *(Experiment(f"{s}-untrained", ("controls",), 3, settings={"structure": s}, trained=False) for s in STRUCTURES),
    Experiment("no-tree-untrained", ("controls",), 3, model="no-tree", trained=False),
    *(Experiment(f"channels-{k}", ("channels",), 3, settings={"channels": k}) for k in CHANNELS if k != 128),
    Experiment("af-15", ("languages",), 3, "af"),
    _ablation("self-strae-fast", "self-strae", 3, epochs=5, lr=1e-3),  # is the learning rate too low?
    Experiment("both", ("ablations",), 3, preset="self-strae", settings={"objective": "both", "lr": 1e-3}),
    Experiment("default", ("presets",), 1, preset="default"),
    Experiment("light", ("presets",), 1, preset="light"),
    *(Experiment(f"default-{name}", ("presets",), 1, name, preset="default") for name in LANGUAGES),
    *(Experiment(f"light-{name}", ("presets",), 1, name, preset="light") for name in LANGUAGES),
    *_on_paragraphs("default"),
    *_on_paragraphs("light"),
    *map(_amount, (*MILLIONS, BOTH)),
    *(_amount(THIRD, name) for name in LANGUAGES),
    _spaced("banyan", "paper"),
    _spaced("self-strae", "self-strae"),
]
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
PAPER = ("english", "ablations", "channels", "languages", "controls")  # groups with figures that the paper has
GROUPS = ("paper", *PAPER, "presets", "paragraphs", "amounts", "spaced")
