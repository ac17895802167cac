"""Read and write the JSON in experiments/results."""
