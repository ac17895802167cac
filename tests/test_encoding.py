from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from banyan import block_sums, encoding, formats
from banyan.commands import main
from banyan.compact import PRECISIONS
from banyan.corpus.reading import in_blocks
from banyan.corpus.report import BAD_BYTES, MARKS, NOT_TEXT
from banyan.encoder import Banyan
from banyan.encoding import encode_file, most_similar
from banyan.errors import BanyanError
from banyan.support import checksums, files
from banyan.support.needs import pip_install
from tests.helpers.corpora import LINES
from tests.helpers.models import tiny_model

SUFFIXES = [".npy", ".jsonl", ".parquet"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows at a time, and a record of progress after each."""
    monkeypatch.setattr(encoding, "BLOCK_ROWS", 3)
    monkeypatch.setattr(encoding, "SECONDS_BETWEEN_RECORDS", -1.0)


def load(path: Path) -> tuple[list[str] | None, np.ndarray]:
    """The texts, where they are kept, and the embeddings."""
    if path.suffix == ".npy":
        return None, np.load(path, mmap_mode="r")
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(path).to_pylist()
    return [row["text"] for row in rows], np.array([row["embedding"] for row in rows], np.float32)


def recorded_sums(path: Path) -> list[str]:
    return json.loads(Path(f"{path}.crc32").read_text())["blocks"]


def crc32s(path: Path) -> list[str]:
    content, block = path.read_bytes(), block_sums.BLOCK
    return [f"{zlib.crc32(content[at : at + block]):08x}" for at in range(0, len(content), block)]


# --- What is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("normalize", [False, True])
def test_row_i_is_the_embedding_of_line_i(model, text, tmp_path, suffix, normalize, small_blocks):
    out = tmp_path / f"out{suffix}"
    summary = encode_file(model, text, out, normalize=normalize)
    texts, vectors = load(out)
    assert texts is None or texts == LINES
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, model.encode(LINES, normalize=normalize))
    assert not vectors[[1, 3]].any()
    assert (summary.rows, summary.blank, summary.dim) == (len(LINES), 2, model.dim)
    assert not (tmp_path / f"out{suffix}.partial").exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_result_does_not_depend_on_the_size_of_blocks(model, text, tmp_path, suffix, monkeypatch):
    encode_file(model, text, tmp_path / f"one{suffix}")
    monkeypatch.setattr(encoding, "BLOCK_CHARACTERS", 5)
    encode_file(model, text, tmp_path / f"many{suffix}")
    one, many = load(tmp_path / f"one{suffix}"), load(tmp_path / f"many{suffix}")
    assert one[0] == many[0]
    np.testing.assert_array_equal(one[1], many[1])


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "content",
    [
        b"one\ntwo\nthree\n",
        b"one\ntwo",
        b"one\r\ntwo\r\n",
        b"one\rtwo\r",
        gzip.compress(b"\none\n\ntwo\n", mtime=0),  # the same in each process, because the names of the tests have it
    ],
)
def test_checksums_are_those_of_the_result(model, tmp_path, suffix, content, monkeypatch):
    """Also where the number of line ends is not that of rows."""
    monkeypatch.setattr(block_sums, "BLOCK", 100)
    path, out = tmp_path / "in.txt", tmp_path / f"out{suffix}"
    path.write_bytes(content)
    summary = encode_file(model, path, out)
    assert len(load(out)[1]) == summary.rows
    assert recorded_sums(out) == crc32s(out)


@pytest.mark.parametrize("suffix", [".npy", ".jsonl"])
def test_what_was_written_is_not_read_again_for_its_checksum(model, text, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(block_sums, "of_file", lambda path: pytest.fail(f"reads {path}"))
    encode_file(model, text, tmp_path / f"out{suffix}")


def test_a_result_with_the_checksum_of_an_earlier_version_is_finished_and_can_be_replaced(model, text, tmp_path):
    out = tmp_path / "out.npy"
    encode_file(model, text, out)
    Path(f"{out}.crc32").unlink()
    before = Path(f"{out}.sha256")
    checksums.record(before, {out.name: checksums.digest(out)})
    assert encode_file(model, text, out, resume=True).finished_before
    encode_file(model, text, out, normalize=True, overwrite=True)
    assert not before.exists()
    assert recorded_sums(out) == crc32s(out)


def test_npy_header_is_valid_for_any_number_of_rows():
    for rows in (0, 1, 10**6, 10**15):
        head = formats.Npy(256).head(rows)
        assert len(head) == 128
        stream = io.BytesIO(head)
        assert np.lib.format.read_magic(stream) == (1, 0)
        assert np.lib.format.read_array_header_1_0(stream) == ((rows, 256), False, np.dtype("<f4"))
        assert stream.tell() == 128


def test_json_numbers_give_back_every_float32(tmp_path):
    rng = np.random.default_rng(0)
    vectors = rng.integers(0, 2**32, (2000, 4), np.uint32).view(np.float32)
    vectors[~np.isfinite(vectors)] = 0
    lines = formats.Jsonl(4).block(["x"] * len(vectors), vectors).decode().splitlines()
    np.testing.assert_array_equal(np.array([json.loads(line)["embedding"] for line in lines], np.float32), vectors)


def test_parquet_columns_and_row_groups(model, text, tmp_path, small_blocks, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(formats, "ROW_GROUP_BYTES", 4 * 4 * model.dim)  # more than a block, less than two
    encode_file(model, text, tmp_path / "out.parquet")
    with parquet.ParquetFile(tmp_path / "out.parquet") as file:
        types = {field.name: str(field.type) for field in file.schema_arrow}
        assert types == {"text": "string", "embedding": f"fixed_size_list<element: float>[{model.dim}]"}
        groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert groups == [6, 2]


def test_parquet_compresses_texts_and_short_numbers_only(model, text, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for precision, expected in (("float32", "UNCOMPRESSED"), ("int8", "SNAPPY")):
        encode_file(model, text, tmp_path / f"{precision}.parquet", precision=precision)
        with parquet.ParquetFile(tmp_path / f"{precision}.parquet") as file:
            columns = [file.metadata.row_group(0).column(i) for i in range(2)]
        assert [column.compression for column in columns] == ["SNAPPY", expected]
        assert columns[1].has_dictionary_page == (precision == "int8")


# --- What is read ----------------------------------------------------------------------------------------------------


def test_lines_end_as_they_do_on_any_system_and_nowhere_else(model, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes("\ufeffone\r\n\r\ntwo\rthree\u2028still\x0bthree\n\nlast".encode())
    summary = encode_file(model, path, tmp_path / "out.jsonl")
    assert load(tmp_path / "out.jsonl")[0] == ["one", "", "two", "three\u2028still\x0bthree", "", "last"]
    assert summary.report.repaired == {MARKS: 1}


def test_bad_bytes_are_replaced_counted_and_reported(model, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\nb\xffd \xc3(\nfine\n")
    summary = encode_file(model, path, tmp_path / "out.jsonl")
    assert load(tmp_path / "out.jsonl")[0] == ["good", "b\ufffdd \ufffd(", "fine"]
    assert summary.report.repaired == {BAD_BYTES: 2}
    assert f"2 {BAD_BYTES}" in str(summary)


def test_several_files_follow_each_other(model, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"three\n"))
    (tmp_path / "c.txt").write_text("")
    encode_file(model, [tmp_path / "a.txt", tmp_path / "c.txt", tmp_path / "b.txt.gz"], tmp_path / "out.jsonl")
    assert load(tmp_path / "out.jsonl")[0] == ["one", "two", "three"]


def test_a_row_of_a_table_is_a_row_whatever_it_holds(model, tmp_path):
    path = tmp_path / "in.jsonl"
    rows = [{"t": "one\ntwo"}, {"t": None}, {"t": 3}, {"other": "x"}, {"t": ""}, {"t": "last"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = encode_file(model, path, tmp_path / "out.jsonl", column="t")
    texts, vectors = load(tmp_path / "out.jsonl")
    assert texts == ["one\ntwo", "", "", "", "", "last"]
    np.testing.assert_array_equal(vectors, model.encode(texts))
    assert summary.report.dropped == {NOT_TEXT: 3}
    assert f"3 {NOT_TEXT}" in str(summary)


def test_csv_and_parquet_rows_keep_their_places(model, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "in.csv").write_text('id,t\n1,one\n2,\n3,"two\nlines"\n')
    parquet.write_table(arrow.table({"t": ["one", None, "two\nlines"]}), tmp_path / "in.parquet")
    for name in ("in.csv", "in.parquet"):
        encode_file(model, tmp_path / name, tmp_path / "out.jsonl", column="t", overwrite=True)
        assert load(tmp_path / "out.jsonl")[0] == ["one", "", "two\nlines"]


def test_standard_input(model, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\n\nthree")))
    encode_file(model, "-", tmp_path / "out.jsonl")
    assert load(tmp_path / "out.jsonl")[0] == ["one", "", "three"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "out.jsonl.crc32"]


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    """With a model that takes none itself."""
    monkeypatch.setattr(encoding, "BLOCK_ROWS", 500)
    vectors = np.zeros((500, 64), np.float32)
    model: Any = SimpleNamespace(
        dim=64,
        device="cpu",
        quick_fingerprint=lambda: "",
        encode=lambda texts, *_, **__: vectors[: len(texts)],
    )
    peaks = []
    for rows in (40_000, 120_000):
        (tmp_path / "in.txt").write_text("a line of some words\n" * rows)
        tracemalloc.start()
        encode_file(model, tmp_path / "in.txt", tmp_path / f"{rows}.npy")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert np.load(tmp_path / f"{rows}.npy", mmap_mode="r").shape == (rows, 64)
    assert peaks[1] < 1.1 * peaks[0]  # the larger result alone has 30 million bytes


def test_long_rows_come_in_smaller_blocks():
    blocks = list(in_blocks(["123456", "789", "01234567890", "1", ""], most=1000, characters=10))
    assert blocks == [["123456", "789", "01234567890"], ["1", ""]]


# --- What goes wrong -------------------------------------------------------------------------------------------------


def test_unknown_suffix_names_the_three(model, text, tmp_path):
    with pytest.raises(BanyanError, match=r"out\.csv: its name must end in \.npy, \.parquet, \.jsonl"):
        encode_file(model, text, tmp_path / "out.csv")


def test_existing_result_is_kept_unless_told(model, text, tmp_path):
    out = tmp_path / "out.npy"
    out.write_text("mine")
    with pytest.raises(BanyanError, match=r"out\.npy exists already: --overwrite replaces it"):
        encode_file(model, text, out)
    with pytest.raises(BanyanError, match="exists already"):
        encode_file(model, text, out, resume=True)
    assert out.read_text() == "mine"
    encode_file(model, text, out, overwrite=True)
    assert load(out)[1].shape == (len(LINES), model.dim)
    assert str(encode_file(model, text, out, resume=True)) == f"{out} is finished already"


def test_input_is_not_overwritten(model, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n')
    with pytest.raises(BanyanError, match="is also an input"):
        encode_file(model, path, path, overwrite=True)
    assert path.read_text() == '{"text": "a"}\n'


@pytest.mark.parametrize(
    ("inputs", "out", "message"),
    [
        ("none.txt", "out.npy", "there is no file or folder"),
        ("in.txt", "nowhere/out.npy", "there is no folder .*nowhere to write out.npy to"),
        ("in.txt", "folder.npy", "is a folder: name a file"),
    ],
)
def test_what_is_not_there_is_named_and_nothing_is_left(model, text, tmp_path, inputs, out, message):
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(BanyanError, match=message):
        encode_file(model, tmp_path / inputs, tmp_path / out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.npy", "in.txt"]


def test_pyarrow_missing_names_the_extra(model, text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BanyanError, match=re.escape(pip_install("data"))):
        encode_file(model, text, tmp_path / "out.parquet")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_full_disk_keeps_what_was_done(model, text, tmp_path, suffix, small_blocks, monkeypatch):
    encode_file(model, text, tmp_path / f"whole{suffix}")
    out = tmp_path / f"out{suffix}"
    with monkeypatch.context() as patched:
        patched.setattr(encoding._Partial, "append", _failing_at(2, OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(BanyanError, match="partial: the disk is full; the rows encoded so far are kept"):
            encode_file(model, text, out)
    assert not out.exists()
    summary = encode_file(model, text, out, resume=True)
    assert summary.resumed == 3
    assert out.read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()


def _failing_at(count: int, error: BaseException) -> Callable[..., None]:
    """_Partial.append, until the count-th call."""
    append = encoding._Partial.append
    calls = iter(range(1, 100))

    def failing(*arguments: Any) -> None:
        if next(calls) == count:
            raise error
        append(*arguments)

    return failing


def test_nothing_is_written_after_a_block_that_fails(model, text, tmp_path, small_blocks):
    """The blocks after it are encoded at the same time."""

    def encode(texts: list[str], **how: Any) -> np.ndarray:
        if texts == LINES[3:6]:
            raise BanyanError("no")
        return model.encode(texts, **how)

    failing: Any = SimpleNamespace(
        dim=model.dim, device="cpu", quick_fingerprint=model.quick_fingerprint, encode=encode
    )
    with pytest.raises(BanyanError, match=r"^no$"):
        encode_file(failing, text, tmp_path / "out.npy")
    assert json.loads((tmp_path / "out.npy.partial" / "progress.json").read_text())["rows"] == 3
    assert encode_file(model, text, tmp_path / "out.npy", resume=True).resumed == 3
    np.testing.assert_array_equal(load(tmp_path / "out.npy")[1], model.encode(LINES))


@pytest.mark.parametrize("place", ["first", "later"])
def test_an_error_of_the_disk_that_comes_late_is_not_lost(model, text, tmp_path, small_blocks, monkeypatch, place):
    """The disk writes beside everything else, and the system tells an error only once."""
    monkeypatch.setattr(encoding, "BYTES_BETWEEN_FLUSHES", 0)
    monkeypatch.setattr(encoding, "SECONDS_BETWEEN_RECORDS", 1e9)
    errors = iter([OSError(errno.EIO, "Input/output error")] if place == "first" else [None, OSError(errno.EIO, "x")])

    def fsync(file: int) -> None:
        if error := next(errors, None):
            raise error

    monkeypatch.setattr(encoding.os, "fsync", fsync)
    with pytest.raises(BanyanError, match=r"cannot write to .*partial"):
        encode_file(model, text, tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()


# --- Resuming --------------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(model, text, tmp_path, small_blocks, monkeypatch) -> Path:
    """A result of which six rows are done."""
    out = tmp_path / "out.npy"
    with monkeypatch.context() as patched:
        patched.setattr(encoding._Partial, "append", _failing_at(3, KeyboardInterrupt()))
        patched.setattr(encoding, "SECONDS_BETWEEN_RECORDS", 1e9)  # so only the interrupt itself records them
        with pytest.raises(KeyboardInterrupt, match="stopped after 6 rows, which are kept: --resume continues"):
            encode_file(model, text, out)
    return out


def test_interrupted_run_goes_on(model, text, interrupted):
    summary = encode_file(model, text, interrupted, resume=True)
    assert (summary.rows, summary.resumed, summary.blank) == (len(LINES), 6, 2)
    np.testing.assert_array_equal(load(interrupted)[1], model.encode(LINES))


def test_a_run_goes_on_with_blocks_of_another_size(model, text, interrupted, monkeypatch):
    monkeypatch.setattr(encoding, "BLOCK_ROWS", 4)
    assert encode_file(model, text, interrupted, resume=True).resumed == 6
    np.testing.assert_array_equal(load(interrupted)[1], model.encode(LINES))


def test_checksums_of_a_resumed_run_are_those_of_the_result(model, text, interrupted):
    encode_file(model, text, interrupted, resume=True)
    assert recorded_sums(interrupted) == crc32s(interrupted)


def test_unfinished_run_is_neither_taken_up_nor_lost_silently(model, text, interrupted):
    with pytest.raises(BanyanError, match="an unfinished run: --resume continues it, --overwrite starts again"):
        encode_file(model, text, interrupted)
    assert encode_file(model, text, interrupted, overwrite=True).resumed == 0


@pytest.mark.parametrize("change", ["model", "input", "normalisation"])
def test_only_the_same_run_is_resumed(model, text, interrupted, change):
    options = {"normalize": True} if change == "normalisation" else {}
    if change == "input":
        text.write_text("other\n" * 10)
    with pytest.raises(BanyanError, match=f"cannot be resumed, because the {change} changed: --overwrite starts again"):
        encode_file(tiny_model(32) if change == "model" else model, text, interrupted, resume=True, **options)


@pytest.mark.parametrize("damage", ["", "{}", '{"run": 1, "rows": 6, "bytes": 1}'])
def test_damaged_record_is_an_error(model, text, interrupted, damage):
    (Path(f"{interrupted}.partial") / "progress.json").write_text(damage)
    with pytest.raises(BanyanError, match=r"cannot read .*progress\.json: --overwrite starts again"):
        encode_file(model, text, interrupted, resume=True)


@pytest.mark.parametrize("left", [200, 0])
def test_lost_data_is_an_error(model, text, interrupted, left):
    data = Path(f"{interrupted}.partial") / "data"
    interrupted.write_text("an older result")
    if left:
        data.write_bytes(data.read_bytes()[:left])
    else:
        data.unlink()
    with pytest.raises(BanyanError, match=r"data is shorter than .*progress\.json says: --overwrite starts again"):
        encode_file(model, text, interrupted, resume=True)


def test_resume_without_an_earlier_run_starts(model, text, tmp_path):
    assert encode_file(model, text, tmp_path / "out.npy", resume=True).rows == len(LINES)


def test_the_same_text_piped_in_again_goes_on(model, tmp_path, small_blocks, monkeypatch):
    def piped(text: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))

    text = "".join(f"{line}\n" for line in LINES).encode()
    out = tmp_path / "out.npy"
    piped(text)
    with monkeypatch.context() as patched:
        patched.setattr(encoding._Partial, "append", _failing_at(2, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            encode_file(model, "-", out)
    piped(b"other text")
    with pytest.raises(BanyanError, match="because the input changed"):
        encode_file(model, "-", out, resume=True)
    piped(text)
    assert encode_file(model, "-", out, resume=True).resumed == 3
    np.testing.assert_array_equal(load(out)[1], model.encode(LINES))


_SLOW = """
import sys
from pathlib import Path

from banyan import encoding
from banyan.encoder import Banyan

encoding.BLOCK_ROWS, encoding.SECONDS_BETWEEN_RECORDS = 1, -1.0
append = encoding._Partial.append

def appended(*arguments):
    append(*arguments)
    print(flush=True)
    sys.stdin.readline()  # until told to go on

encoding._Partial.append = appended
folder = Path(sys.argv[1])
encoding.encode_file(Banyan.from_pretrained(folder / "model"), folder / "in.txt", folder / "out.npy", resume=True)
"""


def test_a_second_process_is_refused_while_the_first_one_writes(model, text, tmp_path, interrupted):
    model.save_pretrained(tmp_path / "model")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", _SLOW, str(tmp_path)], **pipes) as first:
        first.stdout.readline()
        for options, inputs in product(({"resume": True}, {"overwrite": True}, {}), (text, "-")):  # "-" would be copied
            with pytest.raises(BanyanError, match=r"^another process is writing .*out\.npy: wait for it, or stop it$"):
                encode_file(model, inputs, interrupted, **options)
        first.communicate("\n" * len(LINES), timeout=60)
    assert first.returncode == 0
    np.testing.assert_array_equal(load(interrupted)[1], model.encode(LINES))
    assert not Path(f"{interrupted}.partial").exists()


def test_the_command_refuses_a_second_process_in_one_sentence(model, text, tmp_path, interrupted, capsys):
    model.save_pretrained(tmp_path / "model")
    with files.held(Path(f"{interrupted}.partial"), ""):
        arguments = ["encode", tmp_path / "model", text, "-o", interrupted, "--resume"]
        assert main([str(argument) for argument in arguments]) == 1
    told = f"banyan: another process is writing {interrupted}: wait for it, or stop it\n"
    assert capsys.readouterr().err == told
    assert encode_file(model, text, interrupted, resume=True).resumed == 6


def test_a_refused_run_leaves_no_folder(model, text, tmp_path):
    (tmp_path / "out.npy").write_text("mine")
    with pytest.raises(BanyanError, match="exists already"):
        encode_file(model, text, tmp_path / "out.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npy"]


_KILLER = """
import os, signal, sys
from pathlib import Path

from banyan import block_sums, encoding
from banyan.encoder import Banyan

encoding.BLOCK_ROWS = 4
os.fsync = lambda file: None  # slow, and of no use against SIGKILL
folder, suffixes = Path(sys.argv[1]), sys.argv[2:]
model = Banyan.from_pretrained(folder / "model")
NEVER, NOTHING_TO_RESUME = 0, 3
moments_left = NEVER

def moment():
    global moments_left
    moments_left -= 1
    if moments_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def audit(event, arguments):  # told before each of these is done
    if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"):
        if "/out." in str(arguments[0]):
            moment()

def run(out, kill_at, **options):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    global moments_left
    moments_left = kill_at
    sys.addaudithook(audit)
    append = encoding._Partial.append
    def appended(*arguments):
        append(*arguments)
        moment()
    encoding._Partial.append = appended
    try:
        encoding.encode_file(model, folder / "in.txt", out, **options)
    except encoding.BanyanError as error:
        os._exit(NOTHING_TO_RESUME if "exists already" in str(error) else 4)
    os._exit(0)

def has_its_own_checksums(out):
    return not out.exists() or not block_sums.beside(out).exists() or not list(block_sums.damaged(out))

for suffix in suffixes:
    for records, replaces in ((True, False), (True, True), (False, False), (False, True)):
        encoding.SECONDS_BETWEEN_RECORDS = -1.0 if records else 1e9
        out, whole, earlier = (folder / (name + suffix) for name in ("out", "whole", "earlier"))
        encoding.encode_file(model, folder / "in.txt", whole, overwrite=True)
        encoding.encode_file(model, folder / "earlier.txt", earlier, overwrite=True)
        contents = [whole.read_bytes(), earlier.read_bytes()]
        kills = 0
        while True:
            if replaces:
                encoding.encode_file(model, folder / "earlier.txt", out, overwrite=True)
            if run(out, kills + 1, overwrite=True) != -signal.SIGKILL:
                break
            kills += 1
            told = suffix, records, replaces, kills
            found = out.read_bytes() if out.exists() else None
            assert found in (contents if replaces else [contents[0], None]), told
            assert has_its_own_checksums(out), told
            if kills % 3 == 0:
                run(out, 5, resume=True)  # killed again
            status = run(out, NEVER, resume=True)
            assert status == 0 or (status == NOTHING_TO_RESUME and out.exists()), (told, status)
            if replaces and out.read_bytes() == contents[1]:  # killed before the first record
                assert run(out, NEVER, overwrite=True) == 0, told
            assert out.read_bytes() == contents[0], told
            assert block_sums.beside(out).exists() and has_its_own_checksums(out), told
            out.unlink()
        out.unlink()
        print(kills)
"""


def test_killed_at_any_moment_and_resumed_the_result_has_the_same_bytes(model, text, tmp_path):
    pytest.importorskip("pyarrow")
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "earlier.txt").write_text("an earlier text\n", encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", _KILLER, str(tmp_path), *SUFFIXES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    kills = [int(line) for line in done.stdout.split()]
    assert len(kills) == 4 * len(SUFFIXES)
    assert min(kills) >= 9


@pytest.mark.parametrize("left", ["OUT.partial/data", ".OUT.crc32.PID.tmp/OUT.crc32"])
def test_what_a_process_killed_at_the_very_end_left_is_removed(model, text, tmp_path, left):
    out = tmp_path / "out.npy"
    encode_file(model, text, out)
    names = sorted(path.name for path in tmp_path.iterdir())
    nobody = f"{2**22 + 1}{files._here()}"  # above the largest number of a process
    leftover = tmp_path / left.replace("OUT", out.name).replace("PID", nobody)
    leftover.parent.mkdir()
    leftover.write_bytes(b"rows")
    assert encode_file(model, text, out, resume=True).finished_before
    assert sorted(path.name for path in tmp_path.iterdir()) == names


# --- Compact ---------------------------------------------------------------------------------------------------------


def written(path: Path) -> np.ndarray:
    """The embeddings, as numpy has them by itself."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".jsonl":
        rows = [json.loads(line)["embedding"] for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        return np.array(rows)
    column = pytest.importorskip("pyarrow.parquet").read_table(path)["embedding"].combine_chunks()
    return column.flatten().to_numpy().reshape(len(column), -1)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_encode_writes_what_python_gives(banyan, model_folder, model, text, tmp_path, suffix, precision, small_blocks):
    out = tmp_path / f"out{suffix}"
    code, _, err = banyan("encode", model_folder, text, "-o", out, "--precision", precision, "--truncate-dim", 11)
    as_what = "" if precision == "float32" else f" as {precision}"
    assert code == 0
    assert f"8 rows of 11 dimensions{as_what} (" in err
    expected, vectors = model.encode(LINES, precision=precision, truncate_dim=11), written(out)
    assert vectors.dtype == expected.dtype or suffix == ".jsonl"
    np.testing.assert_array_equal(vectors.astype(expected.dtype), expected)


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        ("precision", {"precision": "int8"}),
        ("truncation", {"truncate_dim": 8}),
        ("truncation and the precision", {"truncate_dim": 8, "precision": "binary"}),
    ],
)
def test_a_run_is_resumed_with_its_own_settings_only(model, text, interrupted, changed, options):
    with pytest.raises(BanyanError, match=f"cannot be resumed, because the {changed} changed: --overwrite starts"):
        encode_file(model, text, interrupted, resume=True, **options)
    assert encode_file(model, text, interrupted, resume=True).resumed == 6


