"""The number of epochs that suits a corpus."""

from __future__ import annotations

import math

from banyan.config import Config

TEN_MILLION = 900  # steps per epoch of a corpus of ten million words; smaller corpora get more epochs
FEWEST, FEWEST_CHEAP = 5, 3  # epochs; without a softmax over the whole vocabulary
MOST = 15
TAUGHT_STEPS = 1500  # with a teacher: so many steps at least, within these numbers of epochs
TAUGHT_EPOCHS = {"lines": (2, 50), "translations": (10, 100)}
TUNED_STEPS = 200  # in tuning: so many steps at least, within these numbers of epochs
TUNED_EPOCHS = (5, 20)


def suitable_epochs(steps: int, config: Config) -> int:
    """The number of epochs that suits a corpus with this many steps per epoch."""
    if config.has_teacher:
        fewest, most = TAUGHT_EPOCHS["translations" if config.taught_dim else "lines"]
        return min(max(math.ceil(TAUGHT_STEPS / steps), fewest), most)
    if config.pairs_weight:
        fewest, most = TUNED_EPOCHS
        return min(max(math.ceil(TUNED_STEPS / steps), fewest), most)
    cheap = config.candidates == "batch" or config.objective == "none"
    fewest = FEWEST_CHEAP if cheap else FEWEST
    return min(max(math.ceil(fewest * TEN_MILLION / steps), fewest), MOST)
