from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from banyan.commands import main
from banyan.model.functions import Functions
from banyan.support.display import COMPILING
from experiments import data

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # so that deterministic products can be asked for
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined

GOLDEN = sorted((Path(__file__).parent / "golden").glob("banyan_*.npz"))


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request) -> dict[str, np.ndarray]:
    """Figures from the authors' program: a batch, all weights, and what it computes."""
    with np.load(request.param) as file:
        return dict(file)


def golden_functions(golden: dict[str, np.ndarray]) -> Functions:
    return Functions(*(golden[name].astype(np.float64) for name in Functions._fields))


def random_functions(rng: np.random.Generator, U: int) -> Functions:
    return Functions(*(rng.uniform(-1, 1, U) for _ in Functions._fields))


def random_batch(rng: np.random.Generator, sentences: int, vocab: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = rng.integers(1, longest + 1, sentences)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return rng.integers(0, vocab, offsets[-1]).astype(np.int32), offsets


def assert_holds(batch, tokens: np.ndarray, offsets: np.ndarray, plain: bool) -> None:
    """A batch that was drawn on the device is that ragged one."""
    T, L = batch.sizes[:2].tolist()
    np.testing.assert_array_equal(batch.tokens[:T].cpu(), tokens)
    np.testing.assert_array_equal(batch.offsets.cpu(), offsets)
    np.testing.assert_array_equal(batch.token[batch.leaf[:T].long()].cpu(), tokens)
    np.testing.assert_array_equal(batch.token[:L].cpu(), tokens if plain else np.unique(tokens))


@pytest.fixture
def memory_full_of_nan():
    """Whatever is read before it was written shows."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The corpora and evaluation sets, which are not part of the repository."""
    folder = data.data_folder()
    if not folder.is_dir():
        pytest.skip(f"there is no data folder {folder}: set {data.VARIABLE}")
    return folder


def unhurried(err: str) -> str:
    """Messages but for the one that is said on a machine that is new or busy."""
    return err.replace(f"{COMPILING}\n", "")


@pytest.fixture
def banyan(capsys: pytest.CaptureFixture[str]):
    """Run the command here and now: exit code, output, messages."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code: Any = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, unhurried(err)

    return run