def test_command_refuses_before_it_loads_a_model(banyan, tmp_path):
    for arguments, message in (
        (["--precision", "int8", "--normalize"], "banyan: normalize needs float32, because int8 does not"),
        (["--precision", "float16"], "banyan: there is no precision 'float16': choose one of"),
        (["--truncate-dim", "-1"], "banyan: cannot truncate to -1 dimensions"),
    ):
        code, out, err = banyan("encode", "no-model", "in.txt", "-o", tmp_path / "out.npy", *arguments)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(message)


# --- Searching -------------------------------------------------------------------------------------------------------


def test_most_similar_rows_of_a_file_best_first(model, text, small_blocks):
    hits = most_similar(model, "the cat sat", text, k=4)
    cosines = model.similarity(["the cat sat"], LINES)[0]
    assert [hit.row - 1 for hit in hits] == np.argsort(-cosines, kind="stable")[:4].tolist()
    assert [hit.text for hit in hits] == [LINES[hit.row - 1] for hit in hits]
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(cosines)[::-1][:4], atol=1e-6)
    assert hits[0].text == "the cat sat"


def test_equal_rows_come_in_the_order_of_the_file(model, tmp_path, small_blocks):
    (tmp_path / "in.txt").write_text("a dog\nthe cat\n" * 8)
    assert [hit.row for hit in most_similar(model, "the cat", tmp_path / "in.txt", k=5)] == [2, 4, 6, 8, 10]


def test_fewer_rows_than_asked_for(model, text):
    assert len(most_similar(model, "x", text, k=1000)) == len(LINES)
    with pytest.raises(BanyanError, match="k must be at least 1, not 0"):
        most_similar(model, "x", text, k=0)
    with pytest.raises(BanyanError, match="the query is empty"):
        most_similar(model, " ", text)


@pytest.mark.parametrize("which", [Banyan.fingerprint, Banyan.quick_fingerprint])
def test_fingerprint_of_a_model_changes_with_its_weights(model, which):
    other = tiny_model()
    assert which(other) == which(model)
    other.embedding[3, 2] += 1
    assert which(other) != which(model)
    assert len(which(model)) == len(hashlib.sha256().hexdigest())
