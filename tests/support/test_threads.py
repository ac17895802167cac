from __future__ import annotations

import threading

import pytest

from banyan.support import threads


def test_results_come_with_their_items_and_in_order():
    last_first = [threading.Event() for _ in range(3)]

    def square(number: int) -> int:
        if number < 2:
            assert last_first[number + 1].wait(10)
        last_first[number].set()
        return number * number

    with threads.ahead(square, range(3), 3) as found:
        assert list(found) == [(0, 0), (1, 1), (2, 4)]


def test_items_are_taken_only_as_far_ahead_as_there_are_threads_and_one():
    taken = []

    def items():
        for number in range(10):
            taken.append(number)
            yield number

    with threads.ahead(lambda number: number, items(), 2) as found:
        next(found)
        assert taken == [0, 1, 2]
        next(found)
        assert taken == [0, 1, 2, 3]


def test_what_fails_raises_where_its_result_is_due():
    def inverse(number: int) -> float:
        return 1 / number

    with threads.ahead(inverse, [1, 0, 2], 2) as found:
        assert next(found) == (1, 1.0)
        with pytest.raises(ZeroDivisionError):
            next(found)


@pytest.mark.parametrize(("n_threads", "cores"), [(1, 5), (2, 1)])
def test_several_threads_share_the_cores_and_one_has_them_all(monkeypatch, n_threads, cores):
    monkeypatch.setenv("BANYAN_THREADS", "5")
    with threads.ahead(lambda _: threads.available(), range(3), n_threads) as found:
        assert [available for _, available in found] == [cores] * 3
    assert threads.available() == 5
