"""The files that `banyan encode` writes: .npy, .jsonl and .parquet, block by block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from banyan.compact import Form
from banyan.corpus.reading import in_blocks
from banyan.errors import BanyanError
from banyan.support.needs import needs

ROW_GROUP_BYTES = 1 << 25  # of Parquet


class Writer(Protocol):
    """An output format whose bytes can be appended block by block."""

    is_result: bool  # whether what is appended is the result; otherwise `finish` makes it

    def head(self, rows: int) -> bytes:
        """Return what comes before the first block. rows: how many there are so far; `finish` corrects it."""
        ...

    def block(self, texts: list[str], vectors: np.ndarray) -> bytes | memoryview: ...
    def finish(self, data: Path, rows: int) -> Path:
        """Turn the bytes into the result, and return its path."""
        ...


class Npy:
    is_result = True

    def __init__(self, width: int, dtype: Any = np.float32) -> None:
        self.width = width
        self.dtype = np.dtype(dtype).newbyteorder("<")

    def head(self, rows: int) -> bytes:
        """Return a header of format 1.0, always 128 bytes long: the number of rows is certain only at the end."""
        shape = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': ({rows}, {self.width}), }}"
        return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + shape.ljust(117).encode() + b"\n"

    def block(self, texts: list[str], vectors: np.ndarray) -> memoryview:
        return np.ascontiguousarray(vectors, self.dtype).data.cast("B")

    def finish(self, data: Path, rows: int) -> Path:
        with data.open("r+b") as file:
            file.write(self.head(rows))
        return data


class Jsonl:
    is_result = True

    def __init__(self, width: int, dtype: Any = np.float32) -> None:
        self.numbers = ",".join(["%.9g"] * width)  # nine digits represent any float32 and any int8 exactly

    def head(self, rows: int) -> bytes:
        return b""

    def block(self, texts: list[str], vectors: np.ndarray) -> bytes:
        return b"".join(self._line(text, tuple(vector.tolist())) for text, vector in zip(texts, vectors, strict=True))

    def _line(self, text: str, vector: tuple[float, ...]) -> bytes:
        return f'{{"text": {json.dumps(text, ensure_ascii=False)}, "embedding": [{self.numbers % vector}]}}\n'.encode()

    def finish(self, data: Path, rows: int) -> Path:
        return data


class Parquet:
    """Written as an Arrow stream, which can be appended to, and converted to Parquet at the end."""

    is_result = False

    def __init__(self, width: int, dtype: Any = np.float32) -> None:
        with needs("Writing Parquet", "data"):
            import pyarrow
            import pyarrow.parquet
        self.arrow = pyarrow
        self.width, self.dtype = width, np.dtype(dtype)
        embedding = pyarrow.list_(pyarrow.from_numpy_dtype(self.dtype), width)
        columns = [("text", pyarrow.string()), ("embedding", embedding)]
        self.schema = pyarrow.schema([pyarrow.field(name, kind, nullable=False) for name, kind in columns])

    def head(self, rows: int) -> bytes:
        return self.schema.serialize().to_pybytes()

    def block(self, texts: list[str], vectors: np.ndarray) -> memoryview:
        return memoryview(self.batch(texts, vectors).serialize())

    def finish(self, data: Path, rows: int) -> Path:
        result = data.with_suffix(".parquet")
        writer = self.writer(result, self.schema)
        with self.arrow.OSFile(str(data)) as stream, self.arrow.ipc.open_stream(stream) as batches, writer:
            for group in in_blocks(batches, rows + 1, ROW_GROUP_BYTES, lambda batch: batch.nbytes):
                writer.write_table(self.arrow.Table.from_batches(group))
        return result

    def batch(self, texts: list[str], vectors: np.ndarray) -> Any:
        embeddings = self.arrow.FixedSizeListArray.from_arrays(self.arrow.array(vectors.ravel()), self.width)
        return self.arrow.record_batch([self.arrow.array(texts, self.arrow.string()), embeddings], schema=self.schema)

    def writer(self, file: Any, schema: Any) -> Any:
        """Return a writer of Parquet. schema: ours, perhaps with metadata."""
        numbers = "embedding.list.element"
        short = self.dtype.itemsize == 1  # Parquet stores it in four bytes; with a dictionary it takes one again
        return self.arrow.parquet.ParquetWriter(
            file,
            schema,
            use_dictionary=[numbers] if short else False,
            compression={"text": "snappy", numbers: "snappy" if short else "none"},  # floats do not get smaller
            write_statistics=False,
            write_page_checksum=True,  # for `banyan check`
        )


_WRITERS: dict[str, type[Npy] | type[Parquet] | type[Jsonl]] = {
    ".npy": Npy,
    ".parquet": Parquet,
    ".jsonl": Jsonl,
}


def writer_for(out: Path, form: Form) -> Writer:
    if out.suffix not in _WRITERS:
        raise BanyanError(f"cannot write {out}: its name must end in {', '.join(_WRITERS)}")
    return _WRITERS[out.suffix](form.width, form.dtype)
