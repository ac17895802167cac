"""Slices of rows, and rows of length 1."""

from __future__ import annotations

import numpy as np
import pytest

from banyan.support.rows import blocks, normalize_rows, slices, unit_rows


def test_slices_hold_every_row_once():
    assert slices(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert slices(6, 3) == [slice(0, 3), slice(3, 6)]
    assert slices(0, 3) == []


@pytest.mark.parametrize(
    ("n", "most", "sizes"), [(10, 4, [4, 4, 2]), (9, 5, [5, 4]), (3, 100, [3]), (3, 0, [1, 1, 1]), (0, 5, [])]
)
def test_blocks_are_as_few_and_as_even_as_can_be(n, most, sizes):
    assert [rows.stop - rows.start for rows in blocks(n, most)] == sizes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_get_length_1_and_zeros_stay(dtype):
    rows = np.array([[3, 4], [0, 0], [-2, 0]], dtype)
    expected = [[0.6, 0.8], [0, 0], [-1, 0]]
    unit = unit_rows(rows)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, expected, rtol=1e-7)
    np.testing.assert_array_equal(rows[0], [3, 4])  # a copy
    assert normalize_rows(rows) is rows
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
