"""The map of the explorer: POST /explore/map and the routes about its points."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import orjson

from banyan.errors import BanyanError
from banyan.search.index import Index
from banyan.search.maps import Map, drawn_map, texts_of, values_of
from banyan.search.searching import MODES
from banyan.serve import inputs
from banyan.serve.condition import LONGEST, condition
from banyan.serve.refusal import INVALID, Refused, choice, field, fields, whole
from banyan.serve.schema import (
    BOOLEAN,
    COUNT,
    NUMBER,
    OBJECT,
    STRING,
    Operation,
    Request,
    Schema,
    Schemas,
    array,
    one_of,
    optional,
    record,
)
from banyan.serve.search import QUERY, one_text
from banyan.serve.service import Answer, Service

MOST_POINTS = 100_000
MOST_TEXTS = 200  # per request
_POINT_BYTES = 20  # in JSON, at most


class CollectionMap:
    """The map of an index, which is laid out in a thread of its own when it is first asked for."""

    def __init__(self, index: Index) -> None:
        self._index, self._lock = index, threading.Lock()
        self._began = 0.0
        self._found: Map | None = None
        self._problem = ""

    def get(self) -> Map | None:
        """The map, or None until it is laid out."""
        with self._lock:
            if not self._began:
                self._began = time.monotonic()
                threading.Thread(target=self._lay_out, name="banyan-map", daemon=True).start()
        if self._problem:
            raise BanyanError(self._problem)
        return self._found

    def _lay_out(self) -> None:
        try:
            self._found = drawn_map(self._index.rows, most=MOST_POINTS)
        except Exception as error:
            self._problem = f"there is no map: {error}"

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def points(service: Service, body: Any) -> Answer:
    """POST /explore/map: the points, or how long they have been in the making."""
    assert service.map
    found = service.map.get()
    if found is None:
        return Answer(orjson.dumps({"ready": False, "seconds": round(service.map.seconds, 1)}))
    inputs.check_answer(len(found.ids) * _POINT_BYTES, service.limits)
    return Answer(orjson.dumps({"ready": True, **found.to_json()}))


def describe_points(_: Schemas) -> Operation:
    answer: Schema = {"type": "object", "properties": {"ready": BOOLEAN, "seconds": NUMBER}, "required": ["ready"]}
    answer["properties"] |= {"x": array(COUNT), "y": array(COUNT), "cluster": array(COUNT), "clusters": array(OBJECT)}
    return Operation(answer, Request({}, [], {}))


def texts(service: Service, body: Any) -> Answer:
    """POST /explore/texts: the texts of points."""
    found, numbers = _ready(service), field(fields(body), "points", list)
    if not numbers or len(numbers) > MOST_TEXTS:
        raise Refused(INVALID, f"points must be a list of 1 to {MOST_TEXTS} numbers", "points")
    numbers = [whole(number) for number in numbers]
    if set(map(type, numbers)) != {int} or not 0 <= min(numbers) <= max(numbers) < len(found.ids):
        raise Refused(INVALID, f"points must be numbers from 0 to {len(found.ids) - 1}", "points")
    assert service.searcher
    return Answer(orjson.dumps(texts_of(service.searcher.index.rows, found.ids[numbers])))


def describe_texts(_: Schemas) -> Operation:
    numbers: Schema = {"type": "array", "items": COUNT, "minItems": 1, "maxItems": MOST_TEXTS}
    answer = array(record(text=STRING, place=STRING))
    return Operation(answer, Request({"points": numbers}, ["points"], {"points": [0]}), errors=_NOT_YET)


def values(service: Service, body: Any) -> Answer:
    """POST /explore/values: the value of a column for every point."""
    found, column = _ready(service), field(fields(body), "column", str, "")
    assert service.searcher
    return Answer(orjson.dumps(values_of(service.searcher.index.rows, found.ids, column)))


def describe_values(_: Schemas) -> Operation:
    request = Request({"column": STRING}, ["column"], {"column": "source"})
    return Operation(array({"type": ["string", "number", "boolean", "null"]}), request, errors=_NOT_YET)


def find(service: Service, body: Any) -> Answer:
    """POST /explore/find: the points of the best rows for a query, best first."""
    found, body = _ready(service), fields(body)
    query, n = one_text(service, body.get("query"), "query")
    assert service.searcher
    hits = service.searcher.rank(query, MOST_TEXTS, where=condition(body), mode=choice(body, "by", MODES))
    ids = np.array([hit.id for hit in hits], np.uint64)
    places = np.minimum(np.searchsorted(found.ids, ids), len(found.ids) - 1)
    return Answer(orjson.dumps(places[found.ids[places] == ids].tolist()), 1, n)


def describe_find(_: Schemas) -> Operation:
    where = optional({"type": "string", "maxLength": LONGEST})
    body = {"query": QUERY, "by": one_of(MODES), "where": where}
    return Operation(array(COUNT), Request(body, ["query"], {"query": "cat"}), errors=_NOT_YET)


_NOT_YET = {422: "invalid, or the map is not laid out yet"}


def _ready(service: Service) -> Map:
    assert service.map
    found = service.map.get()
    if found is None:
        raise Refused(INVALID, "the map is not laid out yet: ask POST /explore/map until it is")
    return found
