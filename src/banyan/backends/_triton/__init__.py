"""The GPU kernels, in Triton. They compute what reference.py says, from a batch's tokens to every gradient, without
synchronising with the host: only the device knows how many distinct nodes and levels there are.

Trees: one warp merges one sentence, and one launch all sentences of a batch. Graph: equal nodes are found by sorting
hashes of (height, left, right) and then verified. Passes: Equations 3 and 4 never mix columns (1 and 2 only those of a
channel), so one program takes a few columns through all levels and waits for no other. Its columns of all nodes are
contiguous in memory (a "slab" [N, C]; there are E/C), so they stay in the cache of its multiprocessor. Every sum has a
fixed order: the same seed gives the same bits.
"""

