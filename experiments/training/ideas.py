"""Ideas for improving on the paper. Each is a run that is evaluated on the development sets only.

    python -m experiments.training.reproduce ideas --work work
"""

from __future__ import annotations

from typing import Any

from experiments.data import ENGLISH, PARAGRAPHS
from experiments.training.runs import Experiment

EPOCHS = 5
COUNTED: dict[str, Any] = {"init_sketch": 1.0, "init_ppmi": 1.0, "init_gate": 0.95}
PARTS: dict[str, Any] = {"infonce_weight": 0.3, "infonce_min_part": 0.3}
START: dict[str, Any] = {**COUNTED, **PARTS, "infonce_weight": 1.0}
THIRD: dict[str, Any] = {**START, "init_gate": 0.98, "subword_model": "unigram", "zero_digits": False}
FOURTH: dict[str, Any] = {**THIRD, "infonce_weight": 3.0, "infonce_temperature": 0.03}
FIFTH: dict[str, Any] = {**FOURTH, "subword_model": "bpe", "vocab_factor": 2.0}
ONCE: dict[str, Any] = {**FOURTH, "sublinear_tf": True}
TWELFTH: dict[str, Any] = {**ONCE, "lexical_dim": 256}
CHEAP: dict[str, Any] = {"candidates": "batch", "epochs": 3}
WORDS: dict[str, Any] = {"lexical_weight": 1.0, "epochs": None}
WIDE: dict[str, Any] = {"dim": 512, "channels": 256}

_SECOND: dict[str, dict[str, Any]] = {
    "0": {},
    "no-dropout": {"dropout": 0.0},
    "crops-3": {"infonce_weight": 3.0},
    "crops-10": {"infonce_weight": 10.0},
    "warm": {"infonce_temperature": 0.1},
    "warm-3": {"infonce_weight": 3.0, "infonce_temperature": 0.1},
    "cold": {"infonce_temperature": 0.03},
    "short": {"infonce_min_part": 0.1},
    "1-epoch": {"epochs": 1},
    "2-epochs-falling": {"epochs": 2, "final_lr_frac": 0.0},
    "slow": {"lr": 3e-4},
    "spelling-2": {"init_sketch": 2.0},
    "company-2": {"init_ppmi": 2.0},
    "long": {"init_sketch": 4.0, "init_ppmi": 4.0},
    "2048": {"batch_size": 2048},
    "50000": {"vocab_size": 50_000},
    "digits": {"zero_digits": False},
    "unigram": {"subword_model": "unigram"},
    "gate": {"init_gate": 0.98},
    "dropout-3": {"infonce_weight": 3.0, "dropout": 0.0},
    "no-crops": {"infonce_weight": 0.0},
}
_THIRD: dict[str, dict[str, Any]] = {
    "0": {},
    "cold": {"infonce_temperature": 0.03},
    "no-dropout": {"dropout": 0.0},
    "cold-no-dropout": {"infonce_temperature": 0.03, "dropout": 0.0},
    "less-dropout": {"infonce_temperature": 0.03, "dropout": 0.03},
    "cold-falling": {"infonce_temperature": 0.03, "final_lr_frac": 0.0},
    "cold-crops-3": {"infonce_temperature": 0.03, "infonce_weight": 3.0},
    "2-epochs": {"infonce_temperature": 0.03, "epochs": 2},
    "10-epochs": {"infonce_temperature": 0.03, "epochs": 10},
    "batch": {"infonce_temperature": 0.03, "candidates": "batch"},
    "both": {"infonce_temperature": 0.03, "objective": "both", "epochs": 1},
    "1024": {"infonce_temperature": 0.03, "batch_size": 1024},
}
_FOURTH: dict[str, dict[str, Any]] = {
    "spelling-2": {"init_sketch": 2.0},
    "more": {"init_sketch": 2.0, "init_ppmi": 2.0},
    "crops-10": {"infonce_weight": 10.0},
    "colder": {"infonce_temperature": 0.02},
    "less-dropout": {"dropout": 0.05},
    "10-epochs": {"epochs": 10},
    "falling": {"final_lr_frac": 0.0},
    "1024": {"batch_size": 1024},
    "even": {"infonce_min_part": 0.45},
    "balanced": {"structure": "balanced"},
    "random": {"structure": "random"},
    "cheap": CHEAP,
    "no-company": {"init_ppmi": 0.0},
}
_TWELFTH: dict[str, dict[str, Any]] = {
    "0": {},
    "no-spelling": {"init_sketch": 0.0},
    "half-spelling": {"init_sketch": 0.5},
    "no-spelling-crops-1": {"init_sketch": 0.0, "infonce_weight": 1.0},
    "no-spelling-company-2": {"init_sketch": 0.0, "init_ppmi": 2.0},
    "x2": {"vocab_factor": 2.0},
    "x2-no-spelling": {"vocab_factor": 2.0, "init_sketch": 0.0},
    "x2-crops-1": {"vocab_factor": 2.0, "infonce_weight": 1.0},
    "x2-no-spelling-crops-1": {"vocab_factor": 2.0, "init_sketch": 0.0, "infonce_weight": 1.0},
}
_THIRTEENTH: dict[str, dict[str, Any]] = {
    "cut": {"passage_sentences": 1},  # the same text, cut into sentences
    "2": {"passage_sentences": 2},
    "2-few-epochs": {"passage_sentences": 2, "epochs": 6},  # as many as the text cut into sentences gets
    "3": {"passage_sentences": 3},
}
_FOURTEENTH: dict[str, dict[str, Any]] = {
    "0": {},
    "7": {"infonce_temperature": 0.07},
    "10": {"infonce_temperature": 0.1},
    "10-more": {"infonce_temperature": 0.1, "infonce_weight": 10.0},
    "7-half": {"infonce_temperature": 0.07, "init_sketch": 0.5},
    "10-half": {"infonce_temperature": 0.1, "init_sketch": 0.5},
    "10-more-half": {"infonce_temperature": 0.1, "infonce_weight": 10.0, "init_sketch": 0.5},
    "10-more-none": {"infonce_temperature": 0.1, "infonce_weight": 10.0, "init_sketch": 0.0},
}
_FIFTEENTH: dict[str, dict[str, Any]] = {
    "0": {},
    "whole-words": {"whole_words": True},
}
_SIXTEENTH: dict[str, dict[str, Any]] = {
    "cut": {"passage_sentences": 1},
    "2": {"passage_sentences": 2},
    "3": {"passage_sentences": 3},
    "cut-warm": {"passage_sentences": 1, "infonce_temperature": 0.1},
    "2-warm": {"passage_sentences": 2, "infonce_temperature": 0.1},
    "2-even": {"passage_sentences": 2, "infonce_min_part": 0.45},
}
_SEVENTEENTH: dict[str, dict[str, Any]] = {
    "3": {"passage_sentences": 3},
    "4": {"passage_sentences": 4},
}


