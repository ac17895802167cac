"""Examples from files, frames and lists: what each column is taken for is right, and is said."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from types import SimpleNamespace

import pytest

from banyan.corpus.parallel import EMPTY_SIDE, IDENTICAL
from banyan.corpus.report import NOT_TEXT
from banyan.errors import BanyanError
from banyan.tuning.reading import ALONE, NO_LABEL, NO_SCORE, read_examples

FIRST, SECOND = ["How do I pay?", "Where is my order?"], ["By card.", "On its way."]
OTHER, SCORE = ["In the shop.", ""], [0.25, 4]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def tsv(path: Path, *columns: list, header: str = "") -> Path:
    rows = ["\t".join(map(str, row)) for row in zip(*columns, strict=True)]
    return write(path, "".join(f"{row}\n" for row in ([header] if header else []) + rows))


def refusal(source, columns=None, labels=False) -> str:
    with pytest.raises(BanyanError) as caught:
        read_examples(source, columns, labels)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_first_two_columns_belong_together_if_nothing_names_them(tmp_path):
    path = tsv(tmp_path / "a.tsv", FIRST, SECOND, ["shop", "post"])
    read = read_examples(path)
    assert (read.examples.first, read.examples.second) == (FIRST, SECOND)
    assert read.examples.negative is read.examples.score is None
    assert read.note == (
        f"Reading from {path}, whose first line is read as an example: column 1 and column 2 as texts that belong "
        "together; ignored: column 3."
    )
    assert read.report.summary("example") == "2 lines read from 1 file, 2 examples kept."


@pytest.mark.parametrize(
    ("header", "columns", "third", "kept"),
    [
        ("query\tdocument\tpackage", None, OTHER, None),
        ("Anchor\tPositive\tNegative", None, OTHER, "negative"),
        ("Sentence 1\tsentence_2\tscore", None, SCORE, "score"),
        ("a\tb\trating", None, SCORE, "score"),  # numbers under a word
        ("", None, SCORE, "score"),
        ("x y\ty z\tz", ["x y", "y z"], OTHER, None),
        ("x y\ty z\tz", ["x y", "y z", "z"], OTHER, "negative"),
        ("x y\ty z\tz", ["x y", "y z", "z"], SCORE, "score"),
    ],
)
def test_columns_are_known_by_name_or_by_what_they_hold(tmp_path, header, columns, third, kept):
    read = read_examples(tsv(tmp_path / "a.tsv", FIRST, SECOND, third, header=header), columns)
    examples = read.examples
    assert (examples.first, examples.second) == (FIRST, SECOND)
    assert examples.negative == (OTHER if kept == "negative" else None)
    assert (None if examples.score is None else examples.score.tolist()) == (SCORE if kept == "score" else None)
    assert ("ignored" in read.note) == (kept is None)


def test_every_source_gives_the_same_examples(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    datasets, pyarrow = pytest.importorskip("datasets"), pytest.importorskip("pyarrow")
    columns = {"id": [1, 2], "answer": SECOND, "question": FIRST, "score": SCORE, "topic": ["x", "y"]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    frame = pandas.DataFrame(columns)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    sources = [
        tmp_path / "a.parquet",
        str(tmp_path / "a.csv"),
        write(tmp_path / "a.jsonl", lines),
        write(tmp_path / "b.jsonl", lzma.compress(lines.encode())),
        frame,
        polars.DataFrame(columns | {"score": [0.25, 4.0]}),
        polars.LazyFrame(columns | {"score": [0.25, 4.0]}),
        datasets.Dataset.from_list([row | {"score": float(row["score"])} for row in rows]),
        columns,
        pyarrow.table(columns),
        (FIRST, SECOND, SCORE),
    ]
    for source in sources:
        read = read_examples(source)
        assert (read.examples.first, read.examples.second) == (FIRST, SECOND)
        assert read.examples.score.tolist() == SCORE
        if source is not sources[-1]:
            assert read.note.endswith("ignored: id, topic.")


ROWS = [("a b", "b c", 1), ("c d", "d e", 2), ("e f", "f g", 3)]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("width", [2, 3])
def test_a_list_holds_rows_and_a_tuple_holds_columns(count, width):
    rows = [row[:width] for row in ROWS[:count]]
    columns = tuple(map(list, zip(*rows, strict=True)))
    for source in rows, columns:
        found = read_examples(source).examples
        assert list(zip(found.first, found.second, strict=True)) == [row[:2] for row in rows]


def test_negatives_may_be_in_rows_or_in_a_column():
    for source in (FIRST, SECOND, OTHER), list(zip(FIRST, SECOND, OTHER, strict=True)):
        assert read_examples(source).examples.negative == OTHER


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ([["a b", "b c"], ["c d", "d e"]], "2 lists of 2 may be rows or columns: write rows as a list of tuples"),
        ((("a b", "b c"), ("c d", "d e")), "2 tuples of 2 may be rows or columns: write rows as a list of tuples"),
        (zip("ab", "cd", strict=True), "expected a file, a data frame"),
        ([["a b"] * 9, ["b c"] * 9], "row 1 of the list has 9 values, and expected are 2 or 3: put columns into"),
        ([("a b", "b c"), ("c d", "d e", 1)], "row 2 of the list has 3 values, and expected are 2, as in row 1"),
        (tuple(zip("abcd", "efgh", strict=True)), "a tuple holds columns, 2 or 3 here, not 4: put rows into a list"),
        (["a b", "b c"], "expected a file, a data frame"),
        ([{"query": "a b"}, {"query": "b c"}], "expected a file, a data frame"),
        ([], "expected a file, a data frame"),
    ],
)
def test_lists_that_may_be_read_in_two_ways_or_in_none_are_refused(source, sentence):
    assert refusal(source).startswith(sentence)


def test_scores_keep_their_order_however_close_or_large_they_are():
    for score in ([16_777_217, 16_777_216], [1e300, 2e300]):  # equal, or infinite, in single precision
        assert read_examples((FIRST, SECOND, score)).examples.score.tolist() == score


def test_a_negative_may_be_missing_in_the_first_rows(tmp_path):
    rows = [{"anchor": "a b", "positive": "b c"}, {"anchor": "c d", "positive": "d e", "negative": "e f"}]
    read = read_examples(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert read.examples.negative == ["", "e f"]


@pytest.mark.parametrize("labels", [["x", "y", "x", "y", "x", "z"], [0, 1, 0, 1, 0, 2]])
def test_texts_of_one_label_belong_together(tmp_path, labels):
    texts = ["a b", "b c", "c d", "d e", "e f", "f g"]
    for header, columns in ("text\tlabel", None), ("label me\tkind", ["label me", "kind"]):
        if isinstance(labels[0], str) and columns:
            continue  # nothing shows that these are labels
        read = read_examples(tsv(tmp_path / "a.tsv", texts, labels, header=header), columns)
        label_of = dict(zip(texts, labels, strict=True))
        assert sorted(read.examples.first) == texts[:5]
        assert [label_of[text] for text in read.examples.first] == [label_of[text] for text in read.examples.second]
        assert read.report.dropped == {ALONE: 1}
        assert "texts with the same label belong together" in read.note
    assert read_examples((texts, [0, 1] * 3)).examples.label is not None


def test_class_labels_of_a_data_set_are_labels_and_scores():
    datasets = pytest.importorskip("datasets")
    kinds = {"text": datasets.Value("string"), "kind": datasets.ClassLabel(names=["x", "y"])}
    columns = {"text": ["a b", "b c", "c d", "d e", "e f", "f g"], "kind": [0, 1, 0, 1, -1, -1]}
    data = datasets.Dataset.from_dict(columns, datasets.Features(kinds))
    read = read_examples(data, ["text", "kind"])
    assert read.report.dropped == {NO_LABEL: 2}  # -1 is how data sets say so
    assert len(read.examples) == 4
    pairs = data.select(range(4)).rename_columns({"text": "sentence1", "kind": "label"})
    pairs = pairs.add_column("sentence2", ["k l", "l m", "m n", "n o"])
    assert read_examples(pairs).examples.score.tolist() == [0, 1, 0, 1]


def test_labels_need_no_known_name_if_they_are_asked_for(tmp_path):
    texts, labels = ["a b", "b c", "c d", "d e"], ["x", "y", "x", "y"]
    path = tsv(tmp_path / "a.tsv", texts, labels, ["u"] * 4, header="ticket me\tdesk\tother")
    assert read_examples(path, ["ticket me", "desk"], labels=True).examples.label is not None
    assert "name the text and its label" in refusal(path, labels=True)
    assert read_examples((texts, labels), labels=True).examples.label is not None
    assert read_examples((texts, labels)).examples.label is None


def test_numbers_under_a_word_show_a_header_in_any_column(tmp_path):
    path = tsv(tmp_path / "a.tsv", ["1", "2"], FIRST, SECOND, header="id me\tfirst me\tsecond me")
    read = read_examples(path)
    assert (read.examples.first, read.examples.second) == (FIRST, SECOND)
    assert read.note.endswith("first me and second me as texts that belong together; ignored: id me.")
    path = tsv(tmp_path / "b.tsv", FIRST, SECOND, OTHER, header="text\tsecond me\tthird me")
    assert "has 3 columns of text: choose two" in refusal(path)


def test_long_fields_are_read_and_open_quotes_are_found(tmp_path):
    long = "long " * 40_000
    assert read_examples(write(tmp_path / "a.csv", f"a b,{long}\nc d,d e\n")).report.kept == 2
    assert ":2: a quote (\") is opened in this row and never closed" in refusal(
        write(tmp_path / "b.csv", 'a b,b c\n"c d,d e\ne f,f g\n')
    )


def test_what_is_dropped_is_counted_by_reason():
    first, second = ["a b", "  ", "c d", None, "e\nf", "g"], ["x", "x", "c d", "x", "y", "z"]
    report = read_examples((first, second)).report
    assert (report.lines, report.kept) == (6, 3)
    assert report.dropped == {EMPTY_SIDE: 1, IDENTICAL: 1, NOT_TEXT: 1}
    assert report.summary("example").startswith("6 lines read, 3 examples kept, 3 dropped")
    scored = read_examples((first, second, [1, 1, 2, 1, None, float("nan")]))
    assert scored.report.dropped == {EMPTY_SIDE: 1, NOT_TEXT: 1, NO_SCORE: 2}
    assert scored.examples.first == ["a b", "c d"]
    labelled = read_examples({"text": first, "label": ["k", "k", "k", "k", "k", None]})
    assert labelled.report.dropped == {EMPTY_SIDE: 1, NOT_TEXT: 1, NO_LABEL: 1}
    assert "e f" in labelled.examples.first


def test_a_column_without_a_name_is_told_by_its_place(tmp_path):
    path = write(tmp_path / "index.csv", ",query,document\n0,How do I pay?,By card.\n")  # as pandas writes its index
    assert read_examples(path).note.endswith("; ignored: column 1.")


def test_labels_that_are_read_as_texts_raise_a_doubt():
    first = [f"text {i}" for i in range(100)]
    assert "if they are labels" in read_examples((first, ["spam", "ham"] * 50)).note
    assert "if they are labels" not in read_examples((first, first[1:] + first[:1])).note


@pytest.mark.parametrize(
    ("name", "content", "columns", "sentence"),
    [
        ("a.tsv", "a b\tc d\n", ("x", "y"), ":1: there is no column 'x'; the first line reads a b, c d"),
        ("a.tsv", "a b\tc d\n", ("x",), "expected the names of two or three different columns, not x"),
        ("a.csv", "a b;b c\nc d;d e\n", None, "has one column: columns are separated by commas in a .csv file"),
        ("a.tsv", "query\tdocument\na\tb\nc\n", None, ":3: expected at least 2 columns separated by a tab, found 1"),
        ("a.csv", "sentence1,sentence2,label\na,b,0\nc,d,no\n", None, ":3: expected a number as the score, found 'no'"),
        ("a.csv", "sentence1,sentence2,label\na,b,1\nc,d,1\n", None, "every score in"),
        ("a.csv", "title,text,label\na,b,1\nc,d,1\n", None, "has columns that belong together and a label"),
        ("a.jsonl", '{"a": "x", "b": "y", "c": "z"}', None, "has 3 columns of text: choose two"),
        ("a.jsonl", '{"query": "x", "document": "y"}\n{"query"', None, ":2: not valid JSON"),
        ("a.jsonl", '{"query": "x", "answer": "y", "neg": ["z"]}', None, ":1: expected a text as the negative, found"),
        ("a.tsv", "query\tdocument\na\t\n", None, "nothing to tune on in "),
        ("a.tsv", "\n\n", None, "has no columns: its first line is empty"),
        ("a.jsonl", "\n{}\n", None, "has no columns: no line has an object with keys"),
        ("a.txt", "a\tb\n", None, "its name must end in .tsv, .csv, .jsonl or .parquet"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(tmp_path, name, content, columns, sentence):
    path = write(tmp_path / name, content)
    message = refusal(path, columns)
    assert sentence in message
    assert "expected the names" in message or str(path) in message


def test_sources_in_memory_are_checked():
    assert refusal((FIRST, SECOND[:1])) == "the columns must be equally long: first (2), second (1)"
    assert "a list of rows" in refusal(42)
    assert "a list of rows" in refusal(SimpleNamespace(column_names=["a", "b"]))  # a stream has no columns to take
    assert "there is no column 'c'" in refusal({"a": FIRST, "b": SECOND}, ("a", "c"))
    assert refusal((FIRST, SECOND, [1, "x"])).startswith("the columns, row 2: expected a number as the score")
    unknown = refusal((FIRST, SECOND, [None, float("nan")]))
    assert unknown.startswith("there is nothing to tune on in the columns: 2 lines read, 0 examples kept, 2 dropped")
