"""Seconds from a fresh install to the first embedding, compared with a Python that only imports NumPy (and Numba).

    python -m benchmarks.first_use [--model DIR] [--rounds 3]

Every figure is of a new process. Numba's cache is a new folder, so it compiles what it needs; the rows "again" have the
kernels in the cache, as after `banyan warmup`. Without --model, a model with random weights and 25,000 pieces is made.
The embedding is checked first, against that of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from banyan.encoder import Banyan
from banyan.native import kernels
from benchmarks.common import report, sentences
from benchmarks.encode import trained, untrained
from experiments.data import add_data_option

TEXT = "Homer ate doughnuts."
FIRST = "import sys, banyan; print(banyan.Banyan.from_pretrained(sys.argv[1]).encode(sys.argv[2]).tolist())"
PORT = 8931


def spent(cache: Path, *arguments: str, which: str = "") -> tuple[float, str]:
    """Run Python; return the seconds it took and what it printed."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "BANYAN_PATIENCE": "inf", "BANYAN_KERNELS": which}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout


def ready(cache: Path, folder: str, which: str) -> float:
    """Seconds until `banyan serve` answers on /health."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "BANYAN_KERNELS": which}
    command = [sys.executable, "-m", "banyan", "serve", folder, "--port", str(PORT)]
    start = time.perf_counter()
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while server.poll() is None and time.perf_counter() - start < 300:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1).close()
                return time.perf_counter() - start
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("banyan serve did not start")
    finally:
        server.terminate()
        server.wait()


def measured(folder: str, which: str, again: bool) -> dict[str, float]:
    """Seconds of each way to use the model. again: with the kernels that another process compiled."""
    commands = {
        "first embedding in Python": ("-c", FIRST, folder, TEXT),
        "banyan similar": ("-m", "banyan", "similar", folder, TEXT, TEXT),
    }
    times = {}
    with tempfile.TemporaryDirectory() as empty:
        for name, command in commands.items():
            cache = Path(empty) / name
            for _ in range(1 + again):
                times[name], _ = spent(cache, *command, which=which)
        if find_spec("uvicorn"):
            for _ in range(1 + again):
                times["banyan serve, until /health"] = ready(Path(empty) / "serve", folder, which)
    return times


def check(folder: str, which: str) -> None:
    expected = Banyan.from_pretrained(folder).encode(TEXT)
    with tempfile.TemporaryDirectory() as cache:
        found = json.loads(spent(Path(cache), "-c", FIRST, folder, TEXT, which=which)[1])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--rounds", type=int, default=3)
    add_data_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.model or made
        if not options.model:
            text, _ = sentences(100_000, options.data)
            untrained(trained(text, "default"), "default").save_pretrained(folder)
        ways = [("native", False)] if kernels() else []
        ways += [("numba", False), ("numba", True)]
        for which, _ in ways[:-1]:
            check(folder, which)
        best: dict[str, dict[str, float]] = {}
        imports = {"import numpy": float("inf"), "import numpy, numba": float("inf")}
        for _ in range(options.rounds):  # in alternation, so that other work on the machine affects all alike
            for code in imports:
                imports[code] = min(imports[code], spent(Path(made), "-c", code)[0])
            for which, again in ways:
                row = best.setdefault(which + ", again" * again, {})
                for name, seconds in measured(folder, which, again).items():
                    row[name] = min(row.get(name, seconds), seconds)
    rows: list[dict[str, Any]] = [
        {"what": name, "kernels": way, "s": seconds, "times NumPy": seconds / imports["import numpy"]}
        for way, row in best.items()
        for name, seconds in row.items()
    ]
    report(
        {"from a new process to the first result": rows},
        import_numpy_s=imports["import numpy"],
        import_numpy_and_numba_s=imports["import numpy, numba"],
        first_embedding_to_import_numpy=rows[0]["times NumPy"],
    )


if __name__ == "__main__":
    main()