def _idea(name: str, *settings: dict[str, Any], group: str = "first", language: str = "en", **more: Any) -> Experiment:
    merged: dict[str, Any] = {"epochs": EPOCHS}
    for some in settings:
        merged |= some
    named = name if language in ENGLISH else f"{name}-{language}"
    return Experiment(named, (group, "ideas"), 1, language, settings=merged, choosing=True, **more)


IDEAS = [
    _idea("paper-5"),
    _idea("parts", PARTS),
    _idea("gate", {"init_gate": 0.95}),
    _idea("spelling", COUNTED, {"init_ppmi": 0.0}),
    _idea("company", COUNTED, {"init_sketch": 0.0}),
    _idea("counted-untrained", COUNTED, trained=False),
    _idea("counted", COUNTED),
    _idea("counted-parts", COUNTED, PARTS),
    _idea("counted-parts-1", COUNTED, PARTS, {"infonce_weight": 1.0}),
    _idea("counted-parts-3", COUNTED, PARTS, {"infonce_weight": 3.0}),
    _idea("counted-parts-warm", COUNTED, PARTS, {"infonce_temperature": 0.1}),
    _idea("counted-parts-slow", COUNTED, PARTS, {"lr": 3e-4}),
    _idea("counted-long-parts", COUNTED, PARTS, {"init_sketch": 3.0, "init_ppmi": 3.0}),
    _idea("counted-parts-falling", COUNTED, PARTS, {"final_lr_frac": 0.0}),
    _idea("counted-parts-batch", COUNTED, PARTS, {"candidates": "batch"}),
    _idea("counted-parts-2048", COUNTED, PARTS, {"batch_size": 2048, "lr": 2e-3}),
    _idea("counted-parts-1-epoch", COUNTED, PARTS, {"epochs": 1}),
    _idea("counted-parts-no-dropout", COUNTED, PARTS, {"dropout": 0.0}),
    _idea("counted-parts-balanced", COUNTED, PARTS, {"structure": "balanced"}),
    _idea("counted-parts-50000", COUNTED, PARTS, {"vocab_size": 50_000}),
    # n-grams now have marks at the ends of a piece
    *(_idea(f"start-{name}", START, settings, group="second") for name, settings in _SECOND.items()),
    _idea("start-untrained", START, group="second", trained=False),
    # the best changes of the second list, combined
    *(_idea(f"third-{name}", THIRD, settings, group="third") for name, settings in _THIRD.items()),
    _idea("third-untrained", THIRD, group="third", trained=False),
    *(_idea(f"fourth-{name}", FOURTH, settings, group="fourth") for name, settings in _FOURTH.items()),
    *(_idea("fifth", FIFTH, group="fifth-list", language=language) for language in ("en", "hi", "ha", "af")),
    _idea("fifth-half-company", FIFTH, {"init_ppmi": 0.5}, group="fifth-list"),
    _idea("fifth-crops-1", FIFTH, {"infonce_weight": 1.0}, group="fifth-list"),
    _idea("fifth-spelling-2", FIFTH, {"init_sketch": 2.0}, group="fifth-list"),
    _idea("fifth-unigram", FOURTH, group="fifth-list", language="hi"),
    # on a CPU: does a small corpus need more steps?
    _idea("cheap-unigram", FOURTH, CHEAP, group="sixth", language="ha"),
    _idea("cheap-bpe", FOURTH, CHEAP, {"subword_model": "bpe"}, group="sixth", language="ha"),
    _idea(
        "once", FOURTH, CHEAP, {"subword_model": "bpe", "sublinear_tf": True, "epochs": 8}, group="sixth", language="ha"
    ),
    # each token once in a tree; epochs and pieces for other languages
    _idea("seventh", ONCE, group="seventh-list"),
    _idea("seventh-bpe", ONCE, {"subword_model": "bpe"}, group="seventh-list"),
    _idea("seventh-x2", ONCE, {"vocab_factor": 2.0}, group="seventh-list"),
    _idea("seventh-3-epochs", ONCE, {"epochs": 3}, group="seventh-list"),
    _idea("seventh-256", ONCE, {"batch_size": 256}, group="seventh-list"),
    _idea("seventh-384", ONCE, {"dim": 384, "channels": 192}, group="seventh-list"),
    _idea("seventh-512", ONCE, WIDE, group="seventh-list"),
    _idea("seventh-512-more", ONCE, WIDE, {"init_sketch": 2.0, "init_ppmi": 2.0}, group="seventh-list"),
    *(
        _idea(f"seventh-{kind}-{n}", ONCE, {"subword_model": kind, "epochs": n}, group="seventh-list", language=one)
        for one in ("ha", "hi", "mr", "id", "af", "am", "te", "ar")
        for kind in ("unigram", "bpe")
        for n in (5, 12)
    ),
    # again with all repeats in the training trees
    _idea("eighth", FOURTH, group="eighth-list"),
    _idea("eighth-bpe", FOURTH, {"subword_model": "bpe"}, group="eighth-list"),
    _idea("eighth-512", FOURTH, WIDE, group="eighth-list"),
    *(
        _idea("eighth-bpe-12", FOURTH, {"subword_model": "bpe", "epochs": 12}, group="eighth-list", language=language)
        for language in ("ha", "hi", "mr", "id", "af", "am", "te", "ar")
    ),
    *(
        _idea("ninth-512", ONCE, WIDE, {"subword_model": "bpe", "epochs": 12}, group="ninth-list", language=one)
        for one in ("ha", "hi", "mr", "id", "af", "am", "te", "ar")
    ),
    # spelling has dimensions of its own: is it still needed in the leaves, and does a larger vocabulary help?
    *(_idea(f"twelfth-{name}", TWELFTH, settings, group="twelfth-list") for name, settings in _TWELFTH.items()),
    *(
        _idea(f"twelfth-{name}", TWELFTH, _TWELFTH[name], {"epochs": None}, group="twelfth-list", language=language)
        for name in ("0", "no-spelling", "x2", "x2-no-spelling")
        for language in ("ha", "hi", "mr", "id", "af", "am", "te", "ar")
    ),
    # running text: passages of two or three sentences
    *(
        _idea(f"thirteenth-{name}", {"epochs": None, **settings}, group="thirteenth-list", language=PARAGRAPHS,
              preset="default")
        for name, settings in _THIRTEENTH.items()
    ),
    # lexical dimensions of whole words: which temperature and which initial vectors suit them?
    *(
        _idea(f"fourteenth-{name}", WORDS, settings, group="fourteenth-list", language=language, preset="default")
        for name, settings in _FOURTEENTH.items()
        for language in ("en", "ha")
    ),
    # do the pieces of a word merge first? One epoch each; in three languages also before training
    *(
        _idea(f"fifteenth-{name}{state}", {"epochs": 1, **settings}, group="fifteenth-list", language=language,
              preset="light", trained=not state)
        for language in ("en", "ha", "mr", "hi", "te", "am", "af", "id", "ar")
        for state in ("-untrained", "")
        for name, settings in _FIFTEENTH.items()
        if not state or language in ("en", "ha", "mr")
    ),
    # running text again, without reconstruction
    *(
        _idea(f"sixteenth-{name}", {"epochs": None, **settings}, group="sixteenth-list", language=PARAGRAPHS,
              preset="light")
        for name, settings in _SIXTEENTH.items()
    ),
    # longer passages, with reconstruction
    *(
        _idea(f"seventeenth-{name}", {"epochs": None, **settings}, group="seventeenth-list", language=PARAGRAPHS,
              preset="default")
        for name, settings in _SEVENTEENTH.items()
    ),
]
