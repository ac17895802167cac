"""Utilities that all other packages share. They know nothing about models or training."""
