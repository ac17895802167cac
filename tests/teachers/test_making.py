"""Vectors made once: whatever happens, what is finished is kept."""

from __future__ import annotations

import json
import os
import tracemalloc

import numpy as np
import pytest

from banyan.errors import BanyanError
from banyan.support import files
from banyan.support.checksums import SUMS, damaged
from banyan.support.display import Display
from banyan.teachers import TextFile, make_vectors, making

QUIET = Display(quiet=True)
WIDTH = 3


class Fake:
    """A teacher whose vectors tell the length and the letters of a text."""

    name, licence = "fake", None

    def __init__(self, fails_at: str | None = None) -> None:
        self.batches: list[list[str]] = []
        self.fails_at = fails_at

    @property
    def asked(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    def encode(self, texts: list[str]) -> np.ndarray:
        if self.fails_at in texts:
            raise BanyanError("the teacher fell asleep")
        self.batches.append(texts)
        return vectors_of(texts)


def vectors_of(texts) -> np.ndarray:
    rows = [[len(text), sum(map(ord, text)) % 1024, 1] if text.strip() else [0, 0, 0] for text in texts]
    return np.array(rows, np.float32)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(making, "FIRST_BLOCK", 8)
    monkeypatch.setattr(making, "LAST_BLOCK", 8)
    monkeypatch.setattr(making, "BATCH", 3)


def texts_of(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{number} " + "x" * int(rng.integers(1, 40)) for number in range(n)]


def progress(folder) -> dict:
    return json.loads((folder / making.PROGRESS).read_text())


def test_vectors_are_made_once_and_read_only(tmp_path):
    texts, teacher = texts_of(50), Fake()
    found = make_vectors(tmp_path / "new" / "folder", texts, teacher, QUIET, "lines")
    np.testing.assert_array_equal(found, vectors_of(texts))
    assert found.dtype == np.float16
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert sorted(teacher.asked) == sorted(texts)
    again = Fake()
    np.testing.assert_array_equal(make_vectors(tmp_path / "new" / "folder", texts, again, QUIET, "lines"), found)
    assert not again.batches


def test_batches_are_of_like_length_and_no_text_is_sent_twice_or_blank(tmp_path):
    texts = ["bb", "", "dddd", "a", " \t", "bb", "ccc", "eeeee"]
    teacher = Fake()
    found = make_vectors(tmp_path, texts, teacher, QUIET, "lines")
    np.testing.assert_array_equal(found, vectors_of(texts))
    assert teacher.batches == [["eeeee", "dddd", "ccc"], ["bb", "a"]]


def test_long_texts_make_small_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "BATCH_CHARACTERS", 10)
    teacher = Fake()
    make_vectors(tmp_path, ["x" * 25, "y" * 5, "z" * 4, "w"], teacher, QUIET, "lines")
    assert teacher.batches == [["x" * 25], ["y" * 5, "z" * 4], ["w"]]


def test_blank_texts_at_the_beginning_get_zeros(tmp_path):
    texts = [""] * 20 + ["some", "more"]
    with pytest.raises(BanyanError, match="fell asleep; 16 of 22 vectors are kept"):
        make_vectors(tmp_path, texts, Fake("some"), QUIET, "lines")
    np.testing.assert_array_equal(make_vectors(tmp_path, texts, Fake(), QUIET, "lines"), vectors_of(texts))


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_where_there_is_nothing_to_encode_is_said(texts, tmp_path):
    for _ in range(2):
        with pytest.raises(BanyanError, match=f"nothing to encode: all {len(texts)} lines are blank"):
            make_vectors(tmp_path, texts, Fake(), QUIET, "lines")


def test_a_failure_keeps_every_finished_block(tmp_path):
    texts = texts_of(50)
    with pytest.raises(BanyanError) as raised:
        make_vectors(tmp_path, texts, Fake(texts[30]), QUIET, "lines")
    assert str(raised.value) == (
        "the teacher fell asleep; 24 of 50 vectors are kept, and the same command with --resume continues from there"
    )
    teacher = Fake()
    np.testing.assert_array_equal(make_vectors(tmp_path, texts, teacher, QUIET, "lines"), vectors_of(texts))
    assert sorted(teacher.asked) == sorted(texts[24:])


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before the vectors", "in the vectors", "before the progress", "in the progress"])
def test_a_kill_at_any_moment_resumes_at_the_last_finished_block(moment, tmp_path, monkeypatch):
    texts, blocks, write_text = texts_of(50), 0, files.write_text

    def write(path, text):
        nonlocal blocks
        blocks += 1
        if blocks < 4:
            return write_text(path, text)
        if moment == "in the progress":
            path.with_name(f".{path.name}.123.tmp").write_text(text[:10])
        elif moment != "before the progress":
            os.truncate(tmp_path / making.VECTORS, 24 * WIDTH * 2 + (5 if moment == "in the vectors" else 0))
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", write)
        with pytest.raises(Killed):
            make_vectors(tmp_path, texts, Fake(), QUIET, "lines")
    assert progress(tmp_path)["count"] == 24
    teacher = Fake()
    np.testing.assert_array_equal(make_vectors(tmp_path, texts, teacher, QUIET, "lines"), vectors_of(texts))
    assert sorted(teacher.asked) == sorted(texts[24:])
    assert {path.name for path in tmp_path.iterdir()} == {making.VECTORS, making.PROGRESS, files.LOCK, SUMS}
    assert list(damaged(tmp_path / SUMS)) == []


def test_vectors_of_other_texts_or_another_teacher_are_never_taken_for_these(tmp_path, monkeypatch):
    texts, others = texts_of(50), texts_of(50, seed=1)
    make_vectors(tmp_path, others, Fake(), QUIET, "lines")

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", kill)
        with pytest.raises(Killed):
            make_vectors(tmp_path, texts, Fake(), QUIET, "lines")
    np.testing.assert_array_equal(make_vectors(tmp_path, others, Fake(), QUIET, "lines"), vectors_of(others))
    teacher = Fake()
    teacher.name = "another"
    make_vectors(tmp_path, others, teacher, QUIET, "lines")
    assert len(teacher.asked) == 50


def test_a_truncated_file_of_vectors_is_completed(tmp_path):
    texts = texts_of(50)
    make_vectors(tmp_path, texts, Fake(), QUIET, "lines")
    os.truncate(tmp_path / making.VECTORS, 20 * WIDTH * 2 + 1)
    np.testing.assert_array_equal(make_vectors(tmp_path, texts, Fake(), QUIET, "lines"), vectors_of(texts))


def test_a_folder_is_written_by_one_process_at_a_time(tmp_path):
    with files.held(tmp_path, "busy"), pytest.raises(BanyanError, match="another process is making vectors in"):
        make_vectors(tmp_path, ["text"], Fake(), QUIET, "lines")


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / making.PROGRESS).write_text("{")
    with pytest.raises(BanyanError, match=r"cannot read .*progress.json: .*; delete it to encode again"):
        make_vectors(tmp_path, ["text"], Fake(), QUIET, "lines")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda found: found[:-1], r"an array of shape \(2, 3\) for 3 texts"),
        (lambda found: found[0], r"an array of shape \(3,\) for 3 texts"),
        (lambda found: found[:, :2], "had 3 dimensions and now have 2"),
        (lambda found: found * [[1], [np.inf], [1]], "NaN or infinity for the text '"),
        (lambda found: found * [[1], [1], [1e9]], "numbers too large for float16 for the text '"),
    ],
)
def test_vectors_that_cannot_be_right_are_refused(answer, told, tmp_path, monkeypatch):
    texts, teacher = texts_of(16), Fake()
    encode = teacher.encode
    bad = lambda texts: answer(encode(texts)) if len(teacher.asked) >= 8 else encode(texts)  # noqa: E731
    monkeypatch.setattr(teacher, "encode", bad)
    with pytest.raises(BanyanError, match=f"{told}.*; 8 of 16 vectors are kept"):
        make_vectors(tmp_path, texts, teacher, QUIET, "lines")


