"""Time encoding in a process that does nothing else. claims.py starts one for each number of threads.

    BANYAN_THREADS=1 python -m experiments.figures.inference MODEL < sentences.txt
"""

from __future__ import annotations

import json
import resource
import sys
import time

from experiments.training.weights import load

REPEATS = 3  # the fastest counts, because the machine may be busy


def main() -> None:
    lines = sys.stdin.read().splitlines()
    started = time.perf_counter()
    model = load(sys.argv[1])
    model.encode(lines[:64])  # compile kernels, or load them from the cache
    ready = time.perf_counter() - started
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        model.encode(lines)
        times.append(time.perf_counter() - started)
    assert "torch" not in sys.modules, "encoding has imported torch"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"sentences_per_second": len(lines) / min(times), "seconds_to_load": ready, "peak_bytes": peak}))


if __name__ == "__main__":
    main()
