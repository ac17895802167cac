"""The GPU kernels, in Triton. They compute what reference.py defines, from a batch's tokens to every gradient, without
synchronising with the host. The numbers of distinct nodes and of levels are known only on the device.

Structure: each warp merges one sentence, and one launch covers all sentences of a batch. Equal nodes are found by
sorting hashes of (height, left, right), and then verified. Passes: Equations 3 and 4 never mix columns (1 and 2 only
those of a channel), so each program takes a few columns through all levels, independently of the others. The columns
of one program are contiguous for all nodes (a "slab" [N, C]; there are E/C of them), so that they stay in the cache of
its multiprocessor. Every sum has a fixed order, so the same seed gives bit-identical results.
"""

