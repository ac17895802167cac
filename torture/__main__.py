"""Run campaigns, print what they tried and what failed, and write the figures into docs/reliability.md."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from torture.campaign import Outcome, Plan

CAMPAIGNS = ("folders", "strings", "faults", "twice", "numbers", "bombs", "serving", "shards")
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
_HEAD = "| campaign | tried | failed | of these | form | seed | commit | minutes |"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=", ".join(CAMPAIGNS))
    parser.add_argument("--long", action="store_true", help="try everything")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the figures into docs/reliability.md")
    options = parser.parse_args()
    os.environ["BANYAN_PATIENCE"] = "inf"  # an error must be the only line
    failed = 0
    for name in options.campaigns or CAMPAIGNS:
        campaign = importlib.import_module(f"torture.{name}")
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as work:
            outcome = _outcome(campaign, Plan(Path(work), options.seed, options.long))
        minutes = (time.monotonic() - started) / 60
        print(f"{campaign.TITLE}: seed {options.seed}, {minutes:.1f} minutes", *outcome.lines(), sep="\n", flush=True)
        failed += len(outcome.failed)
        if options.write:  # after each campaign: what is cut short keeps what it has
            _write(campaign.TITLE, _row(campaign.TITLE, outcome, options, minutes))
    return 1 if failed else 0


def _outcome(campaign: Any, plan: Plan) -> Outcome:
    try:
        return campaign.run(plan)
    except Exception as error:  # the other campaigns go on
        traceback.print_exc()
        return Outcome(failed=[f"the campaign ended: {error!r}"])


def _row(title: str, outcome: Outcome, options: argparse.Namespace, minutes: float) -> str:
    parts: Counter[str] = Counter()
    for kind, count in outcome.tried.items():
        parts[kind.partition(",")[0]] += count
    told = [*(f"{kind} {count:,}" for kind, count in parts.items()), *(f"{name} {n}" for name, n in outcome.figures)]
    told += [f"not tried: {reason}" for reason in outcome.not_tried]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    form = "long" if options.long else "hour"
    figures = [title, f"{parts.total():,}", f"{len(outcome.failed):,}", "; ".join(told)]
    return f"| {' | '.join([*figures, form, str(options.seed), commit, f'{minutes:.1f}'])} |"


def _write(title: str, row: str) -> None:
    """Replace the row of a campaign on the page, or add it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    figures, _, after = rest.partition(END)
    rows = {line.split(" | ")[0]: line for line in figures.splitlines() if line.startswith("| ")}
    rows |= {f"| {title}": row}
    titles = [f"| {importlib.import_module(f'torture.{name}').TITLE}" for name in CAMPAIGNS]
    table = [_HEAD, "|---|---|---|---|---|---|---|---|", *(rows.get(each, f"{each} | not run |") for each in titles)]
    text = "\n".join([f"Written by `make torture` ({os.cpu_count()} cores):", "", *table])
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
