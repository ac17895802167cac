from __future__ import annotations

import errno
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from banyan.errors import BanyanError
from banyan.support import files


def test_a_full_disk_under_safetensors_is_an_error_of_the_disk_and_keeps_the_old_file(tmp_path):
    resource, path = pytest.importorskip("resource"), tmp_path / "arrays.safetensors"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as found, files.atomic(path) as temporary:
            save_file({"a": np.zeros(10_000)}, temporary)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (found.value.errno, found.value.filename) == (errno.EFBIG, str(path))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_held_folder_is_refused_to_others_and_removed_if_nothing_came_to_be_in_it(tmp_path):
    folder = tmp_path / "folder"
    with files.held(folder, "busy"):
        with pytest.raises(BanyanError, match=r"^busy$"), files.held(folder, "busy"):
            pass
        assert [path.name for path in folder.iterdir()] == [files.LOCK]
    assert not folder.exists()


def test_what_is_in_a_held_folder_stays_until_it_is_cleared(tmp_path):
    folder = tmp_path / "folder"
    with files.held(folder, "busy"):
        (folder / "file").write_text("mine")
        (folder / "more" / "still").mkdir(parents=True)
    assert (folder / "file").read_text() == "mine"
    with files.held(folder, "busy"):
        files.clear(folder)
        with pytest.raises(BanyanError, match=r"^busy$"), files.held(folder, "busy"):
            pass
    assert not folder.exists()


@pytest.mark.parametrize("operation", ["unlink", "rmdir"])
def test_a_disk_that_fails_once_leaves_no_empty_folder(tmp_path, monkeypatch, operation):
    real, failed = getattr(Path, operation), []

    def failing_once(path: Path, *more: object) -> None:
        if not failed:
            failed.append(path)
            raise OSError(errno.EIO, "Input/output error")
        real(path, *more)

    monkeypatch.setattr(Path, operation, failing_once)
    with files.held(tmp_path / "folder", "busy"):
        pass
    assert failed
    assert list(tmp_path.iterdir()) == []


def test_where_no_folder_can_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    refused = pytest.raises(BanyanError, match=r"cannot create the folder .*file: File exists")
    with refused, files.held(tmp_path / "file", "busy"):
        pass


def test_never_do_two_processes_hold_a_folder_that_each_removes(tmp_path):
    """Each writes its mark, looks at it again, and clears the folder, some thousand times."""
    program = """
import os, sys, time
from pathlib import Path
from banyan.support import files
from banyan.errors import BanyanError

folder, done = Path(sys.argv[1]), 0
end = time.monotonic() + 3
while time.monotonic() < end:
    try:
        with files.held(folder, "busy"):
            assert os.listdir(folder) == [files.LOCK], os.listdir(folder)
            (folder / "mark").write_text(str(os.getpid()))
            os.sched_yield()
            assert (folder / "mark").read_text() == str(os.getpid())
            files.clear(folder)
            done += 1
    except BanyanError as error:
        assert str(error) == "busy", error
print(done)
"""

    def run(_: int) -> int:
        command = [sys.executable, "-c", program, str(tmp_path / "folder")]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    with ThreadPoolExecutor(4) as pool:
        assert min(pool.map(run, range(4))) > 0
    assert list(Path(tmp_path).iterdir()) == []