def test_an_estimate_is_given_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(making, "ESTIMATE_SECONDS", 0.0)
    texts = texts_of(50)
    with pytest.raises(BanyanError):
        make_vectors(tmp_path, texts, Fake(texts[30]), Display(), "lines")
    make_vectors(tmp_path, texts, Fake(), Display(), "lines")
    begun, one, resumed, two = capsys.readouterr().err.splitlines()
    assert begun == "fake encodes 50 lines"
    assert resumed == "fake encodes 50 lines, 24 of which are done already"
    assert one.startswith("this will take about ")
    assert two.startswith("this will take about ")


# --- Text files ------------------------------------------------------------------------------------------------------


def test_a_file_of_texts_has_one_text_per_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("first\r\n\nthird\x85part\u2028part\rpart\nlast".encode())
    texts = TextFile(path)
    assert list(texts) == ["first", "", "third\x85part\u2028part\rpart", "last"]
    assert len(texts) == 4
    found = make_vectors(tmp_path / "vectors", texts, Fake(), QUIET, "lines")
    teacher = Fake()
    np.testing.assert_array_equal(make_vectors(tmp_path / "vectors", list(texts), teacher, QUIET, "lines"), found)
    assert not teacher.asked  # a list of the same texts has the same vectors


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"one\ntw\xff\n")
    with pytest.raises(BanyanError, match=r"texts.txt:2: not UTF-8"):
        list(TextFile(path))
    with pytest.raises(BanyanError, match=r"cannot read .*none.txt: No such file"):
        len(TextFile(tmp_path / "none.txt"))


def test_memory_does_not_grow_with_the_number_of_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "FIRST_BLOCK", 256)
    monkeypatch.setattr(making, "LAST_BLOCK", 256)
    monkeypatch.setattr(making, "BATCH", 64)

    class Wide:
        name, licence = "wide", None

        def encode(self, texts: list[str]) -> np.ndarray:
            return np.ones((len(texts), 256), np.float32)

    peaks = []
    for n in (1000, 10_000):
        path = tmp_path / f"{n}.txt"
        path.write_text("".join(f"text number {number}\n" for number in range(n)))
        tracemalloc.start()
        found = make_vectors(tmp_path / str(n), TextFile(path), Wide(), QUIET, "lines")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.shape == (n, 256)
    assert peaks[1] < 1.2 * peaks[0]
