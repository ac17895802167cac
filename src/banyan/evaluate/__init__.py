"""Measures for anything with `encode`: list of texts in, array [n, E] out."""
