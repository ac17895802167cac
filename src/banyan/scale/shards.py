"""The unit of work: some row groups of one Parquet file become one part of the output.

The name and the content of a part depend only on its shard, the model and the settings. So it does not matter which
worker encodes a shard, when, or how often: the part is the same.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from banyan.compact import Form, Precision
from banyan.corpus.reading import in_blocks
from banyan.corpus.report import Report
from banyan.corpus.sources import as_rows
from banyan.corpus.tables import choose_column, strings
from banyan.encoding import BLOCK_CHARACTERS
from banyan.errors import BanyanError
from banyan.formats import Parquet
from banyan.scale.stores import LABEL, Folder, Mark

if TYPE_CHECKING:
    from banyan.encoder import Banyan

SHARD_ROWS = 500_000  # at most, unless a single row group has more
GROUP_ROWS = 8192  # of the output


@dataclass(frozen=True)
class EncodingSettings:
    """What the embeddings of all shards depend on."""

    model: str  # hash of its files
    version: str  # of banyan
    normalize: bool = False
    truncate_dim: int | None = None
    precision: Precision = "float32"


@dataclass(frozen=True)
class ParquetShard:
    source: str  # the input file, relative to its folder
    mark: Mark  # of that file
    column: str
    number: int  # among the shards of the file
    groups: tuple[int, int]  # its row groups: first, and last + 1
    first_row: int
    rows: int

    @property
    def part(self) -> str:
        """The name of the output file."""
        return f"{self.source.removesuffix('.parquet')}-{self.number:05}.parquet"

    def label(self, settings: EncodingSettings) -> dict[str, Any]:
        """What the part was made from; it is stored in the part's metadata."""
        return json.loads(json.dumps({"run": dataclasses.asdict(settings), "shard": dataclasses.asdict(self)}))


@dataclass
class ShardResult:
    part: str
    rows: int = 0
    blank: int = 0  # rows without text, whose embedding is zero
    report: Report = field(default_factory=Report)
    error: str | None = None


def shards(folder: Folder, source: str, column: str | None) -> list[ParquetShard]:
    """Divide a file into shards. The same file always gives the same shards."""
    with folder.parquet(source) as table:
        mark = folder.mark(source)
        column = choose_column(column, _kinds(table.schema_arrow), folder.name(source))
        sizes = [table.metadata.row_group(group).num_rows for group in range(table.metadata.num_row_groups)]
    found: list[ParquetShard] = []
    first = row = rows = 0
    for group, size in enumerate(sizes):
        rows += size
        if group + 1 == len(sizes) or rows + sizes[group + 1] > SHARD_ROWS:
            found.append(ParquetShard(source, mark, column, len(found), (first, group + 1), row, rows))
            first, row, rows = group + 1, row + rows, 0
    return found


def _kinds(schema: Any) -> dict[str, str]:
    """Column -> type. A dictionary-encoded column has the type of its values."""
    kinds = {column.name: column.type for column in schema}
    return {name: str(getattr(kind, "value_type", kind) if "dictionary" in str(kind) else kind)
            for name, kind in kinds.items()}  # fmt: skip


def encode_shard(
    model: Banyan, folder: Folder, out: Folder, shard: ParquetShard, settings: EncodingSettings
) -> ShardResult:
    """Read, encode and write a shard, one block of rows at a time."""
    result = ShardResult(shard.part)
    normalize, truncate_dim, precision = settings.normalize, settings.truncate_dim, settings.precision
    form = Form.of(model.dim, truncate_dim, precision, normalize)
    parquet = Parquet(form.width, form.dtype)
    schema = parquet.schema.with_metadata({LABEL: json.dumps(shard.label(settings))})
    with out.written(shard.part) as file:
        with parquet.writer(file, schema) as writer:
            for texts in in_blocks(_rows(folder, shard, result.report), GROUP_ROWS, BLOCK_CHARACTERS):
                vectors = model.encode(
                    texts,
                    normalize=normalize,
                    truncate_dim=truncate_dim,
                    precision=precision,
                    show_progress_bar=False,
                )
                writer.write_batch(parquet.batch(texts, vectors))
                result.rows += len(texts)
                result.blank += sum(not text or text.isspace() for text in texts)
        if folder.mark(shard.source) != shard.mark or result.rows != shard.rows:
            raise BanyanError(f"{folder.name(shard.source)} changed while it was being read: run the command again")
    return result


def _rows(folder: Folder, shard: ParquetShard, report: Report) -> Iterator[str]:
    with folder.parquet(shard.source) as table:
        groups = range(*shard.groups)
        for batch in table.iter_batches(4096, row_groups=groups, columns=[shard.column], use_threads=False):
            values: Iterable[object] = strings(batch.column(0), report)
            yield from as_rows(values, report)
