"""POST /explain: the cosine of two texts, split into what each pair of tokens contributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from banyan.serve import inputs
from banyan.serve.refusal import TOO_LONG, Refused, field, fields
from banyan.serve.schema import (
    BOOLEAN,
    NUMBER,
    OBJECT,
    STRING,
    TEXT,
    Operation,
    Request,
    Schemas,
    array,
    optional,
    record,
)
from banyan.serve.search import one_text
from banyan.serve.service import Answer, Service
from banyan.support.rows import unit_rows
from banyan.tree import Tree

MOST_TOKENS = 1024  # per text: the work grows with their product
_NUMBER_BYTES = 24  # of a float64 in JSON, at most, with its comma


def explain(service: Service, body: Any) -> Answer:
    """What Banyan.explain returns; if `trees` is true, also both trees, and for each of their phrases the most similar
    phrase of the other text."""
    body = fields(body)
    (a, n), (b, m) = (one_text(service, body.get(name), name) for name in ("a", "b"))
    for name, tokens in (("a", n), ("b", m)):
        if tokens > MOST_TOKENS:
            raise Refused(TOO_LONG, f"{name} has {tokens:,} tokens; the limit of /explain is {MOST_TOKENS:,}", name)
    inputs.check_answer((n + 1) * (m + 1) * _NUMBER_BYTES, service.limits)
    found = service.model.explain(a, b)
    values: dict[str, Any] = {"similarity": found.similarity, "rows": found.rows, "columns": found.columns}
    values["matrix"] = found.matrix
    if field(body, "trees", bool, False):
        values |= _trees(service.model.parse(a), service.model.parse(b))
    return Answer(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY), 2, n + m)


def _trees(a: Tree, b: Tree) -> dict[str, Any]:
    cosines = unit_rows(a.embeddings) @ unit_rows(b.embeddings).T
    best = [(a, cosines), (b, cosines.T)]
    return {name: _tree(*found) for name, found in zip("ab", best, strict=True)}


def _tree(tree: Tree, cosines: np.ndarray) -> dict[str, Any]:
    """A tree, and for each node its most similar node of the other tree and their cosine."""
    values = orjson.loads(tree.to_json())
    nearest = cosines.argmax(1).tolist() if cosines.size else []
    values["matches"] = [[other, round(float(row[other]), 4)] for row, other in zip(cosines, nearest, strict=False)]
    return values


def describe_explain(_: Schemas) -> Operation:
    body = {"a": TEXT, "b": TEXT, "trees": optional(BOOLEAN)}
    answer = record(similarity=NUMBER, rows=array(STRING), columns=array(STRING), matrix=array(array(NUMBER)))
    answer["properties"] |= {"a": OBJECT, "b": OBJECT}
    example = {"a": "The cat sat on the mat.", "b": "A cat was sitting there."}
    return Operation(answer, Request(body, ["a", "b"], example))
