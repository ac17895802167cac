"""The unit of work: some row groups of one Parquet file in, one part out.

A part's name and content depend on its shard, the model and the settings alone. So it does not matter who encodes a
shard, how often, or when: whatever ends up under the name is the same.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet

from banyan.compact import Form
from banyan.corpus import in_blocks
from banyan.encoding import BLOCK_CHARACTERS, BLOCK_ROWS
from banyan.errors import BanyanError
from banyan.report import Report
from banyan.scale.stores import LABEL, Folder, Mark
from banyan.sources import as_rows
from banyan.tables import choose, strings

if TYPE_CHECKING:
    from banyan.encoder import Banyan

SHARD_ROWS = 500_000  # or one row group, if that has more


@dataclass(frozen=True)
class Run:
    """What all shards have in common, and vectors depend on."""

    model: str  # hash of its files
    version: str  # of banyan
    normalize: bool = False
    truncate_dim: int | None = None
    precision: str = "float32"


@dataclass(frozen=True)
class Shard:
    source: str  # a file's name in the folder
    mark: Mark  # of that file
    column: str
    number: int  # among the shards of the file
    groups: tuple[int, int]  # its row groups, from and up to
    first_row: int
    rows: int

    @property
    def part(self) -> str:
        """The name of the result."""
        return f"{self.source.removesuffix('.parquet')}-{self.number:05}.parquet"

    def label(self, run: Run) -> dict[str, Any]:
        """What the part is known by."""
        return json.loads(json.dumps({"run": dataclasses.asdict(run), "shard": dataclasses.asdict(self)}))


@dataclass
class Outcome:
    """What became of a shard."""

    part: str
    rows: int = 0
    blank: int = 0  # rows without any text, whose embedding is zero
    report: Report = field(default_factory=Report)
    error: str | None = None


def shards(folder: Folder, source: str, column: str | None) -> list[Shard]:
    """A file's shards: the same ones for the same file, whoever asks."""
    with folder.parquet(source) as table:
        mark = folder.mark(source)
        column = choose(column, _kinds(table.schema_arrow), folder.name(source))
        sizes = [table.metadata.row_group(group).num_rows for group in range(table.metadata.num_row_groups)]
    found: list[Shard] = []
    first = row = rows = 0
    for group, size in enumerate(sizes):
        rows += size
        if group + 1 == len(sizes) or rows + sizes[group + 1] > SHARD_ROWS:
            found.append(Shard(source, mark, column, len(found), (first, group + 1), row, rows))
            first, row, rows = group + 1, row + rows, 0
    return found


def _kinds(schema: Any) -> dict[str, str]:
    """Column -> what it holds; a dictionary of strings holds strings."""
    kinds = {column.name: column.type for column in schema}
    return {name: str(getattr(kind, "value_type", kind) if "dictionary" in str(kind) else kind)
            for name, kind in kinds.items()}  # fmt: skip


def encode_shard(model: Banyan, folder: Folder, out: Folder, shard: Shard, run: Run) -> Outcome:
    """Read, encode, write. In memory there is a block of rows at a time."""
    outcome = Outcome(shard.part)
    settings = {"normalize": run.normalize, "truncate_dim": run.truncate_dim, "precision": run.precision}
    form = Form.of(model.dim, run.truncate_dim, run.precision, run.normalize)
    schema = _schema(form).with_metadata({LABEL: json.dumps(shard.label(run))})
    with out.written(shard.part) as file:
        with _writer(file, schema, form) as writer:
            for texts in in_blocks(_rows(folder, shard, outcome.report), BLOCK_ROWS, BLOCK_CHARACTERS):
                vectors = model.encode(texts, show_progress_bar=False, **settings)  # type: ignore[arg-type]
                embeddings = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), form.width)
                columns = [pyarrow.array(texts, pyarrow.string()), embeddings]
                writer.write_batch(pyarrow.record_batch(columns, schema=schema))
                outcome.rows += len(texts)
                outcome.blank += sum(not text or text.isspace() for text in texts)
        if folder.mark(shard.source) != shard.mark or outcome.rows != shard.rows:
            raise BanyanError(f"{folder.name(shard.source)} changed while it was read: leave it alone, and start again")
    return outcome


def _schema(form: Form) -> Any:
    """As `banyan encode -o out.parquet` writes it."""
    embedding = pyarrow.list_(pyarrow.from_numpy_dtype(form.dtype), form.width)
    columns = [("text", pyarrow.string()), ("embedding", embedding)]
    return pyarrow.schema([pyarrow.field(name, kind, nullable=False) for name, kind in columns])


def _writer(file: Any, schema: Any, form: Form) -> Any:
    # Parquet holds a byte in four; numbered by a dictionary, it is a byte again.
    bytes_only = ["embedding.list.element"] if form.dtype.itemsize == 1 else False
    return pyarrow.parquet.ParquetWriter(file, schema, use_dictionary=bytes_only, write_statistics=False)


def _rows(folder: Folder, shard: Shard, report: Report) -> Iterator[str]:
    with folder.parquet(shard.source) as table:
        groups = range(*shard.groups)
        for batch in table.iter_batches(4096, row_groups=groups, columns=[shard.column], use_threads=False):
            values: Iterable[object] = strings(batch.column(0), report)
            yield from as_rows(values, report)
