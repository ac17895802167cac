"""Rows per second of a worker of `banyan encode --engine ray`, and the cost of encoding many rows.

    python -m benchmarks.encode_folder model/ sentences.txt --rows 1e9

Shards of distinct sentences are read, encoded and written one after another on one core, as a worker does. Times are
CPU times (user and system), which depend less on other programs than wall-clock times. The figures are in
docs/scaling.md. Prices and the speed of a rented core are assumptions, which can be set by options.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from unittest.mock import patch

os.environ["BANYAN_THREADS"] = "1"

import pyarrow
import pyarrow.parquet

from banyan import Banyan
from banyan.compact import PRECISIONS, Precision
from banyan.scale import shards as shards_module
from banyan.scale.shards import EncodingSettings, ParquetShard, encode_shard
from banyan.scale.stores import Folder

ROWS = 50_000
SHARDS = 5  # after one that compiles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", help="a file with one sentence a line")
    parser.add_argument("--rows", type=float, default=1e9, help="number of rows for the estimate (default: 1e9)")
    parser.add_argument("--share", type=float, default=0.5, help="speed of a rented core / speed of this one (0.5)")
    parser.add_argument("--core-hour", type=float, default=0.05, help="price in dollars (default: 0.05)")
    parser.add_argument("--gigabyte-month", type=float, default=0.023, help="price in dollars (default: 0.023)")
    options = parser.parse_args()
    with open(options.text, encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in islice(file, ROWS * (SHARDS + 1))]
    words = statistics.mean(len(text.split()) for text in texts)
    print(f"{SHARDS} shards of {ROWS:,} sentences of {words:.1f} words: median, least and most")
    model = Banyan.from_pretrained(options.model)
    for precision in PRECISIONS:
        rates, size = _measured(model, texts, precision)
        rate = statistics.median(rates)
        spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
        print(f"{precision:8} {rate:,.0f} rows per core second ({spread}), {size:,.0f} bytes per row")
        hours, gigabytes = options.rows / (rate * options.share) / 3600, options.rows * size / 1e9
        costs = f"${hours * options.core_hour:,.2f} once and ${gigabytes * options.gigabyte_month:,.2f} a month"
        print(f"{'':8} {options.rows:,.0f} rows: {hours:,.1f} core hours, {gigabytes:,.0f} GB, {costs}")


def _measured(model: Banyan, texts: list[str], precision: Precision) -> tuple[list[float], float]:
    """Rows per second of one core for each shard, and bytes per row of the result."""
    with tempfile.TemporaryDirectory() as place:
        source, out = Path(place) / "in", Path(place) / "out"
        source.mkdir()
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), source / "a.parquet", row_group_size=ROWS)
        with patch.object(shards_module, "SHARD_ROWS", ROWS):
            found = shards_module.shards(Folder(str(source)), "a.parquet", None)
        settings = EncodingSettings("benchmark", "", precision=precision)
        rates = [_rate(model, source, out, shard, settings) for shard in found][1:]
        return rates, (out / found[0].part).stat().st_size / found[0].rows


def _rate(model: Banyan, source: Path, out: Path, shard: ParquetShard, settings: EncodingSettings) -> float:
    started = time.process_time()
    encode_shard(model, Folder(str(source)), Folder(str(out)), shard, settings)
    return shard.rows / (time.process_time() - started)


if __name__ == "__main__":
    main()
