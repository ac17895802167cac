"""Tools that the other packages share. They know nothing about models.

devices  choose a torch device and a precision; deterministic runs
display  notes and progress bars on the terminal, log lines elsewhere
drawing  SVG helpers: safe text, text widths, colours
files    atomic writes and locks
needs    one error message for a missing optional package
threads  the thread pool that the kernels share
"""
