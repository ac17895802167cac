"""The GPU kernels, in Triton: what reference.py says, from a batch's tokens to every gradient without a word from the
host in between. How many distinct nodes and levels there are is known on the device alone.

Structure: one warp merges one sentence, all sentences of a batch in one launch; equal nodes are found by sorting a
hash of (height, left, right), which is then verified. Passes: Equations 3 and 4 never mix columns (1 and 2: only those
of a channel), so one program takes a few columns through all levels and waits for nobody else. Its columns of all nodes
lie together in memory (a "slab" [N, C], of which there are E/C), so that they stay in the cache of its own processor.
Every sum has a fixed order: the same seed gives the same bits.
"""

