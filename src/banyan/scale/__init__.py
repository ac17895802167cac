"""Encodes Parquet folders of any size on many machines: `banyan encode --engine ray`, docs/scaling.md.

    stores.py   folders of Parquet files, on a disk or in an object store (fsspec)
    shards.py   the unit of work: some row groups of one input file become one part of the output
    engine.py   Ray: sends shards to workers, and sends them again if a worker dies
    folder.py   the whole run: plan, encode what is missing, check that each row was written once
"""
