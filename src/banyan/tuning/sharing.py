"""What share vectors have beside words in a search: chosen on held-out examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome
from banyan.evaluate.retrieval import retrieval
from banyan.tuning.examples import Examples
from banyan.tuning.finding import as_good
from banyan.tuning.measuring import VectorsAndWords, as_retrieval

if TYPE_CHECKING:
    from banyan.encoder import Banyan

METRIC = "nDCG@10"
# Tuning makes vectors better, so they get at least half. Held-out examples would often give them 0.9, because they are
# like those that the vectors were tuned on; on docstrings of other packages, more than 0.8 is worse than half.
SHARES = (0.5, 0.6, 0.7, 0.8)


def vectors_share(model: Banyan, held_out: Examples) -> float:
    """Return the lowest share that is at most one standard error below the best.

    Without examples to search, or words in their texts, it is the share that the model has."""
    if held_out.score is not None or len(held_out) < 2:
        return model.config.vectors_share
    data = as_retrieval(held_out)

    def searched(share: float) -> Outcome:
        ranker: Any = VectorsAndWords.of(model, data.documents, share)
        outcomes = retrieval(ranker, data, "held out")
        return next(outcome for outcome in outcomes if outcome.metric == METRIC)

    try:
        found = {share: searched(share) for share in SHARES}
    except BanyanError:
        return model.config.vectors_share
    best = max(found.values(), key=lambda outcome: outcome.value)
    return next(share for share in SHARES if as_good(found[share], best.items))
