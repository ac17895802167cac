"""`python -m torture [CAMPAIGN ...] [--long] [--seed N]`"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

from torture.campaign import Plan

CAMPAIGNS = ("folders",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("campaigns", nargs="*", choices=[*CAMPAIGNS, []], default=list(CAMPAIGNS))
    parser.add_argument("--long", action="store_true", help="try everything")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    for name in options.campaigns:
        campaign = importlib.import_module(f"torture.{name}")
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="torture-") as work:
            outcome = campaign.run(Plan(Path(work), options.seed, options.long))
        minutes = (time.monotonic() - started) / 60
        print(f"{campaign.TITLE}: seed {options.seed}, {minutes:.1f} minutes", *outcome.lines(), sep="\n", flush=True)
        failed += len(outcome.failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
