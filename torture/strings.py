"""Odd strings: each must get the same finite vector alone, in a batch, and on any number of threads."""

from __future__ import annotations

import os
import random

import numpy as np

from torture.campaign import Outcome, Plan
from torture.folders import models

TITLE = "odd strings"
BATCH = 500
_RANGES = (
    (0, 0x80), (0x80, 0x250), (0x300, 0x370), (0x590, 0x800), (0x900, 0xE00),
    (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2C00), (0x3040, 0x3200), (0x4E00, 0x5000),
    (0xAC00, 0xAD00), (0xD800, 0xE000), (0xE000, 0xE100), (0xFB00, 0x10000), (0x1D400, 0x1D500),
    (0x1F300, 0x1F700), (0xE0000, 0xE0080), (0x10FFF0, 0x110000),
)
_WORDS = ("the", "cat", "▁", "  ", "\n", "\0", "e\u0301", "\ufdfa" * 20, "½", "ﬁ", "<0x41>", "\u200d", "a" * 400)


def odd(rng: random.Random) -> str:
    parts = []
    for _ in range(rng.choice((0, 1, 2, 5, 20))):
        if rng.random() < 0.4:
            parts.append(rng.choice(_WORDS))
        else:
            low, high = rng.choice(_RANGES)
            parts.append("".join(chr(rng.randrange(low, high)) for _ in range(rng.choice((1, 2, 8, 40)))))
    return rng.choice(("", " ")).join(parts)


def run(plan: Plan) -> Outcome:
    from banyan import Banyan

    outcome = Outcome()
    for folder in models(plan.work):
        model = Banyan.from_pretrained(folder)
        for number in plan.cases(12, 400):
            rng = plan.rng("strings", folder.name, number)
            texts = [odd(rng) for _ in range(BATCH)]
            os.environ["BANYAN_THREADS"] = "1"
            together = model.encode(texts)
            os.environ["BANYAN_THREADS"] = "3"
            problem = None if np.isfinite(together).all() else "not finite"
            if not np.array_equal(together, model.encode(texts)):
                problem = "threads matter"
            del os.environ["BANYAN_THREADS"]
            for text, row in zip(texts, together, strict=True):
                same = np.array_equal(model.encode(text), row)
                outcome.count(folder.name, problem if same else f"alone and in a batch differ: {text!r}")
    return outcome
