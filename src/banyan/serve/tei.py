"""The routes of Text Embeddings Inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from banyan._version import __version__
from banyan.serve import inputs
from banyan.serve.jobs import Job
from banyan.serve.refusal import INVALID, Refused, choice, field, fields
from banyan.serve.schema import (
    BOOLEAN,
    COUNT,
    NUMBER,
    OBJECT,
    STRING,
    TEXT,
    Operation,
    Request,
    Schema,
    Schemas,
    array,
    one_of,
    optional,
    record,
)
from banyan.serve.service import Answer, Service
from banyan.tokenizer.checks import one_sentence
from banyan.tokenizer.rules import without_surrogates

DIRECTIONS = ("Right", "Left", "right", "left")  # huggingface_hub writes them in lower case
TRUNCATION: Schema = {"truncate": optional(BOOLEAN), "truncation_direction": one_of(DIRECTIONS)}
_TOKEN_BYTES = 60  # of a token in the answer of /tokenize, at least
_RANK_BYTES = 45  # of a text in the answer of /rerank, without the text itself
_EXAMPLE = {"inputs": "The cat sat on the mat."}


def default(service: Service, body: Any) -> Answer | Job:
    """POST / and /invocations: embeddings, or similarities if inputs is an object. InferenceClient posts both here."""
    compared = isinstance(body, dict) and isinstance(body.get("inputs"), dict)
    return similarity(service, body) if compared else embed(service, body)


def describe_default(schemas: Schemas) -> Operation:
    both = describe_embed(schemas), describe_similarity(schemas)
    vectors, cosines = (described.request.fields for described in both if described.request)
    body = cosines | vectors | {"inputs": {"anyOf": [vectors["inputs"], cosines["inputs"]]}}
    answer: Schema = {"anyOf": [described.answer for described in both]}
    return Operation(answer, Request(body, ["inputs"], _EXAMPLE))


def embed(service: Service, body: Any) -> Job:
    """POST /embed"""
    body = fields(body)
    keep = inputs.dimensions(field(body, "dimensions", int), service.model)
    normalize = field(body, "normalize", bool, True)
    return Job(body.get("inputs"), "inputs", keep, normalize, truncation(body), lambda found, _: _written(found))


def describe_embed(schemas: Schemas) -> Operation:
    body = {"inputs": schemas.texts_or_tokens, "normalize": optional(BOOLEAN), "dimensions": schemas.dimensions}
    return Operation(array(array(NUMBER)), Request(body | TRUNCATION, ["inputs"], _EXAMPLE))


def _written(numbers: np.ndarray) -> bytes:
    return orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)


def similarity(service: Service, body: Any) -> Answer:
    """POST /similarity: the cosine similarity of one sentence to others."""
    body = fields(body)
    given = field(body, "inputs", dict, {})
    source, sentences = given.get("source_sentence"), given.get("sentences")
    if not isinstance(source, str) or not isinstance(sentences, list):
        message = "inputs must be an object with source_sentence (a string) and sentences (a list of strings)"
        raise Refused(INVALID, message, "inputs")
    truncate = truncation(field(body, "parameters", dict, {}))
    batch, cosines = _compared(service, {"source_sentence": source, "sentences": sentences}, truncate)
    return Answer(_written(cosines), len(batch), len(batch.tokens))


def _compared(service: Service, given: dict[str, Any], truncate: str | None) -> tuple[inputs.Ragged, np.ndarray]:
    """The tokens of a text and of others, given as two fields, and the cosine similarity of the text to each other."""
    limits, parts, name = service.limits, [], ""
    for name, value in given.items():
        texts = inputs.texts(value, name, limits)
        found = inputs.ragged(texts, name, service.model, limits, truncate)
        parts.append(inputs.within(found, name, limits, truncate))
    one, others = parts
    inputs.check_count(len(one) + len(others), name, limits)
    batch = inputs.within(one.followed_by(others), name, limits)
    vectors = inputs.vectors(service.model, batch, None, normalize=True)
    return batch, np.einsum("ij,j->i", vectors[1:], vectors[0])


def describe_similarity(schemas: Schemas) -> Operation:
    compared = record(source_sentence=TEXT, sentences=schemas.batch(TEXT, reserved=1))
    parameters = optional({"type": "object", "properties": TRUNCATION})
    example = {"inputs": {"source_sentence": _EXAMPLE["inputs"], "sentences": ["A cat sat.", "It rains."]}}
    return Operation(array(NUMBER), Request({"inputs": compared, "parameters": parameters}, ["inputs"], example))


def rerank(service: Service, body: Any) -> Answer:
    """POST /rerank: texts by their similarity to a query, the most similar first. The score is the cosine similarity,
    moved to the range from 0 to 1 unless the request asks for raw scores."""
    body = fields(body)
    query, texts = field(body, "query", str), field(body, "texts", list)
    raw, with_text = field(body, "raw_scores", bool, False), field(body, "return_text", bool, False)
    batch, cosines = _compared(service, {"query": query, "texts": texts}, truncation(body))
    inputs.check_answer(len(texts) * _RANK_BYTES, service.limits)
    scores = cosines if raw else np.clip((1 + cosines) / 2, 0, 1)
    ranks: list[dict[str, Any]] = [
        {"index": index, "score": scores[index].item()} for index in np.argsort(-cosines, kind="stable").tolist()
    ]
    for rank in ranks if with_text else []:
        rank["text"] = without_surrogates(texts[rank["index"]])
    return Answer(orjson.dumps(ranks), len(batch), len(batch.tokens))


def describe_rerank(schemas: Schemas) -> Operation:
    body = {"query": TEXT, "texts": schemas.batch(TEXT, reserved=1)}
    body |= {"raw_scores": optional(BOOLEAN), "return_text": optional(BOOLEAN)} | TRUNCATION
    rank = record(index=COUNT, score=NUMBER)
    rank["properties"]["text"] = STRING
    example = {"query": "Where did the cat sit?", "texts": ["It rains.", _EXAMPLE["inputs"]]}
    return Operation(array(rank), Request(body, ["query", "texts"], example))


def truncation(body: dict[str, Any]) -> str | None:
    direction = choice(body, "truncation_direction", DIRECTIONS)
    return direction.capitalize() if field(body, "truncate", bool, False) else None


def tokenize(service: Service, body: Any) -> Answer:
    """POST /tokenize: the tokens of each text, and the characters that they cover."""
    body = fields(body)
    field(body, "add_special_tokens", bool)  # checked and ignored: there are no special tokens
    texts = inputs.texts(body.get("inputs"), "inputs", service.limits)
    batch = inputs.ragged(texts, "inputs", service.model, service.limits)
    inputs.within(batch, "inputs", service.limits)
    inputs.check_answer(len(batch.tokens) * _TOKEN_BYTES, service.limits)
    found = [_tokens(service, without_surrogates(text)) for text in texts]
    return Answer(orjson.dumps(found), len(texts), sum(map(len, found)))


def describe_tokenize(schemas: Schemas) -> Operation:
    token = record(id=COUNT, text=STRING, special=BOOLEAN, start=COUNT, stop=COUNT)
    body = {"inputs": schemas.texts, "add_special_tokens": optional(BOOLEAN)}
    return Operation(array(array(token)), Request(body, ["inputs"], _EXAMPLE))


def _tokens(service: Service, text: str) -> list[dict[str, Any]]:
    tokens, spans = service.model.tokenizer.encode_with_offsets(text)
    return [
        {"id": id, "text": text[start:stop], "special": False, "start": start, "stop": stop}
        for id, (start, stop) in zip(tokens.tolist(), spans, strict=True)
    ]


def decode(service: Service, body: Any) -> Answer:
    """POST /decode: the normalized text of tokens."""
    body = fields(body)
    field(body, "skip_special_tokens", bool)
    batch = inputs.tokens(body.get("ids"), "ids", service.model, service.limits)
    inputs.within(batch, "ids", service.limits)
    inputs.check_answer(int(service.piece_bytes[batch.tokens].sum()), service.limits)
    lists = [part.tolist() for part in np.split(batch.tokens, batch.offsets[1:-1])]
    with one_sentence("the tokenizer cannot decode these tokens"):
        texts = service.decoder.decode_batch(lists)
    return Answer(orjson.dumps(texts), len(batch), len(batch.tokens))


def describe_decode(schemas: Schemas) -> Operation:
    body = {"ids": schemas.tokens, "skip_special_tokens": optional(BOOLEAN)}
    return Operation(array(STRING), Request(body, ["ids"], {"ids": [300, 301]}))


def info(service: Service) -> Answer:
    """GET /info"""
    limits = service.limits
    kinds: dict[str, Any] = {"embedding": {"pooling": "tree"}}
    if service.classifier:
        labels = {str(number): label for number, label in enumerate(service.classifier.classes)}
        kinds["classifier"] = {"id2label": labels, "label2id": {label: number for number, label in labels.items()}}
    about = {
        "model_id": service.names[0],
        "model_sha": service.fingerprint,
        "model_dtype": "float32",
        "model_type": kinds,
        "dimensions": service.model.dim,
        "vocabulary": len(service.model.embedding),
        "max_concurrent_requests": limits.concurrent,
        "max_input_length": limits.input_tokens,
        "max_batch_tokens": limits.batch_tokens,
        "max_client_batch_size": limits.batch,
        "max_body_bytes": limits.body,
        "auto_truncate": False,
        "version": __version__,
    }
    return Answer(orjson.dumps(about))


def describe_info(_: Schemas) -> Operation:
    return Operation(OBJECT)
