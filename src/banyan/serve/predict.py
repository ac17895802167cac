"""POST /predict: the labels of texts, or of pairs of texts, in the form of Text Embeddings Inference.

The route is there if the served folder has a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from banyan.classify.calibration import probabilities
from banyan.classify.classifier import Classifier
from banyan.classify.features import Ragged
from banyan.serve import inputs
from banyan.serve.refusal import INVALID, Refused, field, fields
from banyan.serve.schema import (
    BOOLEAN,
    NUMBER,
    STRING,
    TEXT,
    Operation,
    Request,
    Schema,
    Schemas,
    array,
    optional,
    record,
)
from banyan.serve.service import Answer, Service
from banyan.serve.tei import TRUNCATION, truncation

_SCORE_BYTES = 45  # of a label's score in JSON, at most, with the names of the fields
_PAIRS = "inputs must be a pair of strings, or a list of pairs: this classifier compares two texts"


def predict(service: Service, body: Any) -> Answer:
    """The score of every label, best first: one list for one input, a list of lists for several."""
    classifier = service.classifier
    assert classifier
    body = fields(body)
    raw, cut = field(body, "raw_scores", bool, False), truncation(body)
    texts, one = _texts(body.get("inputs"), classifier.pair, service)
    batch = inputs.ragged(texts, "inputs", service.model, service.limits, cut)
    batch = inputs.within(batch, "inputs", service.limits, cut)
    rows, step = Ragged(batch.tokens.astype(np.int32, copy=False), batch.offsets), 1 + classifier.pair
    labels = sum(len(orjson.dumps(label)) + _SCORE_BYTES for label in classifier.classes)
    inputs.check_answer(len(rows) // step * labels, service.limits)
    columns = tuple(rows.take(np.arange(first, len(rows), step)) for first in range(step))
    scores = classifier.scores_of_tokens(columns)
    found = _ranked(classifier, scores if raw else probabilities(scores, classifier.several))
    return Answer(orjson.dumps(found[0] if one else found), len(batch), len(batch.tokens))


def _texts(value: Any, pair: bool, service: Service) -> tuple[list[str], bool]:
    """All texts, those of a pair one after the other, and whether there is one input only."""
    if not pair:
        if _all(value, list):  # the batches of Text Embeddings Inference: [["one text"], ["another"]]
            value = [text[0] if len(text) == 1 else text for text in value]
        return inputs.texts(value, "inputs", service.limits), isinstance(value, str)
    one = _all(value, str) and len(value) == 2
    pairs = [value] if one else value
    if not _all(pairs, list) or any(len(found) != 2 for found in pairs):
        raise Refused(INVALID, _PAIRS, "inputs")
    return inputs.texts([text for found in pairs for text in found], "inputs", service.limits), one


def _all(value: Any, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, kind) for item in value)


def _ranked(classifier: Classifier, scores: np.ndarray) -> list[list[dict[str, Any]]]:
    order = np.argsort(-scores, axis=1, kind="stable")
    return [
        [{"score": float(row[c]), "label": classifier.classes[c]} for c in best]
        for row, best in zip(scores, order.tolist(), strict=True)
    ]


def describe_predict(schemas: Schemas) -> Operation:
    two: Schema = {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}
    alone: Schema = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 1}
    pair = schemas.classifies_pairs
    accepted = [two, schemas.batch(two)] if pair else [*schemas.texts["anyOf"], schemas.batch(alone)]
    body = {"inputs": {"anyOf": accepted}, "raw_scores": optional(BOOLEAN), **TRUNCATION}
    ranked = array(record(score=NUMBER, label=STRING))
    text = "The cat sat on the mat."
    example = {"inputs": [text, "A cat was sitting there."] if pair else text}
    return Operation({"anyOf": [ranked, array(ranked)]}, Request(body, ["inputs"], example))
