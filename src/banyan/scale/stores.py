"""Folders of Parquet files: a path, or a URL of any store that fsspec supports (s3://, gs://, abfs://, ...)."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import fsspec
import pyarrow.parquet
from fsspec.implementations.local import LocalFileSystem

from banyan.errors import BanyanError, first_line
from banyan.support import files

UNFINISHED = "_unfinished"  # readers of Parquet folders skip names that start with _ or .
FINISHED = "_banyan.json"
LABEL = b"banyan"  # the key in a Parquet file's metadata under which a part records what it was made from
_SUFFIX, _FIRST_BYTES = ".parquet", b"PAR1"
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "created")

Mark = tuple[int, str]  # size, and version or time: identifies the content of a file


class Folder:
    """A folder with its subfolders. File names are relative to it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            self.files, root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:  # an unknown protocol, or its package is not installed
            raise BanyanError(f"cannot open {url}: {first_line(error)}") from None
        self.root = root.rstrip("/")
        self.local = isinstance(self.files, LocalFileSystem)

    @property
    def address(self) -> str:
        """The path or URL under which other processes and machines find the folder."""
        return self.root if self.local else self.url

    def name(self, file: str) -> str:
        """The full name of a file, for messages."""
        return f"{self.url}/{file}"

    def holds(self, other: Folder) -> bool:
        """Whether the other folder is this one or lies inside it."""
        if self.files.protocol != other.files.protocol:
            return False
        above, below = (str(Path(f.root).resolve()) if f.local else f.root for f in (self, other))
        return f"{below}/".startswith(f"{above}/")

    def parquet_files(self) -> list[str]:
        """All *.parquet files, sorted by name, except those whose path has a part that starts with . or _."""
        self.files.invalidate_cache()
        names = [path[len(self.root) + 1 :].split("/") for path in self.files.find(self.root) if path.endswith(_SUFFIX)]
        return ["/".join(name) for name in sorted(names) if not any(part.startswith((".", "_")) for part in name)]

    def mark(self, name: str) -> Mark:
        """Size and version of a file. Asks for the file itself: listings may format its time differently."""
        self.files.invalidate_cache()
        about = self.files.info(self._path(name))
        version = next((about[key] for key in _VERSIONS if about.get(key) is not None), "")
        return int(about["size"]), str(version).strip('"')

    @contextmanager
    def parquet(self, name: str, verified: bool = False) -> Iterator[Any]:
        """Open a file for reading, as a pyarrow.parquet.ParquetFile. verified: compare the checksums of its pages."""
        opened = pyarrow.parquet.ParquetFile
        try:
            with (
                self.files.open(self._path(name), "rb") as file,
                opened(file, page_checksum_verification=verified) as table,
            ):
                yield table
        except BanyanError:
            raise
        except Exception as error:  # stores raise errors of any type
            raise BanyanError(f"cannot read {self.name(name)} as Parquet: {first_line(error)}") from None

    def label(self, name: str) -> tuple[dict[str, Any], int] | None:
        """What a part was made from, and its number of rows. None if it is truncated or not ours."""
        try:
            with self.parquet(name) as table:
                return json.loads(table.metadata.metadata[LABEL]), table.metadata.num_rows
        except (BanyanError, KeyError, TypeError, ValueError):
            return None

    def footer(self, name: str) -> str:
        """The SHA-256 of the footer of a Parquet file, whose pages have checksums of their own."""
        with self.files.open(self._path(name), "rb") as file:
            if file.read(len(_FIRST_BYTES)) != _FIRST_BYTES:
                raise BanyanError(f"{self.name(name)} is not a Parquet file")
            file.seek(-8, os.SEEK_END)
            size = int.from_bytes(file.read(4), "little") + 8
            file.seek(-size, os.SEEK_END)
            return hashlib.sha256(file.read()).hexdigest()

    @contextmanager
    def written(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for writing. It gets its name when the block ends without an error, and is complete then."""
        temporary, final = self._path(f"{UNFINISHED}/{uuid4().hex}"), self._path(name)
        self.files.makedirs(posixpath.dirname(temporary), exist_ok=True)
        try:
            with self.files.open(temporary, "wb") as file:
                yield file
            self.files.makedirs(posixpath.dirname(final), exist_ok=True)
            if self.local:
                files.sync(Path(temporary))
            self.files.mv(temporary, final)
            if self.local:
                files.sync(Path(final).parent)
        except BaseException:
            with suppress(Exception):
                self.files.rm_file(temporary)
            raise

    def exists(self, name: str) -> bool:
        self.files.invalidate_cache()
        return self.files.exists(self._path(name))

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        if self.exists(name):
            self.files.rm(self._path(name), recursive=True)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"
