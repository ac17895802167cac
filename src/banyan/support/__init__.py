"""Tools that the other packages share. They know nothing about models.

checksums  checksums of files, as sha256sum writes them
compiling  Numba's compiler, with a folder for what it compiles
devices    choose a torch device; deterministic runs
display    notes and progress bars on the terminal, log lines elsewhere
drawing    SVG helpers: safe text, text widths, colours
files      atomic writes and locks
log        the logger "banyan"
needs      one error message for a missing optional package
pages      the content-security policy of a page
quiet      silence transformers
rows       slices of rows, and rows of length 1
threads    the thread pool that the kernels share
"""
