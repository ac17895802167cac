"""A teacher behind an address: what is asked, what is tried again, and what each failure says."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from banyan.errors import BanyanError
from banyan.support.display import Display
from banyan.teachers import about, endpoint, make_vectors, making, open_teacher
from tests.helpers import embeddings_endpoint as fake
from tests.helpers.embeddings_endpoint import refuses, vector_of

TEXTS = ["one", "two", "three", "twenty-five", "a longer text"]
EXPECTED = np.array([vector_of(text) for text in TEXTS], np.float32)
QUIET = Display(quiet=True)
SLEEP = endpoint._sleep


@pytest.fixture
def server():
    with fake.running() as server:
        yield server


@pytest.fixture(autouse=True)
def waited(monkeypatch) -> list[float]:
    """No key from outside; the seconds that would have been waited."""
    seconds: list[float] = []
    monkeypatch.setattr(endpoint, "_sleep", lambda wait, stop: seconds.append(wait))
    for name in endpoint.KEYS:
        monkeypatch.delenv(name, raising=False)
    return seconds


def test_vectors_come_in_the_order_of_the_texts(server):
    teacher = open_teacher(server.address)
    assert about(teacher) == {"name": server.address, "kind": "address", "licence": None, "width": None}
    assert about(open_teacher(f"{server.address}?api-version=2#some"))["name"] == f"{server.address}#some"
    server.faults = [fake.shuffled]
    found = teacher.encode(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, EXPECTED)
    assert about(teacher)["width"] == 4


@pytest.mark.parametrize("ending", ["", "/", "/embeddings", "/embeddings/"])
def test_address_model_and_key_are_sent(server, ending, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "second")
    open_teacher(f"{server.address}{ending}#some/model").encode(["one"])
    monkeypatch.setenv("BANYAN_TEACHER_KEY", " first\n")
    open_teacher(f"{server.address}{ending}").encode(["one"])
    path = "/v1/embeddings"
    assert server.requests == [
        {"path": path, "key": "Bearer second", "input": ["one"], "model": "some/model"},
        {"path": path, "key": "Bearer first", "input": ["one"]},
    ]


def test_a_busy_endpoint_is_asked_again_when_it_says(server, waited):
    long_ago = "Wed, 21 Oct 2015 07:28:00 GMT"
    server.faults = [refuses(429, Retry_After="7"), refuses(503), refuses(429, Retry_After=long_ago)]
    teacher, told = open_teacher(server.address), []
    teacher.note = told.append
    np.testing.assert_array_equal(teacher.encode(TEXTS), EXPECTED)
    assert waited == [7, 2, 4]
    assert told == [f"{server.address}/embeddings answered 429 (no) and asks to wait 7s"]


def test_a_broken_answer_is_asked_for_again(server, waited):
    server.faults = [fake.breaks_off, fake.is_cut_short]
    np.testing.assert_array_equal(open_teacher(server.address).encode(TEXTS), EXPECTED)
    assert waited == [1, 2]


def test_an_endpoint_that_fails_for_ever_is_given_up(server, waited):
    server.always = refuses(500, "out of order")
    with pytest.raises(BanyanError, match=r"^http://127.*/v1/embeddings answered 500 \(out of order\)$"):
        open_teacher(server.address).encode(TEXTS)
    assert waited == list(endpoint.WAITS)
    server.always = refuses(429, "tomorrow", Retry_After="86400")
    with pytest.raises(BanyanError, match=r"answered 429 \(tomorrow\) and asks to wait 86,400 s$"):
        open_teacher(server.address).encode(TEXTS)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (refuses(401), r"answered 401 \(no\): .*BANYAN_TEACHER_KEY"),
        (refuses(404), r"answered 404 \(no\): if it needs the name of a model, write http.*/v1/embeddings#MODEL"),
        (refuses(308, Location="https://elsewhere/v1"), "it has moved to https://elsewhere/v1"),
        (refuses(400, "no such model"), r"answered 400 \(no such model\)"),
        (fake.one_too_few, "answered with 4 vectors for 5 texts"),
        (fake.no_embeddings, "something other than a list of embeddings"),
    ],
)
def test_what_will_not_get_better_is_said_at_once(server, waited, fault, told):
    server.always = fault
    with pytest.raises(BanyanError, match=told):
        open_teacher(server.address).encode(TEXTS)
    assert not waited


def test_where_nobody_answers_is_said_at_once(server, waited):
    server.shutdown()
    server.server_close()
    with pytest.raises(BanyanError, match=r"^cannot reach http.*/v1/embeddings: .*refused"):
        open_teacher(server.address).encode(TEXTS)
    assert not waited


def test_an_endpoint_that_takes_few_texts_at_once_gets_few(server):
    def at_most_two(handler, answer):
        texts = server.requests[-1]["input"]
        handler.reply(answer) if len(texts) <= 2 else refuses(422, "batch too large")(handler, answer)

    server.always = at_most_two
    teacher = open_teacher(server.address)
    for _ in range(2):
        np.testing.assert_array_equal(teacher.encode(TEXTS), EXPECTED)
    sizes = [len(request["input"]) for request in server.requests]
    assert sizes[:5] == [5, 3, 2, 1, 2]
    assert sorted(sizes[5:]) == [1, 2, 2]


def numbered(n: int) -> list[str]:
    return [f"text number {number}" for number in range(n)]


def test_several_requests_are_under_way_at_once(server):
    teacher, together = open_teacher(server.address), threading.Barrier(endpoint.AT_ONCE)
    teacher.encode(["one"])

    def once_all_are_there(handler, answer):
        together.wait(timeout=10)
        handler.reply(answer)

    server.always = once_all_are_there
    texts = numbered(endpoint.AT_ONCE * endpoint.FEWEST * 2)
    np.testing.assert_array_equal(teacher.encode(texts), [vector_of(text) for text in texts])
    assert len(server.requests) == 1 + endpoint.AT_ONCE


def test_a_failure_does_not_wait_for_the_other_requests(server, monkeypatch):
    monkeypatch.setattr(endpoint, "_sleep", SLEEP)
    teacher, told = open_teacher(server.address), []
    teacher.encode(["one"])
    teacher.note, waiting = told.append, threading.Barrier(endpoint.AT_ONCE)

    def one_fails(handler, answer):
        first = answer["data"][0]["embedding"] == vector_of("text number 0")
        waiting.wait(timeout=10)
        refuses(401)(handler, answer) if first else refuses(429, Retry_After="500")(handler, answer)

    server.always = one_fails
    with pytest.raises(BanyanError, match="answered 401"):
        teacher.encode(numbered(endpoint.AT_ONCE * endpoint.FEWEST))
    assert len(told) <= 1  # three requests wait, which is worth one line


def test_a_text_that_is_too_long_is_cut_and_the_others_keep_their_batch(server):
    def short_ones(handler, answer):
        long = max(map(len, server.requests[-1]["input"])) > 200
        refuses(413, "too long")(handler, answer) if long else handler.reply(answer)

    server.always = short_ones
    teacher = open_teacher(server.address)
    found = teacher.encode(["x" * 600, *TEXTS])
    np.testing.assert_array_equal(found, [vector_of("x" * 150), *EXPECTED])
    server.requests.clear()
    teacher.encode(TEXTS)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://localhost:8080", r"must end in /v1 or /v1/embeddings"),
        ("ftp://localhost/v1", r"is not an address of the form https://"),
        ("http://localhost:port/v1", r"is not an address of the form https://"),
        ("http://local host/v1", r"is not an address of the form https://"),
        ("http:///v1", r"is not an address of the form https://"),
        ("https://me:secret@localhost/v1", r"^the teacher's address holds a password"),
        ("https://localhost/v1?api-version=2&api-key=secret", r"holds a password or a key: leave it out and set"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused(address, told):
    with pytest.raises(BanyanError, match=told):
        open_teacher(address)


def test_a_key_that_the_endpoint_repeats_is_not_shown(server, waited, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server.always = refuses(401, "wrong key: Bearer sk-secret")
    with pytest.raises(BanyanError, match=r"wrong key: Bearer [.]{3}[)]") as caught:
        open_teacher(server.address).encode(["one"])
    assert "sk-secret" not in str(caught.value)


def test_a_key_that_cannot_be_sent_is_refused(server, monkeypatch):
    monkeypatch.setenv("BANYAN_TEACHER_KEY", "schlüssel")
    with pytest.raises(BanyanError, match="the key in the environment variable BANYAN_TEACHER_KEY"):
        open_teacher(server.address).encode(["one"])


# --- Vectors made with an endpoint -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (refuses(500, "out of order"), r"answered 500 \(out of order\)"),
        (fake.breaks_off, "does not answer"),
        (fake.wider, "answered with 5 dimensions after 4 before"),
        (fake.not_a_number, "the teacher returned NaN or infinity for the text 'text number 19'"),
        (fake.one_too_few, "answered with 1 vectors for 2 texts"),
    ],
)
def test_a_failure_half_way_loses_nothing_and_asks_nothing_twice(server, fault, told, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "FIRST_BLOCK", 4)
    monkeypatch.setattr(making, "LAST_BLOCK", 4)
    monkeypatch.setattr(making, "BATCH", 2)
    texts = [f"text number {number}" for number in range(10, 30)]
    server.faults = [None] * 4  # two blocks
    server.always = fault
    kept = r"; 8 of 20 vectors are kept, and the same command with --resume continues from there$"
    with pytest.raises(BanyanError, match=f"{told.replace('19', '18')}.*{kept}"):
        make_vectors(tmp_path, texts, open_teacher(server.address), QUIET, "lines")
    assert sorted(server.answered) == texts[:8]
    server.always = None
    found = make_vectors(tmp_path, texts, open_teacher(server.address), QUIET, "lines")
    np.testing.assert_array_equal(found, [vector_of(text) for text in texts])
    assert sorted(server.answered) == texts
