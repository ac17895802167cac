"""Pairs of translations: every format gives the same pairs, and what is dropped is counted."""

from __future__ import annotations

import json
import lzma
import tracemalloc
from pathlib import Path

import pytest

from banyan.corpus.parallel import EMPTY_SIDE, IDENTICAL, LONGEST_SIDE, TOO_LONG, ParallelText
from banyan.corpus.report import NOT_TEXT
from banyan.errors import BanyanError

PAIRS = [("One fish.", "Kifi daya."), ("Two fish.", "Kifi biyu.")]
LINES = "One fish.\tKifi daya.\ttico19\nTwo fish.\tKifi biyu.\tbible\n"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: Path, columns=None) -> str:
    """The message that reading ends with: one line, whether at once or on the way."""
    with pytest.raises(BanyanError) as caught:
        list(ParallelText(path, columns))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_two_columns_are_read_by_position_and_the_rest_is_said_to_be_ignored(tmp_path):
    text = ParallelText(write(tmp_path / "a.tsv", LINES))
    assert list(text) == list(text) == PAIRS
    assert text.note == f"Reading the first two columns of {text.path}; column 3 is ignored."
    assert (text.report.lines, text.report.kept, text.report.dropped) == (2, 2, {})
    assert text.report.summary("pair") == "2 lines read from 1 file, 2 pairs kept."
    assert text.bytes_read == text.bytes_total


def test_compressed_files_are_recognised_by_their_content(tmp_path):
    packed = lzma.compress(LINES.encode())
    assert list(ParallelText(write(tmp_path / "a.tsv.xz", packed))) == PAIRS
    assert list(ParallelText(write(tmp_path / "b.tsv", packed))) == PAIRS


def test_every_format_gives_the_same_pairs_by_name(tmp_path):
    rows = [{"id": i, "ha": target, "en": source} for i, (source, target) in enumerate(PAIRS)]
    paths = [
        write(tmp_path / "a.csv", 'id,ha,en\n1,"Kifi daya.","One\nfish."\n2,Kifi biyu.,Two fish.\n'),
        write(tmp_path / "a.tsv", "ha\tid\ten\nKifi daya.\t1\tOne fish.\nKifi biyu.\t2\tTwo fish.\n"),
        write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
    ]
    for path in paths:
        assert list(ParallelText(path, ("en", "ha"))) == PAIRS
        assert list(ParallelText(path, ["ha", "en"])) == [(target, source) for source, target in PAIRS]
    assert list(ParallelText(paths[2])) == [(target, source) for source, target in PAIRS]  # only two hold text


def test_parquet_is_read_by_name(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    english, hausa = zip(*PAIRS, strict=True)
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"id": [1, 2, 3], "ha": [*hausa, "x"], "en": [*english, None]}), path)
    text = ParallelText(path, ("en", "ha"))
    assert list(text) == PAIRS
    assert text.report.dropped == {NOT_TEXT: 1}
    assert "holds int64, not text" in refusal(path, ("en", "id"))


def test_a_first_line_that_names_columns_is_skipped(tmp_path):
    for names in ("en\tha\tsource", "source\ttarget\tfrom", "eng_Latn\thau_Latn\t"):
        text = ParallelText(write(tmp_path / "a.tsv", f"{names}\n{LINES}"))
        assert list(text) == PAIRS
        assert "; column 3 is ignored" in text.note
    assert list(ParallelText(write(tmp_path / "b.tsv", "Go!\tTafi!\n"))) == [("Go!", "Tafi!")]


def test_what_is_dropped_is_counted_by_reason(tmp_path):
    long = "a" * (LONGEST_SIDE + 1)
    text = ParallelText(write(tmp_path / "a.tsv", f"a b\t \n\nc d\tc d\ne f\t{long}\none\tdaya\n"))
    assert list(text) == [("one", "daya")]
    assert text.report.dropped == {EMPTY_SIDE: 2, IDENTICAL: 1, TOO_LONG: 1}
    assert text.report.lines == 5


def test_errors_name_the_file_and_the_line(tmp_path):
    short = write(tmp_path / "a.csv", '"one\nfish",kifi\ntwo fish\n')
    assert refusal(short) == f"{short}:3: expected at least 2 columns separated by a comma, found 1: 'two fish'"
    wide = write(tmp_path / "b.tsv", "one\tdaya\ntwo\tbiyu\tuku\n")
    assert refusal(wide) == f"{wide}:2: 3 fields, but the first line has 2"
    bad = write(tmp_path / "c.jsonl", '{"en": "a", "ha": "b"}\n{"en"\n')
    assert f"{bad}:2: not valid JSON" in refusal(bad)


@pytest.mark.parametrize(
    ("name", "content", "columns", "sentence"),
    [
        ("a.tsv", LINES, ("en", "ha"), ":1: there is no column 'en'; the first line reads One fish., Kifi daya."),
        ("a.tsv", LINES, ("en",), "need the names of two columns, not en"),
        ("a.jsonl", '{"en": "a", "ha": "b", "fr": "c"}', None, "has 3 columns of text: name the two"),
        ("a.jsonl", '{"en": "a", "ha": "b"}', ("en", "fr"), "has no column 'fr'; its columns are en, ha"),
        ("a.txt", LINES, None, "its name must end in .tsv, .csv, .jsonl or .parquet"),
        ("a.tsv", "", None, "a.tsv is empty"),
        ("a.tsv", "a\ta\n", None, "has no pair of translations to keep: 1 line read from 1 file, 0 pairs kept"),
        ("a.tsv.gz", LINES, None, "is not a .gz file"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(tmp_path, name, content, columns, sentence):
    assert sentence in refusal(write(tmp_path / name, content), columns)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert refusal(tmp_path / "none.tsv") == f"there is no file or folder {tmp_path}/none.tsv"
    (tmp_path / "folder.tsv").mkdir()
    assert "is not a file" in refusal(tmp_path / "folder.tsv")


def test_the_fingerprint_changes_with_the_file_and_the_columns(tmp_path):
    path = write(tmp_path / "a.tsv", "en\tha\n" + "One fish.\tKifi daya.\n")
    first = ParallelText(path).fingerprint()
    assert first == ParallelText(path).fingerprint() != ParallelText(path, ("ha", "en")).fingerprint()
    assert ParallelText(write(path, path.read_bytes() * 2)).fingerprint() != first


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = write(tmp_path / "a.tsv", "".join(f"{i} fish swim in the sea.\tkifi {i}\n" for i in range(100_000)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in ParallelText(path)) == 100_000
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size
    finally:
        tracemalloc.stop()
