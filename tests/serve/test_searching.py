"""POST /search and POST /explain: what they answer is what the searcher and the model say, within limits."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lancedb")

from banyan import Banyan, BanyanError
from banyan.search import phrases
from banyan.search.searching import Searcher, searcher_of
from banyan.serve import explore_map
from banyan.serve.app import App
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics
from banyan.serve.routes import LABELS, WITH_INDEX
from banyan.serve.server import Settings, Site
from banyan.serve.service import Service
from tests.helpers.asked import ask


@pytest.fixture(scope="module")
def searcher(index_folder: Path, model: Banyan, model_folder: Path) -> Searcher:
    return searcher_of(str(index_folder), model, str(model_folder))


def application(model: Banyan, searcher: Searcher | None, **limits: Any) -> App:
    service = Service(model, ["tiny"], Limits(**limits), 0, Metrics(LABELS), searcher=searcher)
    return App(service, log_requests=False)


@pytest.fixture(scope="module")
def app(model: Banyan, searcher: Searcher) -> App:
    return application(model, searcher)


def posted(app: App, path: str, **body: Any) -> tuple[int, Any]:
    status, _, answer = ask(app, "POST", path, body)
    return status, json.loads(answer)


# --- /search ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["both", "vectors", "words"])
def test_hits_are_those_of_the_searcher(app, searcher, by):
    status, answer = posted(app, "/search", query="the cat sat", k=5, by=by)
    assert status == 200
    expected = searcher.rank("the cat sat", 5, mode=by)
    assert [(hit["text"], hit["row"], hit["bm25"]) for hit in answer["hits"]] == [
        (hit.text, hit.row, hit.words) for hit in expected
    ]
    np.testing.assert_allclose([hit["cosine"] for hit in answer["hits"]], [hit.cosine for hit in expected])
    assert answer["hits"][0]["columns"].keys() == {"year", "kind"}


def test_pages_follow_one_another_without_gap_or_repeat(app):
    pages = [posted(app, "/search", query="the cat", k=15, offset=offset)[1] for offset in (0, 15, 30)]
    rows = [hit["row"] for page in pages for hit in page["hits"]]
    assert sorted(rows) == list(range(1, 41))
    assert [page["more"] for page in pages] == [True, True, False]
    assert posted(app, "/search", query="the cat", offset=40)[1] == {"hits": [], "more": False}


def test_a_condition_filters(app):
    _, answer = posted(app, "/search", query="cat", where="year >= 1930 AND kind = 'b''c'", k=100)
    found = [hit["columns"] for hit in answer["hits"]]
    assert sorted(columns["year"] for columns in found) == [1931, 1933, 1935, 1937, 1939]
    assert {columns["kind"] for columns in found} == {"b'c"}
    assert posted(app, "/search", query="cat", where="  ")[0] == 200


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({}, 422, "query must be a string"),
        ({"query": ""}, 400, "query is empty"),
        ({"query": ["a"]}, 422, "query must be a string"),
        ({"query": "a", "k": 0}, 422, "k must be between 1 and 100, not 0"),
        ({"query": "a", "k": 101}, 422, "k must be between"),
        ({"query": "a", "offset": 1000}, 422, "offset must be between 0 and 999"),
        ({"query": "a", "by": "magic"}, 422, "by must be one of both, vectors, words"),
        ({"query": "a", "where": "colour = 'red'"}, 422, "is not a valid condition"),
        ({"query": "a", "where": "year = ("}, 422, "is not a valid condition"),
        ({"query": "a", "where": "year = 1 " * 200}, 413, "the limit is 1,000"),
        ({"query": "a " * 9000}, 413, "tokens; the limit is 8,192"),
    ],
)
def test_what_cannot_be_searched_is_told_in_a_sentence(app, body, status, told):
    found, answer = posted(app, "/search", **body)
    assert (found, told in answer["error"]) == (status, True), answer


@pytest.mark.parametrize("where", ["(" * 1000, "NOT " * 250 + "a", "-" * 900 + "1 = 1", "1=1 OR " * 142 + "1=1"])
def test_a_deep_condition_does_no_harm(app, where):
    assert posted(app, "/search", query="a", where=where[:1000])[0] in (200, 422)


GROWING = r"""repeat('a', 1000000000) = 'b'
"repeat"('a', 1000000000) = 'b'
`repeat`('a', 1000000000) = 'b'
REPEAT/* */('a', 1000000000) = 'b'
kind = E'\'' OR repeat('a', 1000000000) = 'b' OR kind = ''
kind = '\'' OR repeat('a', 1000000000) = 'b' OR kind = ''
rpad('a', 1000000000, 'b') = 'b'
year IN (1) OR (array_length(range(0, 10000000000)) > 0)
regexp_like(kind, '(a{900}){900}')
year = 1; DROP TABLE rows
N'a' = kind
$$a$$ = kind
kind || kind || kind = 'a'"""


@pytest.mark.parametrize("where", GROWING.splitlines())
@pytest.mark.parametrize("path", ["/search", "/explore/find"])
def test_a_condition_cannot_grow_in_memory(app, where, path, monkeypatch):
    monkeypatch.setattr(Searcher, "rank", lambda *_, **__: pytest.fail("it was run"))
    monkeypatch.setattr(explore_map, "_ready", lambda _: None)
    status, answer = posted(app, path, query="a", where=where)
    assert (status, "where" in answer["error"]) == (422, True)


@pytest.mark.parametrize(
    "where",
    [
        "lower(kind) LIKE 'B%' OR NOT (year IN (1930, 1931) AND `kind` IS NOT NULL)",
        "(year + 1) % 2 = 0 AND year BETWEEN -5 AND 2000",
        "starts_with(kind, 'repeat(') OR contains(kind, '--') OR kind = ''';'",
        "coalesce(round(year / 10), 0) > 1 AND \"kind\" <> 'ä'",
    ],
)
def test_conditions_on_columns_are_allowed(app, where):
    status, answer = posted(app, "/search", query="a", where=where)
    assert status == 200, answer


def test_why_a_hit_was_found_are_its_words_and_phrases(app, monkeypatch):
    monkeypatch.setattr(phrases, "SHARE", 0.0)  # words of a random model contribute little
    _, answer = posted(app, "/search", query="the cat sat on the mat", k=3)
    hit = answer["hits"][0]
    assert hit["text"] == "The cat sat on the mat."
    words = [hit["text"][start:end] for start, end, _ in hit["highlights"]]
    assert words
    assert set(words) <= {"The", "cat", "sat", "on", "the", "mat"}
    query = "the cat sat on the mat"
    pairs = [(query[slice(*each["query"])], hit["text"][slice(*each["text"])]) for each in hit["phrases"]]
    assert pairs
    assert all(a.strip().lower() == b.strip().lower() and " " in a.strip() for a, b in pairs)
    assert "highlights" not in posted(app, "/search", query=query, explain=False)[1]["hits"][0]


def test_an_answer_has_a_limit(model, searcher):
    status, answer = posted(application(model, searcher, answer=500), "/search", query="cat", k=20)
    assert (status, "the answer would have about" in answer["error"]) == (413, True)


def test_half_an_emoji_is_searched_for(app):
    assert posted(app, "/search", query="cat \ud83d")[0] == 200


def test_without_an_index_there_is_no_search(model, app):
    paths = {route.path for route in WITH_INDEX}
    plain = application(model, None)
    for path in paths:
        assert ask(plain, "POST", path, {"query": "a"})[0] == 404
    document = json.loads(ask(app, "GET", "/openapi.json")[2])
    assert paths <= set(document["paths"])
    assert not paths & set(json.loads(ask(plain, "GET", "/openapi.json")[2])["paths"])


def test_the_index_must_be_of_the_model(index_folder, trained_folder, model_folder, tmp_path):
    with pytest.raises(BanyanError, match="is a different one: vectors of two models cannot be compared"):
        Site(Settings(str(trained_folder), index=str(index_folder)))
    with pytest.raises(BanyanError, match="there is no index in"):
        Site(Settings(str(model_folder), index=str(tmp_path)))


def test_another_model_searches_the_same_rows(index_folder, model_folder, trained_folder, trained_model):
    settings = Settings(str(model_folder), index=str(index_folder), beside=str(trained_folder), names=("tiny",))
    app = App(Site(settings).service, log_requests=False)
    assert posted(app, "/explore/about")[1]["models"] == ["tiny", "model"]
    _, answer = posted(app, "/search", query="the cat sat", model="model", by="vectors", k=100)
    cosines = {hit["row"]: hit["cosine"] for hit in answer["hits"]}
    assert len(cosines) == 40
    for hit in answer["hits"][:3]:
        assert hit["cosine"] == pytest.approx(trained_model.similarity("the cat sat", hit["text"]), abs=1e-5)
    _, own = posted(app, "/search", query="the cat sat", by="vectors", k=100)
    assert cosines != {hit["row"]: hit["cosine"] for hit in own["hits"]}
    assert posted(app, "/search", query="the cat sat", model="none")[0] == 404
    with pytest.raises(BanyanError, match="needs an index to search"):
        Site(Settings(str(model_folder), beside=str(trained_folder)))


def test_workers_do_not_open_the_table_before_they_are_forked(index_folder, model_folder):
    searcher = Site(Settings(str(model_folder), index=str(index_folder), workers=2)).service.searcher
    assert searcher is not None
    assert "rows" not in vars(searcher.index)


# --- /explain --------------------------------------------------------------------------------------------------------


def test_explain_is_that_of_the_model(app, model):
    status, answer = posted(app, "/explain", a="the cat sat", b="the dog sat on the mat")
    expected = model.explain("the cat sat", "the dog sat on the mat")
    assert status == 200
    assert (answer["rows"], answer["columns"]) == (expected.rows, expected.columns)
    np.testing.assert_allclose(answer["matrix"], expected.matrix)
    assert sum(map(sum, answer["matrix"])) == pytest.approx(answer["similarity"]) == expected.similarity


def test_explain_finds_the_nearest_phrase_of_the_other_tree(app, model):
    _, answer = posted(app, "/explain", a="the cat sat", b="a dog and the cat sat", trees=True)
    a, b = answer["a"], answer["b"]
    assert len(a["nodes"]) == len(a["matches"]) == 2 * (len(answer["rows"]) - 1) - 1
    for node, (other, cosine) in zip(a["nodes"], a["matches"], strict=True):
        if node["text"] in {each["text"] for each in b["nodes"]}:
            assert (b["nodes"][other]["text"], cosine) == (node["text"], pytest.approx(1.0, abs=1e-4))


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"a": "cat"}, 422, "b must be a string"),
        ({"a": "cat", "b": ""}, 400, "b is empty"),
        ({"a": "cat", "b": "cat " * 2000}, 413, "the limit of /explain is 1,024"),
    ],
)
def test_what_cannot_be_explained_is_told_in_a_sentence(app, body, status, told):
    found, answer = posted(app, "/explain", **body)
    assert (found, told in answer["error"]) == (status, True), answer


def test_texts_of_white_space_are_explained(app):
    status, answer = posted(app, "/explain", a="  ", b="cat", trees=True)
    assert (status, answer["similarity"], answer["a"]["matches"]) == (200, 0.0, [])


# --- What only the explorer asks for ---------------------------------------------------------------------------------


def test_the_nearest_phrase_of_a_phrase_in_the_index_is_itself(app, model):
    text = "the cat sat on the mat"
    tree = model.parse(text)
    for node in range(len(tree)):
        status, answer = posted(app, "/explore/nearest", inputs=text, node=node, k=3)
        assert (status, answer["phrase"], len(answer["rows"])) == (200, tree.phrase(node), 3)
        if node < len(tree.pieces):  # words
            assert tree.phrase(node) in {found["phrase"].lower() for found in answer["phrases"]}
            assert answer["phrases"][0]["cosine"] == pytest.approx(1, abs=1e-5)
    assert posted(app, "/explore/nearest", inputs=text, node=99)[0] == 422


def test_a_graph_has_equal_phrases_once(app, model):
    texts = ["the cat sat", "a dog and the cat sat", "the cat sat"]
    _, answer = posted(app, "/explore/graph", inputs=texts)
    trees = [model.parse(text) for text in texts]
    assert sum(len(node["of"]) for node in answer["nodes"]) == sum(len({n.text for n in tree}) for tree in trees)
    assert answer["roots"][0] == answer["roots"][2] != answer["roots"][1]
    for node in answer["nodes"]:
        if node["children"]:
            words = "".join(answer["nodes"][child]["text"] for child in node["children"])
            assert words == node["text"].replace(" ", "") or " " in words
    assert posted(app, "/explore/graph", inputs=["cat " * 2100])[0] == 413


def test_the_page_is_told_what_there_is(app, model):
    _, answer = posted(app, "/explore/about")
    assert answer["index"] == {
        "rows": 40,
        "columns": {"year": "int64", "kind": "string", "source": "string", "row": "int64"},
        "examples": [f"The cat sat on the mat.{number}" for number in ("", " 10", " 20")],
    }
    assert posted(application(model, None), "/explore/about")[1]["index"] is None


def test_texts_to_begin_with_are_looked_for_once(app, monkeypatch):
    _, first = posted(app, "/explore/about")
    monkeypatch.setattr(app.service.searcher, "rank", None)
    monkeypatch.setattr(app.service.searcher.index.rows, "scan", None)
    assert posted(app, "/explore/about")[1] == first


def test_the_policy_of_the_page_allows_only_its_own_script(app):
    _, headers, body = ask(app, "GET", "/", key=None)
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert not re.search(rb"(src|href)\s*=\s*[\"']?(https?:)?//|@import|url\(|innerHTML|insertAdjacent|eval\(", body)


def laid_out(app: App) -> dict[str, Any]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        _, answer = posted(app, "/explore/map")
        if answer["ready"]:
            return answer
        time.sleep(0.05)
    raise AssertionError("the map was not laid out")


def test_points_of_the_map_have_texts_and_values_and_are_found(app, searcher):
    points = laid_out(app)
    assert len(points["x"]) == len(points["y"]) == len(points["cluster"]) == points["rows"] == 40
    _, values = posted(app, "/explore/values", column="year")
    assert sorted(values) == list(range(1900, 1940))
    _, places = posted(app, "/explore/find", query="green tree", by="words")
    _, texts = posted(app, "/explore/texts", points=places)
    expected = searcher.rank("green tree", 1000, mode="words")
    assert [text["place"] for text in texts] == [f"rows.jsonl:{hit.row}" for hit in expected]
    assert [values[place] for place in places] == [hit.columns["year"] for hit in expected]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("texts", {"points": []}),
        ("texts", {"points": [40]}),
        ("texts", {"points": [-1]}),
        ("texts", {"points": ["a"]}),
        ("texts", {"points": [0] * 201}),
        ("values", {"column": "vector"}),
        ("values", {}),
        ("find", {"query": 3}),
    ],
)
def test_what_is_not_on_the_map_is_refused(app, path, body):
    laid_out(app)
    assert posted(app, f"/explore/{path}", **body)[0] == 422


def test_a_map_that_cannot_be_laid_out_says_so(model, searcher, monkeypatch):
    monkeypatch.setattr(explore_map, "drawn_map", lambda *_, **__: 1 / 0)
    app = application(model, searcher)
    posted(app, "/explore/map")
    time.sleep(0.2)
    status, answer = posted(app, "/explore/map")
    assert (status, answer["error"]) == (422, "there is no map: division by zero")
