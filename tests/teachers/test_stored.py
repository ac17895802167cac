"""Vectors that exist already: .npy and Parquet, good and bad."""

from __future__ import annotations

import numpy as np
import pytest

from banyan.errors import BanyanError
from banyan.teachers import about, holds_vectors, open_teacher, read_vectors, stored

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from pyarrow import parquet  # noqa: E402

ROWS = 10
VECTORS = np.arange(40, dtype=np.float32).reshape(ROWS, 4)


@pytest.fixture(autouse=True)
def _few_rows_at_once(monkeypatch):
    monkeypatch.setattr(stored, "_ROWS_AT_ONCE", 3)


@pytest.fixture
def npy(tmp_path):
    def write(array) -> str:
        np.save(tmp_path / "vectors.npy", array)
        return tmp_path / "vectors.npy"

    return write


@pytest.fixture
def table(tmp_path):
    def write(**columns) -> str:
        path = tmp_path / "vectors.parquet"
        parquet.write_table(pa.table({"text": ["text"] * ROWS, **columns}), path, row_group_size=4)
        return path

    return write


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_any_float_type_is_mapped(npy, dtype, order):
    path = npy(np.asarray(VECTORS, dtype, order=order))
    found = read_vectors(path, ROWS)
    assert isinstance(found, np.memmap)
    assert found.dtype == dtype
    assert not found.flags.writeable
    np.testing.assert_array_equal(found, VECTORS)
    assert about(str(path)) == {"name": path.name, "kind": "vectors", "licence": None, "width": 4}


@pytest.mark.parametrize("numbers", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("lists", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 4)], ids=["list", "large", "4"])
def test_a_column_of_lists_is_read(table, numbers, lists):
    rows = [list(map(np.float16, row)) for row in VECTORS]
    path = table(vectors=pa.array(rows, pa.list_(numbers)).cast(lists(numbers)))
    found = read_vectors(path, ROWS)
    np.testing.assert_array_equal(found, VECTORS)
    assert not found.flags.writeable
    assert about(str(path))["width"] == 4


def test_one_of_several_columns_is_named(table, tmp_path):
    lists = pa.array(list(VECTORS))
    path = table(one=lists, two=pa.array(list(VECTORS + 1)))
    np.testing.assert_array_equal(read_vectors(f"{path}#two", ROWS), VECTORS + 1)
    with pytest.raises(BanyanError, match=r"has several columns of vectors: choose one, as in .*vectors.parquet#one;"):
        read_vectors(path, ROWS)
    with pytest.raises(BanyanError, match=r"column 'three' of .* does not exist; its columns are text \(string\), one"):
        read_vectors(f"{path}#three", ROWS)
    with pytest.raises(BanyanError, match=r"column 'text' of .* holds no lists of floating-point numbers"):
        read_vectors(f"{path}#text", ROWS)
    odd = path.rename(tmp_path / "a#b.parquet")
    np.testing.assert_array_equal(read_vectors(f"{odd}#one", ROWS), VECTORS)


def with_row_7(value) -> list:
    rows = VECTORS.tolist()
    rows[7] = value
    return rows


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, r"row 7 of column 'v' of .*vectors.parquet is empty \(the first row is 0\)"),
        ([], "row 7 of column 'v' of .* is empty"),
        ([1.0, 2.0], "row 7 of column 'v' of .* has 2 numbers instead of 4"),
        ([1.0, None, 3.0, 4.0], "row 7 of .* holds NaN or infinity"),
        ([1.0, np.inf, 3.0, 4.0], "row 7 of .* holds NaN or infinity"),
    ],
)
def test_a_bad_row_of_a_column_is_named(table, value, told):
    path = table(v=with_row_7(value))
    with pytest.raises(BanyanError, match=told):
        read_vectors(path, ROWS)
    if value is None or len(value) == 4:
        with pytest.raises(BanyanError, match=told):
            read_vectors(table(v=pa.array(with_row_7(value), pa.list_(pa.float32(), 4))), ROWS)


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (VECTORS[0], r"vectors.npy holds an array of shape \(4,\)"),
        (VECTORS[:, :0], r"vectors.npy holds an array of shape \(10, 0\)|cannot read"),
        (VECTORS.astype(int), "vectors.npy holds int64 values"),
        (VECTORS[:9], r"vectors.npy has 9 rows, but there are 10 texts: it needs one vector for each"),
        (np.array(with_row_7([0, 1, np.nan, 0])), r"row 7 of .*vectors.npy holds NaN or infinity"),
        (VECTORS.astype(float) * 1e30, r"row 0 of .*vectors.npy holds numbers too large"),
        (np.array([{}] * 10, object), "cannot read .*vectors.npy"),
    ],
)
def test_a_bad_array_is_refused(npy, array, told):
    with pytest.raises(BanyanError, match=told):
        read_vectors(npy(array), ROWS)


def test_files_that_are_something_else_are_refused(npy, table, tmp_path):
    good = npy(VECTORS)
    good.write_bytes(good.read_bytes()[:-4])
    with pytest.raises(BanyanError, match=r"cannot read .*vectors.npy"):
        read_vectors(good, ROWS)
    with pytest.raises(BanyanError, match=r"no column of lists of floating-point numbers; its columns are text"):
        read_vectors(table(), ROWS)
    path = table(v=list(VECTORS))
    with pytest.raises(BanyanError, match=r"vectors.parquet has 10 rows, but there are 11 texts"):
        read_vectors(path, 11)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BanyanError, match=r"cannot read .*vectors.parquet"):
        read_vectors(path, ROWS)
    with pytest.raises(BanyanError, match=r"^there is no file none.npy$"):
        read_vectors("none.npy", ROWS)
    (tmp_path / "vectors.txt").write_text("1 2 3")
    with pytest.raises(BanyanError, match=r"vectors.txt is neither a .npy nor a .parquet file of vectors"):
        read_vectors(tmp_path / "vectors.txt", ROWS)


def test_vectors_are_told_from_teachers(npy):
    assert all(map(holds_vectors, ["a.npy", "b.PARQUET", "c.parquet#column"]))
    assert not any(map(holds_vectors, ["owner/model", "folder", "http://host/v1#a.model"]))
    with pytest.raises(BanyanError, match=r"vectors.npy holds vectors and cannot encode further texts"):
        open_teacher(str(npy(VECTORS)))
    with pytest.raises(BanyanError, match=r"^there is no file none.npy$"):
        open_teacher("none.npy")
