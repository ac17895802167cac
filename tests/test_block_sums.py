"""Checksums of blocks."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from banyan import block_sums, native
from banyan.block_sums import BlockSums


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


@pytest.mark.parametrize("chosen", ["native", "numba"])
def test_crc32_is_that_of_zlib(chosen, monkeypatch):
    if chosen == "native" and native.kernels() is None:
        pytest.skip("the native kernels are not built")
    monkeypatch.setenv("BANYAN_KERNELS", chosen)
    rng = np.random.default_rng(0)
    for size in (0, 1, 63, 64, 65, 127, 128, 192, 1000, 4096, 100_001):
        for data in (rng.bytes(size), bytes(size), b"\xff" * size):
            for before in (0, 1, 0xFFFFFFFF, 0x12345678):
                assert block_sums.crc32(memoryview(data), before) == zlib.crc32(data, before)
            odd = memoryview(b"x" + data)[1:]  # at an odd address
            assert block_sums.crc32(odd) == zlib.crc32(data)


def test_the_kernel_refuses_sizes_that_it_cannot_fold():
    fold = getattr(native.kernels(), "fold", None)
    if fold is None:
        pytest.skip("there is no native kernel for this machine")
    for size in (0, 1, 63, 65):
        with pytest.raises(ValueError, match="the size of data"):
            fold(bytes(size), 0)
