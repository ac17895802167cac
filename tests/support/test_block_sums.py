"""Checksums of blocks."""

from __future__ import annotations

import zlib

import pytest

from banyan.support import block_sums
from banyan.support.block_sums import BlockSums


@pytest.mark.parametrize("part", [1, 7, 10, 25, 1000])
@pytest.mark.parametrize("size", [0, 1, 10, 20, 35])
def test_each_block_has_its_crc32_however_the_bytes_arrive(part, size, tmp_path, monkeypatch):
    monkeypatch.setattr(block_sums, "BLOCK", 10)
    content = bytes(range(size))
    sums = BlockSums()
    for at in range(0, size, part):
        sums.add(content[at : at + part])
    found = [f"{zlib.crc32(content[at : at + 10]):08x}" for at in range(0, size, 10)]
    assert sums.values() == {"form": block_sums.FORM, "bytes": size, "blocks": found}
    (tmp_path / "file").write_bytes(content)
    assert block_sums.of_file(tmp_path / "file").values() == sums.values()
