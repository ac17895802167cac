"""Search by meaning and by words in a collection on disk, and its overview: clusters, near-duplicates, a map.

All of it knows a model only as `encode` (texts in, vectors out) and, where results are to show why they were found,
as `explain`. Needs pip install "banyan-embed[search]".
"""
