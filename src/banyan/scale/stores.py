"""Folders of Parquet files: a path, or the URL of whatever store fsspec knows (s3://, gs://, abfs://, ...)."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import fsspec
import pyarrow.parquet
from fsspec.implementations.local import LocalFileSystem

from banyan import files
from banyan.errors import BanyanError, first_line

UNFINISHED = "_unfinished"  # like every name that begins with _ or ., passed over by readers of Parquet folders
FINISHED = "_banyan.json"
LABEL = b"banyan"  # the key in a Parquet file's metadata that says what the file was made of
_SUFFIX = ".parquet"
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "created")

Mark = tuple[int, str]  # size, and version or time: a file that has the same is the same


class Folder:
    """One folder and all under it; names are relative to it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            self.files, root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:  # no such protocol, or its package is not installed
            raise BanyanError(f"cannot open {url}: {first_line(error)}") from None
        self.root = root.rstrip("/")
        self.local = isinstance(self.files, LocalFileSystem)

    @property
    def address(self) -> str:
        """For other processes, and other machines that share the disk."""
        return self.root if self.local else self.url

    def name(self, file: str) -> str:
        """For people."""
        return f"{self.url}/{file}"

    def holds(self, other: Folder) -> bool:
        """Is it the other, or above it?"""
        if self.files.protocol != other.files.protocol:
            return False
        above, below = (str(Path(f.root).resolve()) if f.local else f.root for f in (self, other))
        return f"{below}/".startswith(f"{above}/")

    def parquet_files(self) -> list[str]:
        """Every *.parquet, in the order of their names, unless a part of its path begins with . or _."""
        self.files.invalidate_cache()
        names = [path[len(self.root) + 1 :].split("/") for path in self.files.find(self.root) if path.endswith(_SUFFIX)]
        return ["/".join(name) for name in sorted(names) if not any(part.startswith((".", "_")) for part in name)]

    def mark(self, name: str) -> Mark:
        """Asked of the file itself: a listing may tell its time in another form."""
        self.files.invalidate_cache()
        about = self.files.info(self._path(name))
        version = next((about[key] for key in _VERSIONS if about.get(key) is not None), "")
        return int(about["size"]), str(version).strip('"')

    @contextmanager
    def parquet(self, name: str) -> Iterator[Any]:
        """Open to read, as a pyarrow.parquet.ParquetFile."""
        try:
            with self.files.open(self._path(name), "rb") as file, pyarrow.parquet.ParquetFile(file) as table:
                yield table
        except BanyanError:
            raise
        except Exception as error:  # a store's own errors may be of any kind
            raise BanyanError(f"cannot read {self.name(name)} as Parquet: {first_line(error)}") from None

    def label(self, name: str) -> tuple[dict[str, Any], int] | None:
        """What a part says that it was made of, and its rows; None if it was cut short, or is not one of ours."""
        try:
            with self.parquet(name) as table:
                return json.loads(table.metadata.metadata[LABEL]), table.metadata.num_rows
        except (BanyanError, KeyError, TypeError, ValueError):
            return None

    @contextmanager
    def written(self, name: str) -> Iterator[BinaryIO]:
        """A file that takes its name when the block ends well, and has all its bytes then."""
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
        """A file, or a folder with all that is in it, if it is there."""
        if self.exists(name):
            self.files.rm(self._path(name), recursive=True)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"
