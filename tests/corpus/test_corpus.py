"""Reading: every kind of source, every kind of damage, and nothing lost without being counted."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
import sys
import threading
import tracemalloc
import types
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.corpus import Corpus, textfile
from banyan.corpus import reading as corpus_module
from banyan.corpus.report import BAD_BYTES, CUTS, EMPTY, ENDLESS, MARKS, NOT_TEXT, NULS, SURROGATES, UTF16, Report
from banyan.corpus.sentences import LONGEST, Running, assume_layout, split
from banyan.errors import BanyanError
from banyan.support.needs import pip_install

TEXT = "One fish.\nTwo fish.\nRed fish.\n"
FISH = ["One fish.", "Two fish.", "Red fish."]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(*sources: str | Path, **options) -> tuple[list[str], Report]:
    corpus = Corpus(sources, **{"layout": "lines", **options})
    return list(corpus), corpus.report


def refusal(*sources: str | Path, **options) -> str:
    """The message that reading ends with: one line, whether at once or on the way."""
    with pytest.raises(BanyanError) as caught:
        read(*sources, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def pack(kind: str, data: bytes) -> bytes:
    if kind == "zst":
        return pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    return {"gz": gzip.compress, "xz": lzma.compress}[kind](data)


def limit_lines(patch: pytest.MonkeyPatch, longest: int) -> None:
    """To both that read it: the one cuts endless lines into parts, the other makes sentences of them."""
    patch.setattr(textfile, "LONGEST_LINE", longest)
    patch.setattr(corpus_module, "LONGEST_LINE", longest)


# Sources


def test_text_is_read_line_by_line_and_again(tmp_path):
    corpus = Corpus(write(tmp_path / "a.txt", "  One fish. \n\n\t\nTwo fish."), layout="lines")
    assert list(corpus) == list(corpus) == FISH[:2]
    assert corpus.report == Report(files=1, lines=4, kept=2, dropped={EMPTY: 2})
    assert corpus.bytes_read == corpus.bytes_total == 25


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_compressed_text_is_read_whatever_its_name(tmp_path, kind):
    lines = [f"{i**9 % 99991}" for i in range(20_000)]
    packed = pack(kind, "\n".join(lines).encode())
    for name in (f"a.txt.{kind}", "a.txt"):
        assert read(write(tmp_path / name, packed))[0] == lines


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_joined_compressed_files_are_read_to_the_end(tmp_path, kind):
    path = write(tmp_path / f"a.txt.{kind}", pack(kind, b"One fish.\nTwo ") + pack(kind, b"fish.\nRed fish."))
    assert read(path)[0] == FISH


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_a_compressed_file_cut_short_is_an_error_that_names_it(tmp_path, kind):
    packed = pack(kind, "".join(f"{i**9 % 99991}\n" for i in range(20_000)).encode())
    path = write(tmp_path / f"a.txt.{kind}", packed[: len(packed) // 2])
    assert re.match(rf"{path} is damaged or truncated \(.+\)", refusal(path))


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_a_damaged_compressed_file_is_an_error_that_names_it(tmp_path, kind):
    packed = bytearray(pack(kind, "".join(f"{i * i}\n" for i in range(20_000)).encode()))
    packed[len(packed) // 2 :] = b"x" * (len(packed) - len(packed) // 2)
    path = write(tmp_path / f"a.txt.{kind}", bytes(packed))
    assert f"{path} is damaged" in refusal(path)


def test_a_file_that_is_not_compressed_as_its_name_says_is_refused(tmp_path):
    path = write(tmp_path / "a.txt.gz", TEXT)
    assert f"{path} is not a {path.suffix} file" in refusal(path)


def test_several_files_a_folder_and_a_glob_are_read_in_order(tmp_path):
    for name in ("b/2.txt", "b/1.md", "a.txt", ".hidden.txt", ".git/c.txt", "picture.png", "b/c.TXT.gz"):
        write(tmp_path / "all" / name, gzip.compress(name.encode()) if name.endswith("gz") else name)
    folder, other = tmp_path / "all", write(tmp_path / "other", "other")
    sentences, report = read(other, folder)
    assert sentences == ["other", "a.txt", "b/1.md", "b/2.txt", "b/c.TXT.gz"]
    assert (report.files, report.skipped_files) == (5, 1)
    assert "1 skipped because their suffix is unknown" in report.summary()
    assert read(f"{folder}/**/*.txt")[0] == ["a.txt", "b/2.txt"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    assert read(write(tmp_path / "a[1].txt", TEXT))[0] == FISH


def test_standard_input_is_copied_so_that_it_can_be_read_again(tmp_path, monkeypatch):
    def piped(text: str) -> Corpus:
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(text.encode())))
        return Corpus("-", layout="lines", spool=tmp_path / "spool")

    first = piped(TEXT)
    assert list(first) == list(first) == FISH
    known = first.fingerprint()
    assert piped(TEXT).fingerprint() == known  # so that a killed run resumes
    assert piped(TEXT + "Blue fish.").fingerprint() != known
    assert Corpus(first.paths, layout="lines").fingerprint() == known
    assert not list((tmp_path / "spool").glob(".*"))
    with pytest.raises(BanyanError, match="stdin is empty"):
        piped("")


def test_standard_input_is_json_when_a_column_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b'{"t": "One fish."}\n')))
    assert read("-", column="t", spool=tmp_path)[0] == FISH[:1]


def test_standard_input_needs_a_place_and_can_be_named_once(tmp_path):
    assert "stdin can be read only once: name a folder for a copy" in refusal("-")
    assert "can be read only once" in refusal("-", "-", spool=tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_copied_so_that_it_can_be_read_again(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(TEXT,))
    writer.start()
    corpus = Corpus(pipe, spool=tmp_path / "spool")
    writer.join()
    assert list(corpus) == list(corpus) == FISH


def test_missing_things_are_named(tmp_path):
    assert refusal(tmp_path / "no.txt") == f"there is no file or folder {tmp_path}/no.txt"
    assert refusal(f"{tmp_path}/*.txt") == f"no file matches {tmp_path}/*.txt"
    assert "no corpus given" in refusal()
    write(tmp_path / "pictures" / "a.png", "x")
    assert f"{tmp_path}/pictures has no text files: no file name in it ends in .txt" in refusal(tmp_path / "pictures")
    (tmp_path / "broken.txt").symlink_to("nowhere")
    assert "there is no file or folder" in refusal(tmp_path / "broken.txt")
    assert "layout must be one of auto, lines, blocks, tabs, running, not 'words'" in refusal(tmp_path, layout="words")


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.txt", TEXT)
    if os.geteuid():
        path.chmod(0)
        assert refusal(path) == f"cannot read {path}: Permission denied"
    if Path("/proc/self/mem").exists():  # as if the disk were failing
        corpus = Corpus(write(tmp_path / "b.txt", TEXT))
        corpus._sources[0].path = Path("/proc/self/mem")
        with pytest.raises(BanyanError, match="cannot read /proc/self/mem: Input/output error"):
            list(corpus)


def test_empty_files_are_counted_and_nothing_but_empty_files_is_an_error(tmp_path):
    empty, full = write(tmp_path / "e.txt", b""), write(tmp_path / "f.txt", TEXT)
    tables = [write(tmp_path / f"e.{kind}", b"") for kind in ("jsonl", "csv", "parquet")]
    packed = [write(tmp_path / f"p.{kind}.gz", gzip.compress(b"")) for kind in ("jsonl", "csv", "txt")]
    sentences, report = read(empty, full, *tables, *packed)
    assert sentences == FISH
    assert (report.files, report.empty_files) == (8, 7)
    assert refusal(empty) == f"there is no text to read: {empty} is empty"
    assert refusal(empty, empty) == "there is no text to read: all 2 files are empty"


# Text and its damage


def test_all_line_ends_and_only_those_end_a_line(tmp_path):
    path = write(tmp_path / "a.txt", "a\nb\r\nc\rd\u2028e\x0bf\x85g\x1ch\r\r\n\n\ri")
    sentences, report = read(path)
    assert sentences == ["a", "b", "c", "d\u2028e\x0bf\x85g\x1ch", "i"]
    assert (report.lines, report.dropped) == (8, {EMPTY: 3})


def test_bad_bytes_marks_and_nuls_are_repaired_and_counted(tmp_path):
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfcaf\xe9 au lait\na\0b \xff\xff \xef\xbf\xbd\n\xe2\x82")
    sentences, report = read(path)
    assert sentences == ["caf\ufffd au lait", "a b \ufffd\ufffd \ufffd", "\ufffd"]
    assert report.repaired == {BAD_BYTES: 4, NULS: 1, MARKS: 1}
    assert "Repaired: 4 invalid UTF-8 sequences replaced by U+FFFD, 1 NUL" in report.summary()


def test_bytes_that_only_begin_like_utf16_are_bad_bytes(tmp_path):
    sentences, report = read(write(tmp_path / "a.txt", b"\xff\xfehello\n"))
    assert (sentences, report.repaired) == (["\ufffd\ufffdhello"], {BAD_BYTES: 2})


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf16_with_a_mark_is_decoded(tmp_path, order):
    data = ("\ufeff" + "Fisch für ሁሉም 🐟\n" * 3).encode(f"utf-16-{order}")
    sentences, report = read(write(tmp_path / "a.txt", data))
    assert (sentences, report.repaired) == (["Fisch für ሁሉም 🐟"] * 3, {UTF16: 1})
    assert "begins like UTF-16 but is not" in refusal(write(tmp_path / "b.txt", data + b"x"))


@pytest.mark.parametrize(
    "data", [TEXT.encode("utf-16-le") * 20, "Рыба и рыбак. ".encode("cp1251") * 99, bytes(range(256)) * 20]
)
def test_what_is_not_utf8_at_all_is_refused(tmp_path, data):
    path = write(tmp_path / "a.txt", data)
    assert refusal(path) == f"{path} is not UTF-8 text: convert it first, for example with iconv"


PIECES = [b"a", b" ", b"\n", b"\r", "é".encode(), "ሀ".encode(), b"\xff", b"\0", "\ufeff".encode()]


@given(st.lists(st.sampled_from(PIECES)))
@settings(deadline=None, max_examples=300)
def test_lines_do_not_depend_on_how_the_file_was_cut_into_blocks(tmp_path_factory, pieces):
    data = b"x" + b"".join(pieces)
    path = write(tmp_path_factory.getbasetemp() / "fuzz.txt", data)
    lines = re.split("\r\n|\r|\n", data.decode(errors="replace"))
    lines = [line.replace("\0", " ").replace("\ufeff", "") for line in lines]
    if data.endswith((b"\r", b"\n")):
        lines.pop()
    for block in (1, 2, 3, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(textfile, "BLOCK", block)
            sentences, report = read(path)
        assert sentences == [line.strip() for line in lines if line.strip()]
        assert (report.lines, report.kept) == (len(lines), len(sentences))
        assert report.lines == report.kept + sum(report.dropped.values())
        assert report.repaired.get(BAD_BYTES, 0) == data.count(b"\xff")


@given(st.lists(st.sampled_from(PIECES[:-1]), max_size=60), st.sampled_from(["lines", "running"]))
@settings(deadline=None, max_examples=200)
def test_endless_lines_do_not_depend_on_how_the_file_was_cut_into_blocks(tmp_path_factory, pieces, layout):
    path = write(tmp_path_factory.getbasetemp() / "endless.txt", b"x" + b"".join(pieces))
    with pytest.MonkeyPatch.context() as patch:
        limit_lines(patch, 5)
        whole = read(path, layout=layout)
        for block in (1, 2, 7):
            patch.setattr(textfile, "BLOCK", block)
            assert read(path, layout=layout) == whole


def test_a_carriage_return_at_the_end_of_a_block_ends_an_endless_line(tmp_path, monkeypatch):
    limit_lines(monkeypatch, 5)
    monkeypatch.setattr(textfile, "BLOCK", 25)
    for end in ("\r", "\r\n"):
        sentences, report = read(write(tmp_path / "a.txt", "x" * 24 + end + "One fish"))
        assert (sentences, report.lines) == (["x" * 24, "One fish"], 2)


@pytest.mark.parametrize(
    ("tail", "lines"), [("", 2), ("\n", 2), ("\r", 2), ("\r\nOne fish.\n\nTwo fish.", 5), ("\rOne fish.", 3)]
)
@pytest.mark.parametrize("layout", ["lines", "running"])
def test_an_endless_line_is_split_into_sentences_however_it_arrives(tmp_path, monkeypatch, tail, lines, layout):
    limit_lines(monkeypatch, 2000)
    line = "".join(f"The é number {i} is odd. " for i in range(1, 2000, 2)).strip()
    path = write(tmp_path / "a.txt", "Red fish.\n" + line + tail)
    fish = re.findall(r"\w+ fish\.", tail)
    for block in (101, 1 << 18):
        monkeypatch.setattr(textfile, "BLOCK", block)
        sentences, report = read(path, layout=layout)
        assert sentences == ["Red fish.", *(f"The é number {i} is odd." for i in range(1, 2000, 2)), *fish]
        assert report.repaired == ({ENDLESS: 1} if layout == "lines" else {})
        assert report.lines == lines


def test_an_endless_line_without_full_stops_is_cut_at_white_space(tmp_path):
    words = " ".join(f"word{i}" for i in range(200_000))
    sentences, report = read(write(tmp_path / "a.txt", words))
    assert " ".join(sentences) == words
    assert all(len(sentence) <= LONGEST for sentence in sentences)
    assert report.repaired == {ENDLESS: 1, CUTS: len(sentences) - 1}


def test_memory_does_not_grow_with_an_endless_line(tmp_path, monkeypatch):
    limit_lines(monkeypatch, 1 << 12)
    monkeypatch.setattr(textfile, "BLOCK", 1 << 12)
    path = write(tmp_path / "a.txt", "An endless story. " * 120_000)
    corpus = Corpus(path, layout="lines")
    tracemalloc.start()
    count = sum(1 for _ in corpus)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 120_000
    assert peak < 1_000_000 < path.stat().st_size / 2


# Tables


def test_json_lines_are_read_by_column(tmp_path):
    rows = [{"id": 1, "text": "One fish.\nTwo fish."}, {"text": None}, {"id": 2}, {"text": ["x"]}]
    rows.append({"text": "\u0000\ud800Red"})
    content = "\r\n".join(json.dumps(row) for row in rows) + "\n\n"
    for name, data in {"a.jsonl": content.encode(), "b.ndjson.gz": gzip.compress(content.encode())}.items():
        sentences, report = read(write(tmp_path / name, data))
        assert sentences == ["One fish.", "Two fish.", "\ufffdRed"]
        assert report.dropped == {NOT_TEXT: 3, EMPTY: 1}
        assert report.repaired == {NULS: 1, SURROGATES: 1}
        assert report.lines == report.kept + 4


@pytest.mark.parametrize("bad", ['{"text": "no end', "[" * 100_000, '"a string"', "[1]", "12", "nonsense"])
def test_a_malformed_json_line_is_an_error_that_names_file_and_line(tmp_path, bad):
    path = write(tmp_path / "a.jsonl", '{"text": "fine"}\n\n' + bad + "\n")
    assert refusal(path).startswith(f"{path}:3: ")


def test_a_json_row_longer_than_any_line_is_read_whole(tmp_path, monkeypatch):
    limit_lines(monkeypatch, 10)
    monkeypatch.setattr(textfile, "BLOCK", 7)
    path = write(tmp_path / "a.jsonl", '{"text": "%s"}\n{"text": "b"}' % ("One fish. " * 20))
    assert read(path)[0] == ["One fish."] * 20 + ["b"]
    monkeypatch.setattr(textfile, "LONGEST_RECORD", 100)
    assert "has a line of more than 100 characters" in refusal(path)


def test_a_missing_column_is_an_error_that_names_those_there_are(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"title": "t", "body": "b"}\n')
    assert refusal(path, column="text") == f"{path} has no column 'text'; its columns are title, body"
    assert refusal(path) == (
        f"{path} has several columns of text: choose one with --column (in Python, column=); "
        "its columns are title, body"
    )
    assert "no column of text" in refusal(write(tmp_path / "b.jsonl", '{"a": 1}'))
    assert read(write(tmp_path / "c.csv", "id,text,year\n1,One fish.,1900\n"))[0] == ["One fish."]
    text = write(tmp_path / "a.txt", TEXT)
    assert f"{text} is a text file and has no column 'text'" in refusal(text, column="text")


def test_csv_and_tsv_are_read_by_column(tmp_path):
    csv = write(tmp_path / "a.csv", '\ufeffid,text\r\n1,"One fish.\nTwo ""fish""."\r\n\r\n2\r\n3,Red fish.,,\r\n')
    sentences, report = read(csv, column="text")
    assert sentences == ["One fish.", 'Two "fish".', "Red fish."]
    assert report.dropped == {EMPTY: 1, NOT_TEXT: 1}
    tsv = write(tmp_path / "a.tsv", 'text\tid\n"One, he said.\t1\n')
    assert read(tsv, column="text")[0] == ['"One, he said.']
    assert "has no column 'body'; its columns are text, id" in refusal(tsv, column="body")
    assert read(write(tmp_path / "b.csv", "only\nOne fish."))[0] == FISH[:1]


def test_a_malformed_csv_line_is_an_error_that_names_file_and_line(tmp_path):
    wide = write(tmp_path / "a.csv", "id,text\n1,One fish, two fish.\n")
    assert refusal(wide, column="text") == f"{wide}:2: 3 fields, but the first line has 2"
    assert f"{tmp_path}/b.csv:3: " in refusal(write(tmp_path / "b.csv", 'text\nfine\n"no end'))


def test_parquet_is_read_by_column(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = pa.array([*FISH, None, "", "One fish."])
    bad = pa.Array.from_buffers(pa.string(), 6, pa.array([b"caf\xe9"] * 5 + [b"x"], pa.binary()).buffers())
    columns = {"id": pa.array(range(6)), "text": texts, "kind": texts.dictionary_encode(), "bad": bad}
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table(columns), path)
    for column in ("text", "kind"):
        sentences, report = read(path, column=column)
        assert sentences == [*FISH, "One fish."]
        assert report.dropped == {NOT_TEXT: 1, EMPTY: 1}
    sentences, report = read(path, column="bad")
    assert sentences == ["caf\ufffd"] * 5 + ["x"]
    assert report.repaired == {BAD_BYTES: 5}
    assert "column 'id' of" in refusal(path, column="id")
    assert "holds int64, not text; its columns are id, text, kind, bad" in refusal(path, column="id")
    assert "has no column 'body'; its columns are id, text, kind, bad" in refusal(path, column="body")
    assert f"cannot read {tmp_path}/b.parquet as Parquet" in refusal(write(tmp_path / "b.parquet", TEXT * 9))


def test_a_hugging_face_data_set_is_read_by_column(monkeypatch):
    asked = []
    kinds = {"id": "int64", "text": "string"}

    class Rows:
        info, _fingerprint = types.SimpleNamespace(version="1.0.0"), "f00"

        def __init__(self):
            self.features = {name: types.SimpleNamespace(dtype=kind) for name, kind in kinds.items()}

        def __len__(self):
            return 0 if asked[-1][0] == "empty" else 4

        def select_columns(self, names):
            assert names == ["text"]
            return self

        def iter(self, batch_size):
            yield {"text": FISH[:2]}
            yield {"text": [None, FISH[2]]}

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        if name == "missing":
            raise RuntimeError("no such data set\non the hub")
        return Rows()

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    sentences, report = read("hf:org/fish:small")
    assert (sentences, report.dropped, asked) == (FISH, {NOT_TEXT: 1}, [("org/fish", "small", "train")])
    assert len({Corpus(name).fingerprint() for name in ("hf:org/fish", "hf:org/fish:small")}) == 2
    assert refusal("hf:empty") == "there is no text to read: hf:empty is empty"
    assert refusal("hf:missing") == "cannot load hf:missing: no such data set"
    assert "hf: does not name a data set" in refusal("hf:")
    assert "hf:x has no column 'body'; its columns are id, text" in refusal("hf:x", column="body")
    assert "column 'id' of hf:x holds int64, not text" in refusal("hf:x", column="id")


@pytest.mark.parametrize(
    ("package", "source", "extra"),
    [("datasets", "hf:fish", "hub"), ("zstandard", "a.txt.zst", "data"), ("pyarrow", "a.parquet", "data")],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, package, source, extra):
    monkeypatch.setitem(sys.modules, package, None)
    if not source.startswith("hf:"):
        source = write(tmp_path / source, b"\x28\xb5\x2f\xfd....")
    doing = "Loading" if package == "datasets" else "Reading"
    assert refusal(source) == f"{doing} {source} needs {package}: {pip_install(extra)}"


# The corpus as a whole


def test_the_fingerprint_is_of_the_content_and_the_options(tmp_path):
    path, other = write(tmp_path / "a.txt", TEXT), write(tmp_path / "b.txt", TEXT + "!")
    prints = [Corpus(path).fingerprint(), Corpus([path, other]).fingerprint(), Corpus([other, path]).fingerprint()]
    prints += [Corpus(other).fingerprint(), Corpus(path, layout="running").fingerprint()]
    assert len(set(prints)) == 5
    assert Corpus(path, layout="lines").fingerprint() == prints[0]  # what "auto" found
    os.utime(path, ns=(1, 1))
    assert Corpus(path).fingerprint() == prints[0]
    assert Corpus(write(tmp_path / "copy.txt", TEXT)).fingerprint() == prints[0]


def test_a_change_that_keeps_size_and_modification_time_is_noticed(tmp_path):
    path = write(tmp_path / "a.txt", TEXT)
    os.utime(path, ns=(1, 1))
    known = Corpus(path).fingerprints()
    write(path, TEXT[::-1])
    os.utime(path, ns=(1, 1))
    changed = Corpus(path).fingerprints()
    assert changed[0] != known[0]
    assert changed[1] == known[1]  # what earlier versions saw


def test_the_position_grows_to_the_total(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK", 10)
    corpus = Corpus([write(tmp_path / "a.txt", TEXT), write(tmp_path / "b.txt.gz", gzip.compress(TEXT.encode()))])
    assert corpus.bytes_read == 0
    positions = [corpus.bytes_read for _ in corpus]
    assert positions == sorted(positions)
    assert 0 < positions[0] < positions[-1] <= corpus.bytes_total


def test_the_report_is_of_the_latest_complete_iteration(tmp_path):
    corpus = Corpus(write(tmp_path / "a.txt", TEXT))
    next(iter(corpus))
    assert corpus.report == Report()
    list(corpus)
    assert corpus.report.kept == 3


def test_a_report_survives_json_and_reads_well():
    report = Report(files=2, empty_files=1, lines=1234, kept=1200, dropped={EMPTY: 34}, repaired={NULS: 3})
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert report.summary() == (
        "1,234 lines read from 2 files, 1,200 sentences kept, 34 dropped (34 empty). "
        "Repaired: 3 NUL characters replaced by spaces. Files: 1 empty."
    )


# Layout and sentences

STORY = (
    "It was a dark night in the old town by the sea. Nobody walked the streets, and no light burned. "
    "Then Mr. Holmes knocked at the door of No. 7! Who would open it? An old woman did, and she smiled at him. "
)


def test_the_layout_is_recognised(tmp_path):
    sentences = split(STORY)
    poem = ["Two roads diverged in a yellow wood", "And sorry I could not travel both", "And be one traveler"] * 9
    same = [f"the number of the sentence without a stop is {i:04}" for i in range(99)]
    for lines in (sentences * 20, poem, same, ["a"], []):
        assert assume_layout(lines)[0] == "lines", lines[:1]
    wrapped = re.findall(r"(.{1,60})(?:\s+|$)", STORY * 20)
    for lines in ([STORY] * 9, wrapped, ["", *wrapped[:9], ""] * 9, ["word " * 9000]):
        assert assume_layout(lines)[0] == "running", lines[:1]
    corpus = Corpus(write(tmp_path / "a.txt", "\n".join(sentences)))
    assert corpus.layout == "lines"
    assert corpus.layout_reason == (
        "Assuming one sentence per line, because a line holds 1.0 sentence on average; "
        'if that is wrong, use --running (in Python, layout="running").'
    )
    corpus = Corpus(write(tmp_path / "b.txt", "\n".join(wrapped)))
    assert list(corpus) == sentences * 20
    assert corpus.layout_reason.startswith("Assuming running text, to be split into sentences, because")
    assert Corpus(corpus.paths, layout="lines").layout_reason == "Reading one sentence per line, as requested."


def test_paragraphs_are_recognised_by_tabs_or_blank_lines_and_tables_are_not(tmp_path):
    sentences = split(STORY)
    tabbed = ["\t".join(sentences[: 2 + i % 3]) for i in range(30)]
    assert assume_layout(tabbed) == ("tabs", "tabs separate 3.0 sentences per line on average")
    assert assume_layout(["\t".join(sentences[:2])] * 30)[0] == "running"  # a table of two columns, it seems
    assert assume_layout([f"{i}\t{line}" for i, line in enumerate(tabbed)])[0] == "running"  # numbers are no sentences
    blocks = [*sentences[:3], "", *sentences[3:], "", ""] * 9
    assert assume_layout(blocks) == ("blocks", "blank lines separate blocks of 2.5 lines on average")
    for lines in ([*sentences, ""] * 4, [*sentences * 12, ""] * 20, [line for one in sentences for line in (one, "")]):
        assert assume_layout(lines)[0] == "lines"
    corpus = Corpus(write(tmp_path / "a.txt", "\n".join(tabbed)))
    assert corpus.layout_reason == (
        "Assuming one paragraph per line, its sentences separated by tabs, because tabs separate 3.0 sentences per "
        'line on average; if that is wrong, use --running (in Python, layout="running").'
    )


def test_a_file_with_another_layout_than_the_corpus_is_named(tmp_path):
    sentences = split(STORY)
    blocks = write(tmp_path / "blocks.txt", "\n".join([*sentences[:3], "", *sentences[3:], ""] * 90))
    listed = write(tmp_path / "list.txt", "\n".join(sentences * 9))
    corpus = Corpus([blocks, listed])
    assert corpus.layout == "blocks"
    told = f" But {listed} looks like one sentence per line, and all files are read alike."
    assert corpus.layout_reason.endswith(told)
    short = write(tmp_path / "short.txt", STORY)
    for alike in ([blocks], [blocks, blocks], [blocks, short]):  # what a few lines look like says nothing
        assert "But" not in Corpus(alike).layout_reason


PARAGRAPHS = [["One fish.", "Two fish."], ["Red fish.", "Blue fish.", "Old fish."], ["New fish."]]


@pytest.mark.parametrize(
    ("layout", "name", "text"),
    [
        ("tabs", "a.txt", "One fish.\tTwo fish.\n\nRed fish.\t\tBlue fish.\t Old fish.\t\nNew fish."),
        ("blocks", "a.txt", "One fish.\nTwo fish.\n \n\nRed fish.\nBlue fish.\nOld fish.\n\nNew fish.\n\n"),
        ("running", "a.txt", "\nOne fish. Two\nfish.\n\n\nRed fish. Blue fish. Old\nfish.\n\nNew fish.\n"),
        ("running", "a.jsonl", "".join(json.dumps({"text": " ".join(one)}) + "\n" for one in PARAGRAPHS)),
        ("running", "a.csv", "text\n" + "".join(" ".join(one) + "\n" for one in PARAGRAPHS)),
        ("blocks", "a.jsonl", "".join(json.dumps({"text": "\n".join(one)}) + "\n" for one in PARAGRAPHS)),
    ],
)
def test_paragraphs_are_read(tmp_path, layout, name, text):
    path = write(tmp_path / name, text)
    corpus = Corpus(path, layout=layout, paragraphs=True)
    expected = [(sentence, i == 0) for one in PARAGRAPHS for i, sentence in enumerate(one)]
    assert list(corpus.in_paragraphs()) == expected
    assert (corpus.paragraphs, corpus.report.kept, list(corpus)) == (True, 6, [sentence for sentence, _ in expected])
    two_files = Corpus([path, path], layout=layout, paragraphs=True)
    assert list(two_files.in_paragraphs()) == expected * 2
    unrelated = Corpus(path, layout=layout)
    assert not unrelated.paragraphs
    assert list(unrelated.in_paragraphs()) == [(sentence, True) for sentence, _ in expected]
    assert unrelated.fingerprint() == corpus.fingerprint()


def test_a_list_of_sentences_has_no_paragraphs(tmp_path):
    path = write(tmp_path / "a.txt", TEXT)
    corpus = Corpus(path, layout="lines", paragraphs=True)
    assert not corpus.paragraphs
    assert all(sentence.begins for sentence in corpus.in_paragraphs())
    assert Corpus(path, layout="blocks").fingerprint() == corpus.fingerprint()  # the same sentences


def test_a_long_line_begins_a_paragraph_and_one_paragraph_may_arrive_in_parts(monkeypatch):
    monkeypatch.setattr("banyan.corpus.sentences._HELD", 50)
    running = Running()
    long = "This sentence has exactly fifty-one characters. Yes. " * 30
    sentences = [sentence for line in ("A title", long, "The end. Of it") for sentence in running.line(line)]
    sentences += running.end()
    assert [sentence.text for sentence in sentences if sentence.begins] == ["A title", split(long)[0], "The end."]
    assert len(sentences) == 1 + 60 + 2


@pytest.mark.data
def test_real_paragraphs_are_recognised(data_folder):
    corpus = Corpus(data_folder / "corpora/en_paragraphs/train.txt.xz", paragraphs=True)
    assert corpus.layout == "tabs", corpus.layout_reason
    some = list(islice(corpus.in_paragraphs(), 2000))
    assert 300 < sum(sentence.begins for sentence in some) < 500


@pytest.mark.data
@pytest.mark.parametrize("language", ["af", "am", "ar", "en", "es", "ha", "hi", "id", "la", "mr", "te"])
def test_real_corpora_are_recognised_as_one_sentence_per_line(data_folder, language):
    corpus = Corpus(data_folder / "corpora" / language / "dev.txt.xz")
    assert corpus.layout == "lines", corpus.layout_reason
    assert sum(1 for _ in corpus) == corpus.report.lines


@pytest.mark.parametrize(
    "sentences",
    [
        ["It rained.", "Then it stopped!", "Why?", "Nobody knows…", "The end."],
        ["Dr. J. R. Smith of the U.S. Navy paid 3.50 for No. 5, e.g. on p. 7.", "He left."],
        ['"Stop!" he cried.', "(She did not.)", "“Really?”", "He asked again.[12]", "‘Yes.’"],
        ['"Why?" he asked.', "Yahoo! is a firm... or was."],
        ["1. First come the rules.", "2. Then the game."],
        ["no capitals here.", "none there either.", "fine."],
        ["今天下雨。", "你好！", "他问：“为什么？”", "我不知道。"],
        ["यह एक वाक्य है।", "यह दूसरा है॥", "क्या?"],
        ["ሰላም ነው።", "እንዴት ነህ፧", "ደህና።"],
        ["كيف حالك؟", "بخير.", "یہ ایک جملہ ہے۔", "ٹھیک ہے۔"],
        ["¿Qué pasa?", "¡Nada!", "«Bien», dijo.", "Adiós."],
        ["Это г. Москва, ул. Ленина.", "Да."],
    ],
)
def test_sentences_of_many_scripts_are_found(sentences):
    assert split(" ".join(sentences)) == sentences


def test_scripts_without_spaces_need_none():
    assert split("今天下雨。你好！「走吧。」他说。") == ["今天下雨。", "你好！", "「走吧。」", "他说。"]
    assert split("यह एक है।यह दो है।") == ["यह एक है।", "यह दो है।"]


def test_paragraphs_end_sentences_and_line_breaks_do_not():
    assert split("A title\n\nOne fish\nand two\r\nfish. Red\rfish") == ["A title", "One fish and two fish.", "Red fish"]
    assert split("今天\n下雨。") == ["今天下雨。"]
    long = "word " * 60 + "end"
    assert split(f"A title\n{long}\nAnother title") == ["A title", long, "Another title"]


TEXTS = st.text(st.sampled_from("aaB .!?。।\"'()1 \u3000"), max_size=400).map(lambda text: text * 8)


@given(TEXTS, st.lists(st.integers(0, 3200)))
@settings(deadline=None, max_examples=200)
def test_sentences_do_not_depend_on_the_parts_text_arrives_in(text, cuts):
    places = [0, *sorted(cuts), len(text)]
    running, sentences = Running(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("banyan.corpus.sentences._HELD", 0)
        for start, end in pairwise(places):
            sentences += running.part(text[start:end])
    whole = Running()
    assert sentences + running.end() == whole.part(text) + whole.end()
    assert running.cuts == whole.cuts


@given(st.one_of(TEXTS, st.text(max_size=300)))
@settings(deadline=None, max_examples=200)
def test_splitting_loses_no_character(text):
    sentences = split(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() and 0 < len(sentence) <= LONGEST for sentence in sentences)
