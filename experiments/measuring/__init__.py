"""Score what is not a training run: baselines, other systems, smaller vectors, paired differences."""
