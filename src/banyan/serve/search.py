"""POST /search: the best rows of an index for a query, and why each was found. The route is there if the server has an
index."""

from __future__ import annotations

from typing import Any

import orjson

from banyan.encoder import Banyan
from banyan.search.highlight import highlights
from banyan.search.phrases import matching_phrases
from banyan.search.searching import MODES, Hit, Searcher
from banyan.serve import inputs
from banyan.serve.condition import LONGEST, condition
from banyan.serve.refusal import INVALID, NO_MODEL, Refused, choice, field, fields
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
from banyan.tokenizer.rules import without_surrogates
from banyan.tree import Tree

PAGE = 100  # hits per request, at most
DEEPEST = 1000  # the last hit that can be asked for
LONGEST_EXPLAINED = 10_000  # characters of a row; a longer one has no highlights


def search(service: Service, body: Any) -> Answer:
    """The hits number offset + 1 to offset + k."""
    assert service.searcher
    body = fields(body)
    mode, where = choice(body, "by", MODES), condition(body)
    k, offset = number(body, "k", 10, 1, PAGE), number(body, "offset", 0, 0, DEEPEST - 1)
    end = min(offset + k, DEEPEST)
    query, n = one_text(service, body.get("query"), "query")
    deep = PAGE if end < PAGE else DEEPEST  # not `end`: how deep a search looks can change the order
    model, searcher = _chosen(service, field(body, "model", str))
    found = searcher.rank(query, deep + 1, where=where, mode=mode)
    tree = model.parse(query) if field(body, "explain", bool, True) else None
    parts, size = [], 0
    for hit in found[offset:end]:
        parts.append(_written(model, hit, tree))
        size += len(parts[-1])
        inputs.check_answer(size, service.limits)
    more = b"true" if len(found) > end and end < DEEPEST else b"false"
    return Answer(b'{"hits":[%b],"more":%b}' % (b",".join(parts), more), 1, n)


def _chosen(service: Service, name: str | None) -> tuple[Banyan, Searcher]:
    """The model of this name, by default the server's own, and its searcher."""
    other = service.beside
    assert service.searcher
    if name is None or name in service.names:
        return service.model, service.searcher
    if other is None or name != other.name:
        known = ", ".join([*service.names, *([other.name] if other else [])])
        raise Refused(NO_MODEL, f"there is no model {name[:80]!r}; there is {known}", "model")
    return other.model, other.searcher


def one_text(service: Service, value: Any, name: str) -> tuple[str, int]:
    """A text that respects the limits, and the number of its tokens."""
    if not isinstance(value, str):
        raise Refused(INVALID, f"{name} must be a string", name)
    batch = inputs.within(inputs.ragged(value, name, service.model, service.limits), name, service.limits)
    return without_surrogates(value), len(batch.tokens)


def number(body: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = field(body, name, int, default)
    if not least <= value <= most:
        raise Refused(INVALID, f"{name} must be between {least} and {most}, not {value}", name)
    return value


def _written(model: Banyan, hit: Hit, query: Tree | None) -> bytes:
    values: dict[str, Any] = {"score": hit.score, "cosine": hit.cosine, "bm25": hit.words}
    values |= {"source": hit.source, "row": hit.row, "text": hit.text, "columns": hit.columns}
    if query is not None:
        values |= _why(model, hit, query)
    return orjson.dumps(values, default=str)


def _why(model: Banyan, hit: Hit, query: Tree) -> dict[str, Any]:
    """The words of a hit that make it similar to the query, and the phrases of both that mean nearly the same."""
    if len(hit.text) > LONGEST_EXPLAINED:
        return {"highlights": [], "phrases": []}
    explanation, tree = model.explain(query.text, hit.text), model.parse(hit.text)
    words, pairs = highlights(explanation, hit.text), matching_phrases(query, tree, explanation)
    return {
        "highlights": [[word.start, word.end, round(word.weight, 4)] for word in words],
        "phrases": [
            {"query": query.spans[a].tolist(), "text": tree.spans[b].tolist(), "cosine": round(cosine, 4)}
            for a, b, cosine in pairs
        ],
    }


QUERY: Schema = {**TEXT, "pattern": r"\S"}  # not only white space
SPAN: Schema = {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}


def describe_search(schemas: Schemas) -> Operation:
    body = {
        "query": QUERY,
        "k": optional({"type": "integer", "minimum": 1, "maximum": PAGE, "default": 10}),
        "offset": optional({"type": "integer", "minimum": 0, "maximum": DEEPEST - 1, "default": 0}),
        "by": one_of(MODES),
        "where": optional({"type": "string", "maxLength": LONGEST}),
        "explain": optional(BOOLEAN),
        "model": optional(schemas.searching),
    }
    phrase = record(query=SPAN, text=SPAN, cosine=NUMBER)
    hit = record(score=NUMBER, cosine=NUMBER, bm25=optional(NUMBER), source=STRING, row=COUNT, text=STRING)
    hit["properties"] |= {"columns": OBJECT, "highlights": array(array(NUMBER)), "phrases": array(phrase)}
    answer = record(hits=array(hit), more=BOOLEAN)
    return Operation(answer, Request(body, ["query"], {"query": "The cat sat on the mat.", "k": 3}))
