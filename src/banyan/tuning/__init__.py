"""Tune a trained model on texts that belong together.

layout     which columns of a table hold texts, scores, negatives and labels
reading    examples from files, data frames and lists
examples   Examples: texts that belong together, and groups of linked examples
split      hold out by group
measuring  whether tuning paid: before, after, words alone, both together
"""
