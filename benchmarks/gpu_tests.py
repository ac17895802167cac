"""Run every test that needs a GPU, and those that run the GPU kernels, on a machine with a card: `make test-gpu`.

    python -m benchmarks.gpu_tests [--out FILE] [--commit COMMIT] [PYTEST OPTION ...]

The counts go to benchmarks/results/gpu_tests.json, with the commit, the card and the versions. The exit code is 0 only
if tests ran and none failed. CONTRIBUTING.md says how to run it on a machine without a network.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from banyan.support.files import write_text
from experiments.places import ROOT
from experiments.versions import commit, versions

OUT = ROOT / "benchmarks" / "results" / "gpu_tests.json"
CHOSEN = "(gpu or kernels) and not slow"  # markers: pyproject.toml
_MENTIONS = re.compile(r"mark\.(gpu|kernels)\b|\bBACKENDS\b|backends\.NAMES")
NEEDED = ("torch", "triton", "numba", "scipy", "matplotlib", "hypothesis", "pytest")
PACKAGES = ("torch", "triton", "numpy", "numba", "transformers", "pytest")


def main(arguments: list[str] | None = None) -> int:
    options, more = _options().parse_known_args(arguments)
    missing = why_not()
    if missing:
        print(f"error: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        plugins = ["-p", "no:cacheprovider", "-p", "no:benchmark"]  # pytest-benchmark refuses to run with -n
        command = [sys.executable, "-m", "pytest", "-m", CHOSEN, *plugins, f"--junitxml={report}"]
        code = subprocess.run([*command, *more, *chosen_files()], cwd=ROOT, check=False).returncode
        if not report.is_file():
            print(f"error: pytest ended with code {code} before any test ran", file=sys.stderr)
            return 2
        record = {**_machine(), "commit": options.commit or commit(), "exit_code": code, **counted(report)}
    write_text(options.out, json.dumps(record, indent=1) + "\n")
    print(f"wrote {options.out}: {record['counts']}")
    if code == 0 and not record["counts"].get("passed"):
        print("error: no test ran: is Triton installed?", file=sys.stderr)
        return 2
    return code


def chosen_files() -> list[str]:
    """The files of such tests. Others are not even imported: they may need packages that are not there."""
    every = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in every if _MENTIONS.search(path.read_text(encoding="utf-8"))]


def why_not() -> str:
    """Why the tests cannot run here; empty if they can."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"the tests need {', '.join(missing)}: install what is missing (CONTRIBUTING.md, Tests on a GPU)"
    import torch

    if not torch.cuda.is_available():
        return "there is no CUDA GPU on this machine, so the tests that need one cannot run here"
    return ""


def counted(report: Path) -> dict[str, Any]:
    """The number of tests by outcome in a JUnit report, the seconds, why tests were skipped, and which failed."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    failed = []
    root = ElementTree.parse(report).getroot()
    for case in root.iter("testcase"):
        outcome = next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "passed")
        counts[{"failure": "failed", "error": "errors"}.get(outcome, outcome)] += 1
        if outcome == "skipped" and (skipped := case.find("skipped")) is not None:
            reasons[skipped.get("message", "")] += 1
        elif outcome != "passed":
            failed.append(f"{case.get('classname')}::{case.get('name')}")
    seconds = sum(float(suite.get("time", 0)) for suite in root.iter("testsuite"))
    return {"counts": dict(counts), "seconds": round(seconds, 1), "skipped": dict(reasons), "failed": failed}


def _machine() -> dict[str, Any]:
    import torch

    return {"card": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "versions": versions(PACKAGES)}


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="file for the counts")
    parser.add_argument("--commit", help="commit to record (default: from git)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
