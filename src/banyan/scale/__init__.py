"""Parquet folders of any size, encoded by many machines (docs/scaling.md).

    stores    folders of Parquet files on a disk or in a store, through fsspec
    shards    the unit of work: some row groups of one file in, one part out
    engine    Ray: shards to workers, again if a worker dies
    folder    the whole: plan, encode what is not there, check that each row is there once
"""
