"""Measure trained models and draw pictures for RESULTS.md."""
