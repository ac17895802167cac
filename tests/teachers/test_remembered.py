"""A teacher that is remembered: finished vectors do not need it, and it says the same about itself."""

from __future__ import annotations

import numpy as np
import pytest

from banyan.errors import BanyanError
from banyan.support.display import Display
from banyan.teachers import Remembered, about, make_vectors, open_teacher
from tests.helpers import embeddings_endpoint as fake

TEXTS = ["one", "two", "three"]


def made(folder, teacher, texts=TEXTS) -> np.ndarray:
    return make_vectors(folder / "vectors", texts, teacher, Display(quiet=True), "lines")


def never():
    raise BanyanError("the teacher is gone")


def test_finished_vectors_do_not_need_their_teacher(tmp_path):
    record = tmp_path / "new" / "teacher.json"
    with fake.running() as server:
        endpoint = open_teacher(server.address)
        first = Remembered(record, server.address, lambda: endpoint)
        vectors = made(tmp_path, first)
    again = Remembered(record, server.address, never)
    np.testing.assert_array_equal(made(tmp_path, again), vectors)
    assert again.about() == first.about() == about(endpoint)
    assert again.about()["width"] == fake.WIDTH
    with pytest.raises(BanyanError, match="the teacher is gone"):
        made(tmp_path, again, [*TEXTS, "four"])


@pytest.mark.parametrize("record", [None, "{", "[]", '{"source": "another", "name": "another", "about": {}}'])
def test_a_teacher_that_is_not_remembered_is_opened_at_once(record, tmp_path):
    if record:
        (tmp_path / "teacher.json").write_text(record)
    with pytest.raises(BanyanError, match="the teacher is gone"):
        Remembered(tmp_path / "teacher.json", "one", never)
