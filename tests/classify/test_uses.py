"""Classifiers behind HTTP and in scikit-learn."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from banyan import Banyan, BanyanError
from banyan.classify import Classifier, train_classifier
from banyan.classify.classifier import has_classifier
from banyan.commands import classify
from banyan.serve.app import App
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics
from banyan.serve.routes import LABELS
from banyan.serve.service import Service
from tests.helpers.asked import ask
from tests.helpers.labelled import pairs, texts


def served(classifier: Classifier, **limits: int) -> App:
    service = Service(classifier.model, ["tiny"], Limits(**limits), 0, Metrics(LABELS), classifier=classifier)
    return App(service, log_requests=False)


def predicted(app: App, inputs: object, **more: object) -> tuple[int, object]:
    status, _, body = ask(app, "POST", "/predict", {"inputs": inputs, **more}, key=None)
    return status, json.loads(body)


@pytest.fixture(scope="module")
def classifier(trained: Path) -> Classifier:
    return Classifier.from_pretrained(trained)


def test_predict_answers_as_text_embeddings_inference_does(classifier):
    app, text = served(classifier), "the cat on a mat"
    status, found = predicted(app, text)
    assert status == 200
    p = classifier.predict_proba([text])[0]
    assert [row["label"] for row in found] == [classifier.classes[c] for c in np.argsort(-p)]
    np.testing.assert_allclose([row["score"] for row in found], np.sort(p)[::-1], rtol=1e-5)
    assert predicted(app, [text, text]) == predicted(app, [[text], [text]]) == (200, [found, found])
    raw = predicted(app, text, raw_scores=True)[1]
    assert sum(row["score"] for row in raw) != pytest.approx(1)


def test_predict_has_the_limits_of_the_other_routes(classifier):
    app = served(classifier, batch=2, input_tokens=4)
    for inputs, status in (
        (None, 422),
        ([], 400),
        ("", 400),
        (["a"] * 3, 413),
        ("a cat " * 9, 413),
        ([["a", "b"]], 422),
    ):
        assert predicted(app, inputs)[0] == status, inputs
    assert predicted(app, "a cat " * 9, truncate=True)[0] == 200
    assert predicted(app, "a" * 100_000, truncate=True)[0] == 200


def test_the_answer_of_predict_has_a_limit(classifier, monkeypatch):
    app = served(classifier, answer=1000)
    assert predicted(app, "a cat")[0] == 200
    monkeypatch.setattr(Classifier, "scores_of_tokens", lambda *_: pytest.fail("it was computed"))
    status, told = predicted(app, ["a cat"] * 20)
    assert (status, "the answer would have about" in told["error"]) == (413, True)


def test_predict_is_described_and_only_there_with_a_classifier(classifier, model):
    document = json.loads(ask(served(classifier), "GET", "/openapi.json", key=None)[2])
    assert "/predict" in document["paths"]
    about = json.loads(ask(served(classifier), "GET", "/info", key=None)[2])
    assert about["model_type"]["classifier"]["id2label"] == {"0": "animal", "1": "place", "2": "rest"}
    plain = App(Service(model, ["tiny"], Limits(), 0, Metrics(LABELS)), log_requests=False)
    assert predicted(plain, "a cat")[0] == 404


@pytest.mark.parametrize("path", ["/", "/invocations"])
def test_the_default_route_of_a_classifier_predicts(classifier, path):
    app, body = served(classifier), {"inputs": "the cat on a mat"}
    expected = ask(app, "POST", "/predict", body, key=None)[2]
    assert ask(app, "POST", path, body, key=None)[2] == expected
    document = json.loads(ask(app, "GET", "/openapi.json", key=None)[2])
    assert document["paths"][path]["post"]["summary"] == "Labels of texts, as POST /predict"


def test_pairs_are_predicted(base, tmp_path):
    app = served(train_classifier(base, pairs(300), tmp_path / "pairs", pair=True, epochs=3, quiet=True))
    one, other = ["the cat sat", "sat the cat"], ["a tree", "the dog slept"]
    status, found = predicted(app, one)
    assert (status, {row["label"] for row in found}) == (200, {"same", "other"})
    assert predicted(app, [one, other])[1][0] == found
    assert predicted(app, "one text")[0] == predicted(app, ["one text"])[0] == 422


def test_predictions_of_a_file_are_written_block_by_block(trained, classifier, tmp_path, monkeypatch, banyan):
    given = ["a cat", "the house", "a tree sat", "the dog"]
    (tmp_path / "in.txt").write_text("\n".join(given) + "\n")
    arguments = ["classify", "predict", trained, tmp_path / "in.txt", "--format", "json"]
    expected = banyan(*arguments)
    assert [json.loads(line)["label"] for line in expected[1].splitlines()] == classifier.predict(given)
    monkeypatch.setattr(classify, "_BLOCK", 1)
    assert banyan(*arguments, "-o", tmp_path / "out.jsonl")[0] == 0
    assert (tmp_path / "out.jsonl").read_text() == expected[1]
    assert "would not be compressed: leave .gz out" in banyan(*arguments, "-o", tmp_path / "out.jsonl.gz")[2]
    assert not (tmp_path / "out.jsonl.gz").exists()


def test_texts_may_be_a_generator(classifier):
    given = ["a cat", "the house"]
    assert classifier.predict(text for text in given) == classifier.predict(given)
    with pytest.raises(BanyanError, match="text 1 is int, not a string"):
        classifier.predict(text for text in ["a cat", 3])


def test_every_predicted_label_has_its_probability(base, tmp_path, banyan):
    known = texts(300)
    labels = [["word", label] for (label,) in known.labels]
    train_classifier(base, (known.columns[0], labels), tmp_path / "out", epochs=3, quiet=True)
    (tmp_path / "in.txt").write_text("the cat on a\n")
    predict = "classify", "predict", tmp_path / "out", tmp_path / "in.txt"
    found = json.loads(banyan(*predict, "--format", "json")[1])
    assert found["label"] == sorted(found["probabilities"]) == ["animal", "word"]
    labels, values, text = banyan(*predict)[1].rstrip("\n").split("\t")
    assert (labels, text) == ("animal,word", "the cat on a")
    expected = [found["probabilities"][label] for label in found["label"]]
    assert list(map(float, values.split(","))) == pytest.approx(expected, abs=1e-4)


# --- scikit-learn ----------------------------------------------------------------------------------------------------


def test_the_estimator_works_where_scikit_learn_expects_one(base):
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    known = texts(300)
    y = np.array([label for (label,) in known.labels])
    estimator = Banyan.from_pretrained(base).classifier(epochs=4)
    assert clone(estimator).get_params()["epochs"] == 4
    lower = FunctionTransformer(lambda rows: [text.lower() for text in rows])
    pipeline = make_pipeline(lower, estimator.set_params(epochs=5))
    assert cross_val_score(pipeline, known.columns[0], y, cv=2).mean() > 0.9
    pipeline.fit(known.columns[0], y)
    assert pipeline.classes_.tolist() == ["animal", "place", "rest"]
    again = pickle.loads(pickle.dumps(pipeline[-1]))
    np.testing.assert_array_equal(again.predict_proba(["a cat"]), pipeline.predict_proba(["a cat"]))
    assert pipeline.predict(["a cat"]).tolist() == ["animal"]


def test_labels_keep_their_type_and_may_be_several(base, tmp_path):
    from scipy.sparse import csr_matrix

    known = texts(300)
    number = {"animal": 10, "place": 2, "rest": -1}
    estimator = Banyan.from_pretrained(base).classifier(epochs=5, frozen=True)
    estimator.fit(known.columns[0], [number[label] for (label,) in known.labels])
    assert estimator.classes_.tolist() == [-1, 2, 10]
    assert estimator.predict(["a cat"]).tolist() == [10]
    matrix = np.array([[label == "animal", label == "rest", 0] for (label,) in known.labels], int)
    for given in matrix, csr_matrix(matrix):
        found = estimator.fit(known.columns[0], given).predict(["a cat", "the house"])
        assert found.tolist() == [[1, 0, 0], [0, 0, 0]]
    column = matrix[:, :1]  # a matrix of one column holds the labels themselves
    assert estimator.fit(known.columns[0], column).predict(["a cat", "the house"]).tolist() == [1, 0]
    found = estimator.fit(known.columns[0], known.labels).predict(["a cat"])
    assert found.tolist() == [["animal"]]
    estimator.classifier_.save_pretrained(tmp_path / "saved")
    assert Classifier.from_pretrained(tmp_path / "saved").predict(["a cat"]) == [["animal"]]
    with pytest.raises(BanyanError, match="299"):
        estimator.fit(known.columns[0], known.labels[:-1])


@pytest.mark.parametrize(
    ("texts", "labels", "sentence"),
    [
        ([], [], "no texts to learn from"),
        (["a cat", "a dog"], ["x", None], r"label 1 is missing \(None\)"),
        (["a cat", "a dog"], [float("nan"), 1.0], "label 0 is missing"),
        (["a cat", "a dog"], [1, "x"], "some labels are strings and some are not"),
        (["a cat", "a dog"], [[], []], "no text has a label"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(base, texts, labels, sentence):
    with pytest.raises(BanyanError, match=sentence):
        Banyan.from_pretrained(base).classifier().fit(texts, labels)


def test_the_estimator_compares_pairs(base):
    known = pairs(400)
    estimator = Banyan.from_pretrained(base).classifier(pair=True)
    y = [label for (label,) in known.labels]
    assert estimator.fit(list(zip(*known.columns, strict=True)), y).score(np.array(known.columns).T, y) > 0.9
    fitted = estimator.classifier_
    for wrong in ["a cat"], [3], [("a cat",)], [("a cat", None)]:
        with pytest.raises(BanyanError, match="input 0 is not a pair of texts"):
            fitted.predict(wrong)


def test_a_model_saved_over_a_classifier_leaves_none(base, trained, tmp_path):
    Classifier.from_pretrained(trained).save_pretrained(tmp_path / "both")
    assert has_classifier(tmp_path / "both")
    Banyan.from_pretrained(base).save_pretrained(tmp_path / "both")
    assert not has_classifier(tmp_path / "both")
