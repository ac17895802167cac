"""Speed and memory, measured. Each script checks its results first: `python -m benchmarks.encode`."""
