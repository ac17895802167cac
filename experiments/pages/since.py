"""Say when the lexical dimensions of a preset have changed since its runs were made."""

from __future__ import annotations

from collections.abc import Iterable

from banyan.config import Config
from experiments.pages.markdown import listed
from experiments.records.store import Records

SETTINGS = ("lexical_dim", "lexical_weight", "lexical_ngrams")


def changed_since(records: Records, runs: Iterable[str]) -> str:
    """A sentence about settings of runs that are not those of their presets any more; empty if there are none."""
    found: dict[str, None] = {}
    for record in (record for run in runs for record in records[run]):
        now = Config.from_preset(record["settings"]["preset"])
        for name in SETTINGS:
            before = record["settings"].get(name, getattr(Config(), name))
            if before != getattr(now, name):
                found[f"`{name}` was {before} and is now {getattr(now, name)}"] = None
    return f"The presets have changed since these runs: {listed(list(found))}." if found else ""
