"""Measure anything that has `encode`: a list of texts in, an array [n, E] out.

suites           the paper's tasks, the development tasks and the user's own, and how to run them
similarity       Spearman correlation of cosines with human scores of sentence pairs
word_similarity  the same for word pairs
retrieval        nDCG and recall on data in BEIR's layout
translation      recall of translations among all texts of the other language, both ways
classification   accuracy and F1 of a small classifier on frozen embeddings
outcome          one figure with its bootstrap interval
table            results as text, Markdown and JSON
fetch            download the evaluation sets
"""
