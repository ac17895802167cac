"""Near-duplicates of files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from banyan import BanyanError
from banyan import dedup as deduplicating
from banyan.dedup import NONE, Deduplication, hashes_for, on_one_line
from tests.helpers.corpora import lines

pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


class Points:
    """A model whose embedding of a number is that point of a cloud."""

    dim = 24

    def __init__(self, points: np.ndarray) -> None:
        self.points = points / np.linalg.norm(points, axis=1, keepdims=True)

    def encode(self, texts: list[str], **how: object) -> np.ndarray:
        return np.array([self.points[int(t)] if t else np.zeros(self.dim) for t in texts], np.float32)


def expected(points: np.ndarray, threshold: float) -> list[int]:
    """The first kept row that each row is similar to."""
    of: list[int] = []
    for row, point in enumerate(points):
        kept = [i for i in range(row) if of[i] == NONE and points[i] @ point >= threshold]
        of.append(kept[0] if kept else NONE)
    return of


@pytest.mark.parametrize("threshold", [0.8, 0.9, 0.97])
def test_rows_that_repeat_an_earlier_one_are_found(tmp_path, monkeypatch, threshold):
    monkeypatch.setattr(deduplicating, "_COMPARED", 7)  # several blocks
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(60, 24))
    model = Points(np.repeat(centres, 5, 0) + 0.1 * rng.normal(size=(300, 24)) * rng.random((300, 1)))
    (tmp_path / "rows.txt").write_text("\n".join(map(str, range(300))))
    with Deduplication(model, tmp_path / "rows.txt", threshold) as found:  # type: ignore[arg-type]
        of = found.of
        wanted = np.array(expected(model.points, threshold))
        clear = np.abs(model.points @ model.points.T - threshold).min(1) > 0.004  # int8 rounds
        assert (of[clear] != NONE).mean() > 0.3
        assert ((of != NONE) == (wanted != NONE))[clear].mean() > 0.98
        for row in np.flatnonzero(of != NONE):
            assert of[of[row]] == NONE
            assert of[row] < row
            assert model.points[of[row]] @ model.points[row] >= threshold - 0.01


def test_exact_copies_are_always_found_and_blank_rows_never(tmp_path, model_folder, banyan):
    texts = lines(50, 3)
    (tmp_path / "rows.txt").write_text("\n".join([*texts, "", *texts[::-1], "", "   "]))
    code, out, told = banyan("dedup", model_folder, tmp_path / "rows.txt", "--threshold", "1", "--remove", "--quiet")
    assert (code, told) == (0, "")
    assert out.splitlines() == [*dict.fromkeys(texts), "", "", "   "]
    code, _, told = banyan("dedup", model_folder, tmp_path / "rows.txt", "--threshold", "1", "-o", tmp_path / "out.tsv")
    assert code == 0
    listed = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert [text for *_, text, first in listed if text != first] == []
    assert ["52", "50", "1.000", texts[49], texts[49]] in listed
    assert f"{len(listed)} near-duplicates" in told


def test_tables_and_standard_input_are_read(tmp_path, model_folder, banyan, monkeypatch):
    (tmp_path / "rows.csv").write_text('id,text\n1,"the cat\tsat\nthere"\n2,a dog\n3,"the cat\tsat\nthere"\n')
    code, out, _ = banyan("dedup", model_folder, tmp_path / "rows.csv", "--column", "text", "--quiet")
    assert (code, out) == (0, "3\t1\t1.000\tthe cat sat there\tthe cat sat there\n")


REPEATED = [("1", "the cat\tsat\n'there'"), ("2", "a dog"), ("3", "the cat\tsat\n'there'"), ("4", ""), ("5", "a, dog")]


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    if path.suffix == ".csv":
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([("id", "text"), *rows])
    elif path.suffix == ".tsv":
        path.write_text("".join(f"{a}\t{on_one_line(b)}\n" for a, b in [("id", "text"), *rows]))
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps({'id': a, 'text': b, 'more': [1]})}\n" for a, b in rows))
    else:
        columns = {"id": [a for a, _ in rows], "text": [b for _, b in rows], "more": [{"x": 1.5}] * len(rows)}
        parquet.write_table(pa.table(columns), path)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_rows_of_tables_keep_all_their_columns(tmp_path, model_folder, banyan, suffix):
    """Those of two tables. The table that is left is written as these were."""
    for name, rows in (("a", REPEATED), ("b", REPEATED[1:3]), ("wanted", REPEATED[:2] + REPEATED[3:])):
        write_table(tmp_path / f"{name}.{suffix}", rows)
    inputs = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    how = ("--column", "text", "--threshold", "1", "--remove", "--quiet")
    code, _, told = banyan("dedup", model_folder, *inputs, *how, "-o", tmp_path / f"kept.{suffix}")
    assert (code, told) == (0, "")
    kept, wanted = tmp_path / f"kept.{suffix}", tmp_path / f"wanted.{suffix}"
    if suffix == "parquet":
        assert parquet.read_table(kept).equals(parquet.read_table(wanted))
    else:
        assert kept.read_text() == wanted.read_text()
        assert banyan("dedup", model_folder, *inputs, *how)[1] == wanted.read_text()
    code, _, _ = banyan("dedup", model_folder, *inputs, *how, "-o", tmp_path / "kept.txt")
    assert (code, (tmp_path / "kept.txt").read_text()) == (0, "the cat sat 'there'\na dog\n\na, dog\n")


@pytest.mark.parametrize(
    ("inputs", "out", "told"),
    [
        (["a.csv"], ["-o", "b.parquet"], "the rows are csv: name a file that ends in .csv, or in .txt"),
        (["a.parquet"], [], "the rows are parquet: name a file that ends in .parquet, or in .txt"),
        (["a.csv", "a.tsv"], ["-o", "b.csv"], "the rows are of several kinds, csv, tsv: name a .txt file"),
        (["a.csv", "other.csv"], ["-o", "b.csv"], "other.csv has other columns than a.csv"),
        (["a.parquet", "other.parquet"], ["-o", "b.parquet"], "other.parquet has other columns than a.parquet"),
        (["a.csv"], ["-o", "b.csv.gz"], "b.csv.gz would not be compressed: leave .gz out of its name"),
    ],
)
def test_what_cannot_be_one_table_is_told(tmp_path, model_folder, banyan, monkeypatch, inputs, out, told):
    monkeypatch.chdir(tmp_path)
    for suffix in ("csv", "tsv", "parquet"):
        write_table(tmp_path / f"a.{suffix}", REPEATED)
    (tmp_path / "other.csv").write_text("text,id\na,b\n")
    parquet.write_table(pa.table({"text": ["a"]}), tmp_path / "other.parquet")
    before = sorted(tmp_path.iterdir())
    code, _, said = banyan("dedup", model_folder, *inputs, "--column", "text", "--remove", "--quiet", *out)
    assert (code, said.count("\n")) == (1, 1)
    assert told in said
    assert sorted(tmp_path.iterdir()) == before


def test_a_threshold_that_cannot_be_is_told(model, tmp_path):
    (tmp_path / "rows.txt").write_text("a\n")
    for threshold in (0.5, 1.5, float("nan")):
        with pytest.raises(BanyanError, match=r"threshold must be between 0\.7 and 1"):
            Deduplication(model, tmp_path / "rows.txt", threshold)
    assert hashes_for(0.7) > hashes_for(0.9) > hashes_for(1.0)


def test_blank_rows_alone_have_no_duplicates_and_an_empty_file_is_told(model, tmp_path):
    (tmp_path / "rows.txt").write_text("\n\n \n")
    with Deduplication(model, tmp_path / "rows.txt") as found:
        assert (list(found.kept()), list(found.duplicates())) == (["", "", " "], [])
    (tmp_path / "rows.txt").write_text("")
    with pytest.raises(BanyanError, match="there is no text to read"):
        Deduplication(model, tmp_path / "rows.txt")
