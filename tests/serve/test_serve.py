"""`banyan serve` as its clients see it: the real ones, over a real socket."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import hypothesis
import numpy as np
import openai
import pytest
import schemathesis
from langchain_openai import OpenAIEmbeddings
from prometheus_client.parser import text_string_to_metric_families

from banyan.commands import main
from banyan.commands._parser import parse
from banyan.commands.serve import LIMITS
from banyan.serve.limits import Limits
from banyan.support.needs import pip_install
from tests.helpers.places import ROOT
from tests.helpers.served import Served, served

TEXTS = ["the cat sat on the mat", "a dog slept", "Ünïcödé 🌳 tree", "the cat sat on the mat"]


@pytest.fixture(scope="module")
def server(model_folder: Path) -> Iterator[Served]:
    limits = ["--max-batch", 50, "--max-input-tokens", 64, "--max-batch-tokens", 500, "--max-body-bytes", 20_000]
    with served(model_folder, "--name", "tiny", "--name", "text-embedding-3-small", *limits) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with httpx.Client(base_url=server.address, timeout=20) as made:
        yield made


# --- OpenAI ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openai_client(server: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_the_openai_client_gets_the_models_own_bits(openai_client, model):
    answer = openai_client.embeddings.create(input=TEXTS, model="tiny")  # base64, which is the client's choice
    vectors = np.array([item.embedding for item in answer.data], np.float32)
    np.testing.assert_array_equal(vectors, model.encode(TEXTS, normalize=True))
    assert [item.index for item in answer.data] == [0, 1, 2, 3]
    assert answer.model == "tiny"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == len(model.tokenizer.encode(TEXTS)[0])
    assert answer._request_id.startswith("req-")


def test_floats_and_base64_are_the_same_numbers(openai_client, model):
    answer = openai_client.embeddings.create(input="a dog slept", model="tiny", encoding_format="float")
    np.testing.assert_array_equal(
        np.array(answer.data[0].embedding, np.float32), model.encode("a dog slept", normalize=True)
    )


def test_fewer_dimensions_have_length_one_again(openai_client, model):
    answer = openai_client.embeddings.create(input=TEXTS, model="tiny", dimensions=5)
    vectors = np.array([item.embedding for item in answer.data], np.float32)
    np.testing.assert_array_equal(vectors, model.encode(TEXTS, normalize=True, truncate_dim=5))


@pytest.mark.parametrize("many", [True, False])
def test_token_arrays_are_the_models_own_tokens(openai_client, model, many):
    tokens, offsets = model.tokenizer.encode(TEXTS)
    lists = [part.tolist() for part in np.split(tokens, offsets[1:-1])]
    answer = openai_client.embeddings.create(input=lists if many else lists[0], model="tiny")
    texts = TEXTS if many else TEXTS[:1]
    vectors = np.array([item.embedding for item in answer.data], np.float32)
    np.testing.assert_array_equal(vectors, model.encode(texts, normalize=True))


def test_the_openai_client_lists_models(openai_client):
    assert [model.id for model in openai_client.models.list()] == ["tiny", "text-embedding-3-small"]
    assert openai_client.embeddings.create(input="a", model="text-embedding-3-small").model == "text-embedding-3-small"


@pytest.mark.parametrize(
    ("request_", "param", "told"),
    [
        ({"input": ""}, "input", "empty"),
        ({"input": []}, "input", "empty"),
        ({"input": ["a", ""]}, "input", "input[1] is empty"),
        ({"input": [[]]}, "input", "empty"),
        ({"input": [1, "a"]}, "input", "integers"),
        ({"input": ["a", 1]}, "input", "list of strings"),
        ({"input": [10**9]}, "input", "does not know"),
        ({"input": [-1]}, "input", "does not know"),
        ({"input": ["a"] * 51}, "input", "51 texts; the limit per request is 50"),
        ({"input": ["a", "cat dog " * 40]}, "input", "input[1] has 80 tokens; the limit is 64"),
        ({"input": ["cat " * 60] * 10}, "input", "600 tokens in total; the limit per request is 500"),
        ({"input": "a", "dimensions": 17}, "dimensions", "between 1 and 16"),
        ({"input": "a", "dimensions": 0}, "dimensions", "between 1 and 16"),
    ],
)
def test_openai_errors_say_which_parameter_is_wrong(openai_client, request_, param, told):
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.embeddings.create(model="tiny", **request_)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param == param
    assert told in caught.value.message


def test_another_model_is_not_found(openai_client):
    with pytest.raises(openai.NotFoundError, match="tiny, text-embedding-3-small") as caught:
        openai_client.embeddings.create(input="a", model="gpt")
    assert caught.value.code == "model_not_found"


def test_langchain_embeds_documents_and_queries(server, model):
    embeddings = OpenAIEmbeddings(
        base_url=f"{server.address}/v1", api_key="none", model="tiny", check_embedding_ctx_length=False
    )
    expected = model.encode(TEXTS, normalize=True)
    np.testing.assert_array_equal(np.array(embeddings.embed_documents(TEXTS), np.float32), expected)
    np.testing.assert_array_equal(np.array(embeddings.embed_query(TEXTS[1]), np.float32), expected[1])


def test_fields_that_are_null_or_unknown_do_no_harm(client):
    body = {"input": "a", "model": None, "dimensions": None, "encoding_format": None, "user": "me", "other": 1}
    assert client.post("/v1/embeddings", json=body).status_code == 200


# --- Text Embeddings Inference ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
def test_embed_gives_a_list_of_vectors(client, model, normalize):
    answer = client.post("/embed", json={"inputs": TEXTS, "normalize": normalize, "dimensions": 8})
    expected = model.encode(TEXTS, normalize=normalize, truncate_dim=8)
    np.testing.assert_array_equal(np.array(answer.json(), np.float32), expected)
    one = client.post("/embed", json={"inputs": TEXTS[0]}).json()
    np.testing.assert_array_equal(np.array(one, np.float32), model.encode(TEXTS[:1], normalize=True))


@pytest.mark.parametrize(("direction", "kept"), [("Right", slice(0, 64)), ("Left", slice(-64, None))])
def test_a_long_text_is_cut_only_if_asked(client, model, direction, kept):
    texts = ["the cat sat on the mat", " ".join(["cat dog tree"] * 40), "a dog"]
    refused = client.post("/embed", json={"inputs": texts})
    assert refused.status_code == 413
    assert refused.json()["error_type"] == "Validation"
    answer = client.post("/embed", json={"inputs": texts, "truncate": True, "truncation_direction": direction})
    tokens = model.tokenizer.encode([texts[1]])[0][kept]
    expected = model.encode_tokens(tokens, np.array([0, 64]), normalize=True)[0]
    found = np.array(answer.json(), np.float32)
    np.testing.assert_array_equal(found[1], expected)
    np.testing.assert_array_equal(found[[0, 2]], model.encode([texts[0], texts[2]], normalize=True))


def test_similarity_gives_cosines(client, model):
    body = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS}}
    found = client.post("/similarity", json=body).json()
    np.testing.assert_allclose(found, model.similarity(TEXTS[:1], TEXTS)[0], atol=1e-6)


def test_rerank_puts_the_most_similar_text_first(client, model):
    cosines = model.similarity(TEXTS[1:2], TEXTS)[0]
    found = client.post("/rerank", json={"query": TEXTS[1], "texts": TEXTS, "raw_scores": True}).json()
    assert [row["index"] for row in found] == np.argsort(-cosines, kind="stable").tolist()
    np.testing.assert_allclose([row["score"] for row in found], np.sort(cosines)[::-1], atol=1e-6)
    named = client.post("/rerank", json={"query": TEXTS[1], "texts": TEXTS, "return_text": True}).json()
    assert [row["text"] for row in named] == [TEXTS[row["index"]] for row in found]
    np.testing.assert_allclose([row["score"] for row in named], (1 + np.sort(cosines)[::-1]) / 2, atol=1e-6)
    assert all(set(row) == {"index", "score"} for row in found)


@pytest.mark.parametrize("path", ["", "/", "/invocations", "/embed"])
def test_the_inference_client_of_the_hub_gets_vectors(server, model, path):
    with huggingface_hub.InferenceClient(server.address + path, token="none") as client:
        found = client.feature_extraction(TEXTS[0], normalize=False)
        np.testing.assert_array_equal(found, model.encode(TEXTS[:1]))
        np.testing.assert_array_equal(client.feature_extraction(TEXTS), model.encode(TEXTS, normalize=True))
        long = " ".join(["cat dog tree"] * 40)
        cut = client.feature_extraction(long, truncate=True, truncation_direction="left", dimensions=5)
        tokens = model.tokenizer.encode([long])[0][-64:]
        expected = model.encode_tokens(tokens, np.array([0, 64]))[:, :5]
        np.testing.assert_allclose(cut, expected / np.linalg.norm(expected), rtol=1e-5)


@pytest.mark.parametrize("path", ["", "/", "/invocations", "/similarity"])
def test_the_inference_client_compares_sentences(server, model, path):
    with huggingface_hub.InferenceClient(server.address + path, token="none") as client:
        found = client.sentence_similarity(TEXTS[0], other_sentences=TEXTS)
    np.testing.assert_allclose(found, model.similarity(TEXTS[:1], TEXTS)[0], atol=1e-6)


def test_tokens_come_with_their_characters_and_decode_again(client, model):
    texts = ["The cat sat", "½ 🌳"]
    found = client.post("/tokenize", json={"inputs": texts}).json()
    assert [token["text"] for token in found[0]] == ["The", "cat", "sat"]
    for text, tokens in zip(texts, found, strict=True):
        assert [token["id"] for token in tokens] == model.tokenizer.encode([text])[0].tolist()
        assert all(text[token["start"] : token["stop"]] == token["text"] for token in tokens)
    ids = [[token["id"] for token in tokens] for tokens in found]
    assert client.post("/decode", json={"ids": ids}).json()[0] == "the cat sat"
    assert client.post("/decode", json={"ids": ids[0]}).json() == ["the cat sat"]


@pytest.mark.parametrize(
    ("route", "body", "status", "kind"),
    [
        ("/embed", {"inputs": []}, 400, "Empty"),
        ("/embed", {"inputs": ""}, 400, "Empty"),
        ("/embed", {}, 422, "Validation"),
        ("/embed", [], 422, "Validation"),
        ("/embed", {"inputs": "a", "normalize": 1}, 422, "Validation"),
        ("/embed", {"inputs": "a", "dimensions": True}, 422, "Validation"),
        ("/embed", {"inputs": "a", "truncation_direction": "Up"}, 422, "Validation"),
        ("/embed", {"inputs": ["a"] * 51}, 413, "Validation"),
        ("/similarity", {"inputs": {"source_sentence": "a"}}, 422, "Validation"),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": []}}, 400, "Empty"),
        ("/similarity", {"inputs": {"source_sentence": "", "sentences": ["a"]}}, 400, "Empty"),
        ("/rerank", {"texts": ["a"]}, 422, "Validation"),
        ("/rerank", {"query": "a"}, 422, "Validation"),
        ("/rerank", {"query": ["a"], "texts": ["a"]}, 422, "Validation"),
        ("/rerank", {"query": "a", "texts": "a"}, 422, "Validation"),
        ("/rerank", {"query": "a", "texts": [[1]]}, 422, "Validation"),
        ("/rerank", {"query": "", "texts": ["a"]}, 400, "Empty"),
        ("/rerank", {"query": "a", "texts": []}, 400, "Empty"),
        ("/rerank", {"query": "a", "texts": ["a"] * 50}, 413, "Validation"),
        ("/rerank", {"query": "cat dog " * 40, "texts": ["a"]}, 413, "Validation"),
        ("/rerank", {"query": "a", "texts": ["cat " * 60] * 10}, 413, "Validation"),
        ("/", {"inputs": []}, 400, "Empty"),
        ("/", {"inputs": ["a"] * 51}, 413, "Validation"),
        ("/invocations", {"inputs": "cat dog " * 40}, 413, "Validation"),
        ("/tree", {"inputs": ["a"] * 51}, 413, "Validation"),
        ("/tokenize", {"inputs": [[1]]}, 422, "Validation"),
        ("/decode", {"ids": ["a"]}, 422, "Validation"),
        ("/decode", {"ids": "a"}, 422, "Validation"),
        ("/parse", {"inputs": "a", "format": "png"}, 422, "Validation"),
    ],
)
def test_errors_of_the_other_routes_have_a_type(client, route, body, status, kind):
    answer = client.post(route, json=body)
    assert (answer.status_code, answer.json()["error_type"]) == (status, kind)


def test_an_error_names_the_text_that_is_too_long(client):
    long = "cat dog " * 40
    answer = client.post("/rerank", json={"query": "a", "texts": ["a", long]})
    assert answer.json()["error"] == "texts[1] has 80 tokens; the limit is 64"
    answer = client.post("/similarity", json={"inputs": {"source_sentence": long, "sentences": ["a"]}})
    assert answer.json()["error"] == "source_sentence[0] has 80 tokens; the limit is 64"


def test_info_and_health(client):
    about = client.get("/info").json()
    assert (about["model_id"], about["max_client_batch_size"], about["max_input_length"]) == ("tiny", 50, 64)
    assert client.get("/health").status_code == 200
    assert client.head("/health").status_code == client.get("/ping").status_code == 200


# --- Trees -----------------------------------------------------------------------------------------------------------


def test_parse_gives_the_trees_of_the_model(client, model):
    found = client.post("/parse", json={"inputs": TEXTS}).json()
    assert found == [json.loads(model.parse(text).to_json()) for text in TEXTS]
    assert "embedding" in client.post("/parse", json={"inputs": "a cat", "embeddings": True}).json()[0]["nodes"][0]
    brackets = client.post("/parse", json={"inputs": TEXTS[0], "format": "brackets"}).json()
    assert brackets == [model.parse(TEXTS[0]).to_brackets()]
    assert client.post("/parse", json={"inputs": TEXTS[0], "format": "svg"}).json()[0].startswith("<svg")
    assert client.post("/tree", json={"inputs": TEXTS}).json() == found


# --- What may go wrong on the way ------------------------------------------------------------------------------------


def test_what_is_not_json_is_said_to_be_so(client):
    for body in (b"{", b"\xff", b'{"inputs": NaN}', b"[" * 5000):
        answer = client.post("/embed", content=body)
        assert answer.status_code == 400
        assert "not JSON" in answer.json()["error"]
    assert "not JSON" in client.post("/v1/embeddings", content=b"{").json()["error"]["message"]
    assert "inputs is missing" in client.post("/embed").json()["error"]


def test_half_an_emoji_counts_as_an_unknown_character(client, model):
    answer = client.post("/embed", content=rb'{"inputs": "tree \ud83c"}')
    np.testing.assert_array_equal(np.array(answer.json(), np.float32), model.encode(["tree \ufffd"], normalize=True))
    assert client.post("/tokenize", content=rb'{"inputs": "tree \ud83c"}').status_code == 200
    assert client.post("/parse", content=rb'{"inputs": "tree \ud83c"}').status_code == 200
    ranked = client.post("/rerank", content=rb'{"query": "tree", "texts": ["\ud83c"], "return_text": true}')
    assert ranked.json()[0]["text"] == "\ufffd"


def test_a_body_over_the_limit_is_refused_declared_or_not(client):
    large = json.dumps({"inputs": "a" * 20_000}).encode()
    assert client.post("/embed", content=large).status_code == 413
    chunked = client.post("/embed", content=(large[i : i + 1000] for i in range(0, len(large), 1000)))
    assert chunked.status_code == 413
    assert client.get("/health").status_code == 200


def test_a_body_may_come_in_pieces(client, model):
    body = json.dumps({"inputs": TEXTS}).encode()
    answer = client.post("/embed", content=(body[i : i + 7] for i in range(0, len(body), 7)))
    np.testing.assert_array_equal(np.array(answer.json(), np.float32), model.encode(TEXTS, normalize=True))


def test_wrong_places_and_methods(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    refused = client.get("/embed")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert client.post("/health").headers["allow"] == "GET, HEAD"


def test_a_client_that_hangs_up_does_no_harm(server, client):
    host, port = server.address.removeprefix("http://").split(":")
    head = b"POST /embed HTTP/1.1\r\n"
    for sent in (b"", head, head + b"Content-Length: 100\r\n\r\nabc", b"junk\r\n\r\n"):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent)
    assert client.get("/health").status_code == 200


# --- Descriptions, figures, logs -------------------------------------------------------------------------------------


def test_the_interface_describes_itself(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path, operations in document["paths"].items():
        assert path in page.text
        example = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if example:
            assert client.post(path, json=example["example"]).status_code == 200, path
    for elsewhere in ("http://", "https://", "//cdn"):
        assert elsewhere not in page.text


def test_every_request_fits_the_description(model_folder, index_folder):
    """What is allowed by it is served, what is not is refused, and every answer is as described."""
    with served(model_folder, "--index", index_folder, "--quiet") as server:
        check_description(server)
        assert server.stop() == 0
        assert not server.events("a request failed")


def check_description(server: Served) -> None:
    schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    quick = hypothesis.settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    seen = set()
    for result in schema.get_all_operations():
        operation = result.ok()

        @quick
        @hypothesis.given(case=operation.as_strategy())
        def holds(case):
            if isinstance(case.body, dict):
                case.body.pop("where", None)  # SQL, which a schema cannot describe
            if case.operation.path.startswith("/explore/"):  # nodes of a text, points of a map: not in a schema
                assert case.call(timeout=20).status_code in (200, 413, 422, 400)
            else:
                case.call_and_validate(timeout=20)

        holds()
        seen.add(operation.path)
    ours = {"/parse", "/explain", "/search", "/health"}
    assert {"/v1/embeddings", "/embed", "/similarity", "/tokenize", "/decode"} | ours <= seen


def test_prometheus_can_read_the_figures(client):
    def figures() -> dict[tuple, float]:
        families = text_string_to_metric_families(client.get("/metrics").text)
        return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}

    before = figures()
    client.post("/embed", json={"inputs": ["a cat", "a dog"]})
    client.post("/embed", json={"inputs": []})
    after = figures()

    def grown(*name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown("banyan_requests_total", "/embed", "200") == 1
    assert grown("banyan_requests_total", "/embed", "400") == 1
    assert grown("banyan_texts_total") == 2
    assert grown("banyan_tokens_total") == 4
    assert grown("banyan_request_duration_seconds_count", "/embed") == 2
    assert grown("banyan_request_duration_seconds_bucket", "/embed", "+Inf") == 2
    assert after["process_resident_memory_bytes",] > 0


def test_each_request_is_a_line_of_json_without_its_text(model_folder):
    with served(model_folder) as server:
        answer = httpx.post(f"{server.address}/embed", json={"inputs": "the secret cat"})
        httpx.get(f"{server.address}/nothing")
        assert server.stop() == 0
        first, second = server.events("request")
        assert (first["path"], first["status"], first["texts"], first["tokens"]) == ("/embed", 200, 1, 8)
        assert first["request_id"] == answer.headers["x-request-id"]
        assert second["status"] == 404
        assert "secret" not in json.dumps(server.log)


# --- Who may ask -----------------------------------------------------------------------------------------------------


def test_with_a_key_only_those_who_have_it_are_served(model_folder):
    with served(model_folder, "--quiet", BANYAN_API_KEY="open sesame") as server:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "open sesame"}):
            refused = httpx.post(f"{server.address}/v1/embeddings", json={"input": "a"}, headers=headers)
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "invalid_api_key"
            assert refused.headers["www-authenticate"] == "Bearer"
            assert httpx.get(f"{server.address}/metrics", headers=headers).status_code == 401
        key = {"authorization": "Bearer open sesame"}
        assert httpx.post(f"{server.address}/v1/embeddings", json={"input": "a"}, headers=key).status_code == 200
        for path in ("/health", "/docs", "/openapi.json"):
            assert httpx.get(server.address + path).status_code == 200
        assert server.stop() == 0
        assert not server.events("request")  # quiet
        assert "sesame" not in json.dumps(server.log)


def test_pages_of_the_given_origins_may_ask_and_no_others(model_folder):
    with served(model_folder, "--quiet", "--cors", "https://example.org", BANYAN_API_KEY="sesame") as server:
        origin = {"origin": "https://example.org"}
        asking = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        allowed = httpx.options(f"{server.address}/embed", headers={**origin, **asking})  # without the key
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://example.org"
        assert allowed.headers["access-control-allow-methods"] == "POST"
        assert "authorization" in allowed.headers["access-control-allow-headers"]
        key = {"authorization": "Bearer sesame"}
        answer = httpx.post(f"{server.address}/embed", json={"inputs": "a"}, headers={**origin, **key})
        assert (answer.status_code, answer.headers["vary"]) == (200, "origin")
        refused = httpx.post(f"{server.address}/embed", json={"inputs": "a"}, headers=origin)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://example.org")
        other = httpx.options(f"{server.address}/embed", headers={"origin": "https://example.com", **asking})
        assert "access-control-allow-origin" not in other.headers
        assert server.stop() == 0


def test_only_this_machine_is_served_unless_told_otherwise(model_folder, server):
    assert server.address.startswith("http://127.0.0.1:")
    assert not server.events("no API key is set: anyone who can reach this address can use the model")
    with served(model_folder, "--host", "0.0.0.0") as public:
        assert public.address.startswith("http://0.0.0.0:")
        assert next(line["level"] for line in public.log) == "warning"


# --- Errors before it serves -----------------------------------------------------------------------------------------


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["serve", *map(str, arguments)]) == 1
    return capsys.readouterr().err


def test_what_cannot_be_served_is_told_in_a_sentence(capsys, model_folder, tmp_path):
    assert "there is no model folder" in failure(capsys, tmp_path / "none", "--port", 0)
    assert "the port must be between" in failure(capsys, model_folder, "--port", 99999)
    assert "workers must be at least 1" in failure(capsys, model_folder, "--workers", 0)
    assert "'example.org' is no origin" in failure(capsys, model_folder, "--cors", "example.org")
    assert "batch must be above 0" in failure(capsys, model_folder, "--max-batch", 0)
    (tmp_path / "key").write_text("\n")
    assert "is empty: write the API key" in failure(capsys, model_folder, "--api-key-file", tmp_path / "key")
    assert "No such file" in failure(capsys, model_folder, "--api-key-file", tmp_path / "nokey")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_that_is_taken_is_an_error(capsys, model_folder, server, workers):
    port = server.address.rpartition(":")[2]
    assert "cannot listen on 127.0.0.1 port" in failure(capsys, model_folder, "--port", port, "--workers", workers)


def test_a_missing_package_is_named(capsys, model_folder, monkeypatch):
    monkeypatch.delattr("banyan.serve.server", raising=False)
    monkeypatch.delitem(sys.modules, "banyan.serve.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert pip_install("serve") in failure(capsys, model_folder)


def test_base64_is_little_endian_float32(client, model):
    answer = client.post("/v1/embeddings", json={"input": "a cat", "encoding_format": "base64"}).json()
    decoded = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), "<f4")
    np.testing.assert_array_equal(decoded, model.encode("a cat", normalize=True))


def test_the_defaults_of_the_command_are_those_of_the_limits():
    options = parse(["serve", "model"])
    assert Limits(**{limit: getattr(options, limit) for _, limit, _ in LIMITS}) == Limits()


def test_ctrl_c_ends_it_in_good_order(model_folder):
    with served(model_folder) as server:
        assert server.stop(signal.SIGINT) == 0
        assert [line["event"] for line in server.log] == ["serving", "stopping", "stopped"]


# --- The page about it -----------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def test_the_limits_of_the_page_are_those_of_the_command():
    told = dict(re.findall(r"\| `(--max-[a-z-]+)` \| ([\d,]+)", PAGE))
    assert {option: int(value.replace(",", "")) for option, value in told.items()} == {
        option: getattr(Limits, limit) for option, limit, _ in LIMITS
    }
