"""Atomic writes, JSON that is read with care, and locks that give a folder to one process at a time."""

from __future__ import annotations

import errno
import glob
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from banyan.errors import BanyanError, first_line

LOCK = "lock"  # the lock file inside a folder
LARGEST_JSON = 1 << 28  # bytes; a vocabulary of two million pieces is smaller


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path. If the block succeeds, flush it to disk and rename it to `path`.

    The path is in a folder of its own, because some libraries write beside the file that they are given. What a killed
    process left is removed the next time. Follows links. A pipe or a device cannot be replaced, so it is written to
    directly.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    remove_orphans(path.parent, path.name)
    folder = path.with_name(f".{path.name}.{os.getpid()}{_here()}.tmp")
    temporary = folder / path.name
    try:
        folder.mkdir(exist_ok=True)
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # some writers create files that only their owner may read
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except Exception as error:
        if type(error).__name__ != "SafetensorError":
            raise
        raise _failed_write(path, error) from None
    finally:
        for _ in range(2):  # a failing disk may fail once
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder. If the block succeeds, flush its files and rename it to `path`, which must not exist or
    be empty. What a killed process left is removed the next time."""
    path = Path(path).absolute()
    remove_orphans(path.parent, path.name)
    building = path.with_name(f".{path.name}.{os.getpid()}{_here()}.tmp")
    try:
        building.mkdir(parents=True)
        yield building
        for file in building.rglob("*"):
            sync(file)
        os.rename(building, path)
        sync(path.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _failed_write(path: Path, error: Exception) -> OSError:
    """The error of the operating system that safetensors reports as one of its own."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1])), str(path)) if number else OSError(first_line(error))


def remove_orphans(folder: Path, name: str = "") -> None:
    """Remove what processes of this machine that are gone left when they wrote a file of this name, or any file."""
    for leftover in folder.glob(f".{glob.escape(name) or '*'}.*{_here()}.tmp"):
        if not _alive(leftover.name.removesuffix(f"{_here()}.tmp").rpartition(".")[2]):
            remove(leftover)


def _here() -> str:
    """The name of this machine: the processes of another one may write to the same folder."""
    return f"@{platform.node()}".replace(os.sep, "")


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what processes killed while writing left in a folder that this process has locked."""
    for pattern in (".*.tmp", ".tmp??????"):  # ours, and that of safetensors up to banyan 0.2
        for leftover in folder.glob(pattern):
            remove(leftover)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def reported(path: str | Path, kept: str = "") -> Iterator[None]:
    """Turn a failure to write into a BanyanError. kept: what is not lost."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else error.strerror or first_line(error)
        raise BanyanError(f"cannot write {path}: {reason}{kept and '; ' + kept}") from None


def write_text(path: str | Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")  # the checksum is of these bytes


def read_json(path: str | Path, advice: str = "") -> Any:
    """Return the content of a JSON file, or raise a BanyanError that ends in this advice."""
    try:
        size = os.path.getsize(path)
        if size > LARGEST_JSON:
            raise ValueError(f"it has {size:,} bytes, and {LARGEST_JSON:,} is the most")
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or first_line(error)
        raise BanyanError(f"cannot read {path}: {reason}{advice and '; ' + advice}") from None


@contextmanager
def locked(path: Path, otherwise: str) -> Iterator[None]:
    """Lock the file for this process, or raise BanyanError(otherwise). The lock ends with the process."""
    with open(path, "w") as file:
        _lock(file, otherwise)
        yield


@contextmanager
def held(folder: Path, otherwise: str) -> Iterator[None]:
    """Lock a folder for this process, or raise BanyanError(otherwise).

    Creates the folder if necessary, and removes it if it is empty when the block ends.
    """
    lock = folder / LOCK
    with ExitStack() as stack:
        reason: str | None = None
        for _ in range(100):  # another process may remove the folder between any two of these steps
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(open(lock, "w"))
                _lock(file, otherwise)
                if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                    break
            except OSError as error:
                reason = error.strerror
        else:
            raise BanyanError(f"cannot create the folder {folder}: {reason or 'it keeps being removed'}")
        try:
            yield
        finally:
            with suppress(OSError):
                if os.listdir(folder) == [LOCK]:
                    _twice(lock.unlink)  # if it fails, the lock at this path is still ours
                    _twice(folder.rmdir)  # fails if another process has arrived and created another lock


def _twice(work: Callable[[], object]) -> None:
    """Do something, and again if it fails: a failing disk may fail once."""
    try:
        work()
    except OSError:
        work()


def _lock(file: TextIO, otherwise: str) -> None:
    import fcntl  # not on Windows, where only what locks files fails

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise BanyanError(otherwise) from None


def clear(folder: Path) -> None:
    """Delete everything in a folder that this process has locked."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def sync(path: Path) -> None:
    """Flush the bytes of a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
