"""The explorer: GET /, and the routes that only its page uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from banyan import explorer
from banyan.search.index import Index
from banyan.search.phrases import whole_phrases
from banyan.serve import inputs
from banyan.serve.refusal import INVALID, TOO_LONG, Refused, field, fields
from banyan.serve.schema import (
    COUNT,
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
from banyan.serve.search import number, one_text
from banyan.serve.service import Answer, Service
from banyan.support.rows import unit_rows
from banyan.tree import Tree

CANDIDATES = 50  # rows whose phrases are compared with one
LONGEST_ROW = 2000  # characters of a row whose phrases are compared
GRAPH_TOKENS = 2000  # of all texts of a graph
EXAMPLE = range(20, 121)  # characters of a row that the page begins with
EXAMPLES, LOOKED_AT = 3, 50


def page(service: Service) -> Answer:
    """GET /"""
    body, policy = explorer.page()
    headers = ((b"content-security-policy", policy.encode()), (b"referrer-policy", b"no-referrer"))
    return Answer(body, content_type=b"text/html; charset=utf-8", headers=headers)


def describe_page(_: Schemas) -> Operation:
    return Operation(STRING, media_type="text/html")


def about(service: Service, body: Any) -> Answer:
    """POST /explore/about: what the page can show."""
    index = service.searcher and service.searcher.index
    found = {
        "models": [service.names[0], *([service.beside.name] if service.beside else [])],
        "dimensions": service.model.dim,
        "index": index and {**_columns(index), "examples": _examples(service)},
    }
    return Answer(orjson.dumps(found))


def _columns(index: Index) -> dict[str, Any]:
    kinds = {name: str(kind) for name, kind in index.rows.columns.items()}
    return {"rows": len(index.rows), "columns": {**kinds, "source": "string", "row": "int64"}}


def _examples(service: Service) -> list[str]:
    """Texts for the page to begin with in the user's own language, looked for once."""
    if service.examples is None:
        service.examples = _found_examples(service)
    return service.examples


def _found_examples(service: Service) -> list[str]:
    """A short row of the collection and those most like it."""
    assert service.searcher
    texts = service.searcher.index.rows.scan(["text"], most=LOOKED_AT).column("text").to_pylist()
    first = next((text for text in texts if len(text) in EXAMPLE and any(map(str.isalpha, text))), None)
    if first is None:
        return []
    near = [hit.text for hit in service.searcher.rank(first, LOOKED_AT, mode="vectors") if len(hit.text) in EXAMPLE]
    return list(dict.fromkeys([first, *near]))[:EXAMPLES]


def describe_about(_: Schemas) -> Operation:
    index = record(rows=COUNT, columns=OBJECT, examples=array(STRING))
    answer = record(models=array(STRING), dimensions=COUNT, index=optional(index))
    return Operation(answer, Request({}, [], {}))


def nearest(service: Service, body: Any) -> Answer:
    """POST /explore/nearest: the phrases and the rows of the collection that are nearest to a phrase of a text."""
    assert service.searcher
    body = fields(body)
    text, n = one_text(service, body.get("inputs"), "inputs")
    tree = service.model.parse(text)
    node = field(body, "node", int, len(tree) - 1)
    if not 0 <= node < len(tree):
        raise Refused(INVALID, f"node must be between 0 and {len(tree) - 1}, not {node}", "node")
    k, vector = number(body, "k", 10, 1, 20), tree.embeddings[node]
    phrase = tree.phrase(node) or tree.leaves[node]
    rows = service.searcher.rank(phrase, k, mode="vectors", vector=vector)
    some = service.searcher.rank(phrase, CANDIDATES, vector=vector)
    values = {
        "phrase": phrase,
        "phrases": _phrases(service, vector, [hit.text for hit in some if len(hit.text) <= LONGEST_ROW], k),
        "rows": [{"cosine": hit.cosine, "text": hit.text, "source": hit.source, "row": hit.row} for hit in rows],
    }
    inputs.check_answer(sum(len(hit.text) for hit in rows), service.limits)
    return Answer(orjson.dumps(values), 1, n)


def _phrases(service: Service, vector: np.ndarray, texts: list[str], k: int) -> list[dict[str, Any]]:
    """The phrases of some texts with the highest cosine, each once."""
    best: dict[str, dict[str, Any]] = {}
    unit = unit_rows(vector[None])[0]
    for text in dict.fromkeys(texts):
        tree = service.model.parse(text)
        nodes = whole_phrases(tree)
        cosines = unit_rows(tree.embeddings[nodes]) @ unit if nodes else []
        for node, cosine in zip(nodes, cosines, strict=True):
            said = tree.phrase(node)
            if cosine > best.get(said.lower(), {"cosine": -2.0})["cosine"]:
                best[said.lower()] = {"cosine": min(float(cosine), 1.0), "phrase": said, "text": text}
    return sorted(best.values(), key=lambda found: -found["cosine"])[:k]


def describe_nearest(_: Schemas) -> Operation:
    body = {"inputs": TEXT, "node": optional(COUNT), "k": optional({"type": "integer", "minimum": 1, "maximum": 20})}
    phrase, row = record(cosine=NUMBER, phrase=STRING, text=STRING), record(cosine=NUMBER, text=STRING)
    answer = record(phrase=STRING, phrases=array(phrase), rows=array(row))
    return Operation(answer, Request(body, ["inputs"], {"inputs": "The cat sat on the mat."}))


def graph(service: Service, body: Any) -> Answer:
    """POST /explore/graph: the trees of some texts as one graph, in which equal phrases are one node."""
    texts = inputs.texts(fields(body).get("inputs"), "inputs", service.limits)
    batch = inputs.ragged(texts, "inputs", service.model, service.limits)
    n = len(batch.tokens)
    if n > GRAPH_TOKENS:
        raise Refused(TOO_LONG, f"inputs has {n:,} tokens; the limit of a graph is {GRAPH_TOKENS:,}", "inputs")
    return Answer(orjson.dumps(entangled([service.model.parse(text) for text in texts])), len(texts), n)


def entangled(trees: list[Tree]) -> dict[str, Any]:
    """The nodes, children before parents, and the root of each tree, null if it is empty."""
    nodes: list[dict[str, Any]] = []
    known: dict[Any, int] = {}  # a piece, or a pair of nodes
    roots: list[int | None] = []
    for sentence, tree in enumerate(trees):
        ids: list[int] = []
        for node in tree:
            children = [ids[child] for child in node.children]
            key = tuple(children) or tree.pieces[node.index]
            if key not in known:
                known[key] = len(nodes)
                text = node.text or tree.leaves[node.index]
                nodes.append({"text": text, "height": node.height, "similarity": node.similarity, "of": []})
                nodes[-1]["children"] = children
            ids.append(known[key])
        for id in dict.fromkeys(ids):
            nodes[id]["of"].append(sentence)
        roots.append(ids[-1] if ids else None)
    return {"nodes": nodes, "roots": roots}


def describe_graph(schemas: Schemas) -> Operation:
    node = record(text=STRING, height=COUNT, similarity=optional(NUMBER), of=array(COUNT), children=array(COUNT))
    example = {"inputs": ["The cat sat on the mat.", "The dog sat on the mat."]}
    answer = record(nodes=array(node), roots=array(optional(COUNT)))
    return Operation(answer, Request({"inputs": schemas.texts}, ["inputs"], example))
