"""Tune a trained model on texts that belong together."""
