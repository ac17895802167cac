"""Campaigns that try to break Banyan: `make torture`. Each prints what it tried, what failed, and its seed.

campaign  what every campaign is given and returns
folders   mutated model folders
strings   odd strings, alone and in batches
faults    kills, short writes and errors at every file operation (faults.c is the shim)
twice     two processes on one target
numbers   training with absurd settings
bombs     compressed bombs, endless lines, odd names
serving   a server under load, slow heads, large bodies, stops
shards    kills of workers, drivers and Ray while Parquet files are encoded
"""
