"""Run the benchmarks behind README's table, and say which of its claims do not hold here.

    python -m benchmarks [NAME ...] [--keep]

The figures go to build/bench/NAME.json. `--keep` also writes them to benchmarks/results, from which README takes its
own: use it on a quiet machine, then run `python -m experiments.pages`. It keeps what was measured on more cores.
Benchmarks that need a GPU, a model or another program (gpu, tune, serve) are not run here; their claims are listed as
not measured.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.claims import Checked, checked
from experiments.places import BENCHMARKS, ROOT

MEASURED = ROOT / "build" / "bench"
RUNS = {  # the name of the file: module and options
    "encode": ["encode"],
    "encode_default": ["encode", "--preset", "default"],
    "cores": ["cores"],
    "first_use": ["first_use"],
    "train": ["train"],
    "teach": ["teach"],
    "scaling": ["scaling"],
    "search": ["search"],
    "map": ["map"],
    "presets": ["presets"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (default: all): {', '.join(RUNS)}")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results as well")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RUNS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: choose from {', '.join(RUNS)}")
    failed = [name for name in options.names or RUNS if not run(name, _command(name), options.keep)]
    show(checked((ROOT / "README.md").read_text(encoding="utf-8"), MEASURED))
    return 1 if failed else 0


def _command(name: str) -> list[str]:
    module, *arguments = RUNS[name]
    return [sys.executable, "-m", f"benchmarks.{module}", *arguments]


def run(name: str, command: list[str], keep: bool = False) -> bool:
    """Run one benchmark, show what it prints, and write the JSON of its last line. Whether it worked."""
    print(f"\n{name}: {' '.join(command)}", flush=True)
    (MEASURED / f"{name}.json").unlink(missing_ok=True)  # of an earlier run
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        last = ""
        for line in process.stdout:
            print(last, end="", flush=True)
            last = line
    if process.returncode:
        print(f"{last}{name} failed with exit code {process.returncode}: its claims are not measured")
        return False
    figures = json.loads(last)
    _write(MEASURED / f"{name}.json", figures)
    if keep and (cores := _cores(BENCHMARKS / f"{name}.json")) > _of_machine(figures):
        print(f"not kept: benchmarks/results/{name}.json has the figures of a machine with {cores} cores")
    elif keep:
        _write(BENCHMARKS / f"{name}.json", figures)
    return True


def _write(path: Path, figures: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{json.dumps(figures, indent=2, ensure_ascii=False)}\n", encoding="utf-8")


def _cores(path: Path) -> int:
    """The cores of the machine that a file's figures were measured on; 0 if there is no file."""
    return _of_machine(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else 0


def _of_machine(figures: dict[str, Any]) -> int:
    found = re.match(r"\d+", figures.get("machine", ""))
    return int(found[0]) if found else 0


def show(found: list[Checked]) -> None:
    """The table of claims, and a sentence that says which of them do not hold."""
    table = Table("README's claim", "its script", "README says", "measured here", "")
    for one in found:
        table.add_row(one.what, one.script, one.claimed, one.measured, one.verdict)
    console = Console(width=140)
    console.print(table, highlight=False)
    lost = [one for one in found if one.holds is False]
    count = sum(one.holds is not None for one in found)
    told = "; ".join(f"{one.what}: {one.claimed}, measured {one.measured}" for one in lost)
    summary = f"{len(lost)} of {count} claims do not hold here: {told}." if lost else f"All {count} claims hold here."
    console.print(summary, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
