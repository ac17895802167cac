"""Search a collection on disk by meaning and by words; clusters, near-duplicates and maps of it.

All a model needs is `encode` (texts in, vectors out) and, for highlights in results, `explain`.
Needs pip install "banyan-embed[search]".

index       Index: the folder of an index; add sources, update, delete
rows        Rows: the Lance table inside it
memory      Memory: the rows of a small index as arrays
bm25        rank the rows in memory by words
compounds   the parts of names such as learn_on_batch
columns     which columns of a source are kept, and their types
searching   Searcher: rank rows for a query
highlight   the words that made a row match
phrases     phrases of two texts that mean nearly the same
word_spans  find the words of a text
clusters    clusters with typical phrases, and near-duplicates
grammar     how little a word says about a subject
closed_classes  pronouns, prepositions and the like of Latin, Hausa and English
listing     clusters as text, JSON and CSV
maps        lay out a collection in the plane
layout      UMAP, in NumPy
"""

import os

os.environ.setdefault("LANCEDB_LOG", "error")  # read when lancedb is imported; its warnings are about its own inside
