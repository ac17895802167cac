"""Classifying texts of a few words. What the model is does not matter: it has random weights."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

from banyan import Banyan, BanyanError
from banyan.checking import check
from banyan.classify import Classifier, learning, picture, train_classifier
from banyan.classify.calibration import calibrated, log_loss, probabilities
from banyan.classify.features import Ragged
from banyan.classify.figures import Figures
from banyan.classify.head import scores_of
from banyan.classify.labelled import Labelled, read_labelled
from banyan.classify.settings import Settings
from banyan.classify.split import split
from banyan.classify.trainer import prepared
from banyan.encoder import WEIGHTS
from banyan.support import files
from banyan.tuning.reading import NO_LABEL
from tests.helpers.labelled import FILLER, pairs, texts


def accuracy(classifier: Classifier, known: Labelled) -> float:
    given = list(zip(*known.columns, strict=True)) if classifier.pair else known.columns[0]
    return float(np.mean([label == own[0] for label, own in zip(classifier.predict(given), known.labels, strict=True)]))


# --- Learning --------------------------------------------------------------------------------------------------------


def test_a_classifier_knows_new_texts_and_says_how_sure_it_is(trained):
    classifier = Classifier.from_pretrained(trained)
    assert classifier.classes == ["animal", "place", "rest"]
    assert accuracy(classifier, texts(200, seed=1)) > 0.95
    p = classifier.predict_proba(texts(200, seed=1).columns[0])
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-5)
    assert p.max(1).mean() > 0.9


def test_the_probabilities_of_a_text_do_not_depend_on_batch_mates(trained):
    classifier, given = Classifier.from_pretrained(trained), texts(60, seed=2).columns[0]
    together = classifier.predict_proba(given)
    for text, found in zip(given, together, strict=True):
        np.testing.assert_array_equal(classifier.predict_proba([text])[0], found)


def test_the_folder_is_a_model_too_and_says_what_it_is(trained, base, banyan):
    before, after = Banyan.from_pretrained(base), Banyan.from_pretrained(trained)
    assert not np.array_equal(before.encode("the cat sat"), after.encode("the cat sat"))
    assert (trained / "confusion.png").stat().st_size > 1000
    assert "## Classifier\nIt classifies texts into 3 classes" in (trained / "README.md").read_text()
    assert "classifier.safetensors" in (trained / "SHA256SUMS").read_text()
    assert banyan("check", trained)[0] == 0
    code, out, _ = banyan("info", trained)
    assert code == 0
    assert "classifier" in out
    assert "animal, place, rest" in out


@pytest.mark.parametrize("kind", [texts, pairs])
def test_the_card_says_that_it_classifies_and_its_example_does(base, tmp_path, kind):
    made = train_classifier(base, kind(100), tmp_path / "made", pair=kind is pairs, epochs=1, quiet=True)
    card = (tmp_path / "made/README.md").read_text()
    assert "\npipeline_tag: text-classification\n" in card
    assert "sentence-similarity" not in card
    assert "A classifier of texts, with sentence embeddings of" in card
    names: dict = {}
    example = card.partition("```python\n")[2].partition("```")[0]
    exec(example.replace("path/to/this/folder", str(tmp_path / "made")), names)
    assert len(eval(re.search(r"predict\((.*)\)  ", example)[1], names)) == 2
    assert f"float32 [2, {len(made.classes)}]" in example
    assert f"float32 [1, {made.model.dim}]" in example


def test_frozen_token_vectors_stay(base, tmp_path):
    train_classifier(base, texts(300), tmp_path / "frozen", frozen=True, epochs=2, quiet=True)
    assert (base / WEIGHTS).read_bytes() == (tmp_path / "frozen" / WEIGHTS).read_bytes()


def test_pairs_are_compared(base, tmp_path):
    classifier = train_classifier(base, pairs(600), tmp_path / "pairs", pair=True, quiet=True)
    assert accuracy(classifier, pairs(200, seed=1)) > 0.9
    with pytest.raises(BanyanError, match="not a pair"):
        classifier.predict(["one text"])


def test_texts_may_have_several_labels_or_none(base, tmp_path):
    one, other = texts(600), texts(600, seed=1)
    both = [f"{a} {b}" for a, b in zip(one.columns[0], other.columns[0], strict=True)]
    labels = [tuple({*a, *b} - {"place"}) for a, b in zip(one.labels, other.labels, strict=True)]
    classifier = train_classifier(base, Labelled((both,), labels, True), tmp_path / "several", quiet=True)
    found = classifier.predict(both[:200])
    assert np.mean([set(a) == set(b) for a, b in zip(found, labels, strict=False)]) > 0.9
    assert {2, 1} <= set(map(len, found))
    assert not (tmp_path / "several" / "confusion.png").exists()


@pytest.mark.parametrize("kind", [texts, pairs])
def test_gradients_are_those_of_the_loss(base, kind, monkeypatch):
    """In the direction of the step that a tiny learning rate makes, the loss falls as the gradient says."""
    learner, *_ = prepared(Banyan.from_pretrained(base), kind(64), Settings())
    rng = np.random.default_rng(0)
    learner.learned["weight"][:] = rng.normal(size=learner.learned["weight"].shape)
    gradients = {}
    monkeypatch.setattr(learner, "_adam_rows", lambda rows, g, lr: gradients.update(rows=rows, embedding=g))
    monkeypatch.setattr(learner, "_adam", lambda name, g, lr: gradients.update({name: g}))
    table = learner.learned["table"].copy()
    learner._step(learner.train)
    learner.learned["table"][:] = table

    def loss() -> float:
        scores = scores_of(learner._features(), learner.head, learner.train.texts)
        return log_loss(scores, learner.train.target, False)

    embedding, direction = learner.learned["embedding"], np.zeros_like(learner.learned["embedding"])
    direction[gradients["rows"]] = rng.normal(size=gradients["embedding"].shape)
    expected = float((direction[gradients["rows"]] * gradients["embedding"]).sum())
    start, epsilon = embedding.copy(), 1e-4
    sides = []
    for sign in (1, -1):
        embedding[:] = start + sign * epsilon * direction
        sides.append(loss())
    assert (sides[0] - sides[1]) / (2 * epsilon) == pytest.approx(expected, rel=0.05, abs=1e-3)


def test_calibrated_probabilities_are_as_sure_as_they_should_be():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3))
    truth = np.array([rng.choice(3, p=p) for p in probabilities(scores, False)])
    found = calibrated(scores * 4, np.eye(3)[truth], False)
    assert found.slope == pytest.approx(0.25, rel=0.1)
    several = (rng.random(scores.shape) < probabilities(scores - 1, True)).astype(float)
    found = calibrated(scores * 2, several, True)
    assert (found.slope, found.offset) == pytest.approx((0.5, -1), rel=0.1)


def test_a_few_texts_do_not_make_a_classifier_certain():
    """Platt expects three of four such texts to be right after two of two."""
    for several, scores in (False, np.array([[1.0, -1.0], [-1.0, 1.0]])), (True, np.array([[1.0, -1.0], [-1.0, 1.0]])):
        found = probabilities(calibrated(scores, np.eye(2), several)(scores), several)
        assert found.max() == pytest.approx(0.75, abs=0.01)


# --- Runs ------------------------------------------------------------------------------------------------------------


def test_a_killed_run_ends_in_the_same_bits(base, tmp_path, monkeypatch):
    known = texts(300)
    whole = train_classifier(base, known, tmp_path / "whole", epochs=3, quiet=True)
    step = learning.Learner._step

    def killed(self, part):
        if self.progress.step == 13:
            raise KeyboardInterrupt
        step(self, part)

    monkeypatch.setattr(learning.Learner, "_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train_classifier(base, known, tmp_path / "killed", epochs=3, checkpoint_seconds=0, quiet=True)
    monkeypatch.setattr(learning.Learner, "_step", step)
    with pytest.raises(BanyanError, match="different settings"):
        train_classifier(base, known, tmp_path / "killed", epochs=4, resume=True, quiet=True)
    assert check(tmp_path / "killed").problems == []
    checkpoint = tmp_path / "killed" / "training" / "checkpoint.safetensors"
    whole_checkpoint = checkpoint.read_bytes()
    checkpoint.write_bytes(whole_checkpoint[:-9] + bytes([whole_checkpoint[-9] ^ 1]) + whole_checkpoint[-8:])
    assert check(tmp_path / "killed").problems == [f"{checkpoint} is not as it was written"]
    with pytest.raises(BanyanError, match=r"cannot resume: .* is not as it was written; --overwrite starts over"):
        train_classifier(base, known, tmp_path / "killed", epochs=3, resume=True, quiet=True)
    checkpoint.write_bytes(whole_checkpoint)
    (checkpoint.parent / f".checkpoint.safetensors.1{files._here()}.tmp").mkdir()  # a process was killed as it saved
    resumed = train_classifier(base, known, tmp_path / "killed", epochs=3, resume=True, quiet=True)
    for name in (WEIGHTS, "classifier.safetensors", "classifier.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes(), name
    assert whole.model.fingerprint() == resumed.model.fingerprint()
    assert not list((tmp_path / "killed").rglob("*.tmp"))


_KILLED = """
import os, signal, sys
from banyan.classify import learning
from banyan.commands import main
step = learning.Learner._step

def killed(self, part):
    if self.progress.step == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, part)

learning.Learner._step = killed
main(sys.argv[1:])
"""


def test_a_run_ended_by_sigkill_is_resumed_to_the_same_bits(base, tmp_path, banyan):
    known = texts(300)
    rows = zip(*known.columns, known.labels, strict=True)
    (tmp_path / "known.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{own[0]}\n" for text, own in rows))
    options = ["--epochs", "3", "--checkpoint-every", "0", "--quiet"]
    asked = ["classify", "train", base, tmp_path / "known.tsv", *options, "--out"]
    assert banyan(*asked, tmp_path / "whole")[0] == 0
    command = [sys.executable, "-c", _KILLED, *map(str, asked), str(tmp_path / "killed")]
    assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == -signal.SIGKILL
    assert banyan(*asked, tmp_path / "killed", "--resume")[0] == 0
    for name in (WEIGHTS, "classifier.safetensors", "classifier.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes(), name
    assert not list((tmp_path / "killed").rglob("*.tmp"))


def test_a_full_disk_ends_a_run_in_one_sentence_and_it_is_resumed(base, tmp_path):
    resource, options = pytest.importorskip("resource"), {"epochs": 2, "checkpoint_seconds": 0, "quiet": True}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(BanyanError, match=r"^cannot write .*: File too large; there is no earlier checkpoint$"):
            train_classifier(base, texts(300), tmp_path / "out", **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    train_classifier(base, texts(300), tmp_path / "out", resume=True, **options)
    train_classifier(base, texts(300), tmp_path / "whole", **options)
    for name in (WEIGHTS, "classifier.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "out" / name).read_bytes(), name


def test_a_run_that_cannot_be_resumed_says_what_changed(base, tmp_path):
    train_classifier(base, texts(50), tmp_path / "out", epochs=1, quiet=True)
    with pytest.raises(BanyanError, match=r"it began with different settings \(balanced, epochs\)$"):
        train_classifier(base, texts(50), tmp_path / "out", epochs=2, balanced=True, resume=True, quiet=True)


def test_a_finished_classifier_is_not_overwritten_unless_asked(base, trained):
    with pytest.raises(BanyanError, match="--overwrite"):
        train_classifier(base, texts(50), trained, quiet=True)
    with pytest.raises(BanyanError, match="both"):
        train_classifier(trained, texts(50), trained, overwrite=True, quiet=True)


# --- Why -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [texts, pairs])
def test_the_words_that_decided_add_up_to_the_score(kind, base, trained, tmp_path):
    classifier = Classifier.from_pretrained(trained)
    if kind is pairs:
        classifier = train_classifier(base, pairs(300), tmp_path / "pairs", epochs=3, pair=True, quiet=True)
    for given in zip(*kind(20, seed=3).columns, strict=True):
        one = given if kind is pairs else given[0]
        decision = classifier.explain(one)
        scores = classifier.scores([one])[0]
        own = classifier.classes.index(decision.label)
        expected = scores[own] - np.delete(scores, own).mean()
        assert decision.score == pytest.approx(float(expected), abs=1e-3)
        words = sum(word.value for word in decision.words)
        assert words + decision.overlap + decision.bias == pytest.approx(decision.score, abs=1e-9)
        assert [word.text for word in decision.words] == " ".join(given).split()


def test_the_deciding_word_is_named(trained):
    decision = Classifier.from_pretrained(trained).explain("the house on a green")
    assert decision.label == "place"
    assert decision.top(1)[0].text == "house"
    assert "house" in str(decision).splitlines()[1]


# --- Reading and holding out -----------------------------------------------------------------------------------------


def test_labels_are_read_from_files_of_all_kinds(tmp_path):
    (tmp_path / "a.tsv").write_text("sentence\tlabel\nthe cat\t1\nthe dog\t0\n\t1\n")
    read, report, note = read_labelled(tmp_path / "a.tsv")
    assert (read.columns, read.labels, read.classes()) == ((["the cat", "the dog"],), [("1",), ("0",)], ["0", "1"])
    assert report.dropped
    assert "sentence as the text and label as the label" in note
    (tmp_path / "b.csv").write_text("the cat,animals;pets\nthe mat,\n")
    read, _, _ = read_labelled(tmp_path / "b.csv", separator=";")
    assert (read.labels, read.several) == ([("animals", "pets"), ()], True)
    rows = [{"title": "x", "body": "the cat", "tags": ["a", "b"]}, {"title": "y", "body": "a dog", "tags": []}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    read, _, _ = read_labelled(tmp_path / "c.jsonl", ["body", "tags"])
    assert (read.labels, read.several) == ([("a", "b"), ()], True)
    with pytest.raises(BanyanError, match="the separator of labels is empty"):
        read_labelled(tmp_path / "b.csv", separator="")
    (tmp_path / "d.csv").write_text("sent1,sent2,score\na,b,1\nc,d,0\n")
    read, _, _ = read_labelled(tmp_path / "d.csv", pair=True)
    assert (read.columns, read.labels) == ((["a", "c"], ["b", "d"]), [("1",), ("0",)])


@pytest.mark.parametrize("mark", [";", "|", ", "])
def test_labels_that_look_like_several_raise_a_doubt(mark):
    cells = [mark.join(some) for some in itertools.permutations("abc", 2)] + ["a", "b"]
    given = [f"text {i}" for i in range(len(cells))]
    told = f"Most labels contain '{mark[0]}': if it stands between several labels, add --separator '{mark[0]}'"
    assert told in read_labelled((given, cells))[2]
    assert "separator" not in read_labelled((given, cells), separator=mark)[2]
    assert "separator" not in read_labelled((given, [cell.split(mark) for cell in cells]))[2]
    names = [f"Arts{mark}Culture", f"Food{mark}Drink"] * 4  # two classes, whose parts do not recur
    assert "separator" not in read_labelled((given, names))[2]
    paths = [f"Home{mark}{room}" for room in "abcdefgh"]
    assert "separator" not in read_labelled((given, paths))[2]


def test_class_labels_of_a_data_set_have_their_names():
    datasets = pytest.importorskip("datasets")
    topic = datasets.ClassLabel(names=["World", "Sports"])
    columns = {"text": ["a", "b", "c"], "label": [1, 0, -1], "label_list": [[0, 1], [], [1]]}
    kinds = {"text": datasets.Value("string"), "label": topic, "label_list": datasets.Sequence(topic)}
    news = datasets.Dataset.from_dict(columns, datasets.Features(kinds))
    read, report, _ = read_labelled(news)
    assert (read.labels, report.dropped) == ([("Sports",), ("World",)], {NO_LABEL: 1})
    assert read_labelled(news, ["text", "label_list"])[0].labels == [("World", "Sports"), (), ("Sports",)]
    two = news.rename_columns({"text": "sentence1"}).add_column("sentence2", ["d", "e", "f"])
    assert read_labelled(two, pair=True)[0].labels == [("Sports",), ("World",)]


def test_labelled_lists_hold_rows_and_tuples_hold_columns():
    for source in (["a", "b"], [1, 2]), [("a", 1), ("b", 2)]:
        assert read_labelled(source)[0].labels == [("1",), ("2",)]
    for source in (["a", "b", "c"], ["d", "e", "f"], [1, 2, 3]), [("a", "d", 1), ("b", "e", 2), ("c", "f", 3)]:
        read, _, _ = read_labelled(source, pair=True)
        assert (read.columns, read.labels) == ((["a", "b", "c"], ["d", "e", "f"]), [("1",), ("2",), ("3",)])
    with pytest.raises(BanyanError, match="2 lists of 2 may be rows or columns"):
        read_labelled([["a", "x"], ["b", "y"]])
    with pytest.raises(BanyanError, match="row 1 of the list has 3 values, and expected are 2: put"):
        read_labelled([("a", "d", 1)])


def test_held_out_texts_are_not_part_of_texts_to_learn_from():
    rng = np.random.default_rng(0)
    long = [" ".join(f"w{word}" for word in rng.integers(0, 500, 12)) for _ in range(300)]
    parts = [" ".join(text.split()[start : start + 5]) for text in long for start in (0, 3, 7)]
    given = [*long, *parts, *long[:30]]
    target = np.eye(2)[rng.integers(0, 2, len(given))]
    train, held = split([given], target, seed=0)
    learned, kept = [given[i] for i in train], [given[i] for i in held]
    assert len(kept) >= 50
    assert not any(a in b or b in a for a in kept for b in learned)
    assert target[held].mean(0) == pytest.approx(target.mean(0), abs=0.05)


def test_pairs_with_texts_that_differ_only_in_case_are_on_one_side():
    first = [f"text {i // 2}" if i % 2 else f"TEXT {i // 2}" for i in range(100)]
    train, held = split([first, [f"other {i}" for i in range(100)]], np.eye(2)[np.arange(100) % 3 % 2], seed=0)
    assert len(held)
    assert not {first[i].lower() for i in train} & {first[i].lower() for i in held}


def test_texts_that_are_not_learned_because_of_held_out_ones_are_counted(base, tmp_path, capsys):
    known = texts(150)
    twice = Labelled((known.columns[0] * 2,), known.labels * 2, False)
    found = train_classifier(base, twice, tmp_path / "out", epochs=1)
    told = re.search(r"not learned because held-out texts repeat or contain them: (\d+)", capsys.readouterr().err)
    assert told
    assert int(told[1]) == 300 - found.about["texts"] - found.about["held_out"] > 0


def test_every_class_with_several_texts_is_on_both_sides():
    label = np.array([0] * 95 + [1] * 4 + [2])
    given = [f"text number {i}" for i in range(100)]
    train, held = split([given], np.eye(3)[label], seed=0)
    assert set(label[train]) == {0, 1, 2}
    assert set(label[held]) == {0, 1}


def test_one_class_and_wrong_settings_are_refused(base, tmp_path):
    with pytest.raises(BanyanError, match="at least two classes"):
        train_classifier(base, (["a cat", "a dog"], ["x", "x"]), tmp_path / "one", quiet=True)
    with pytest.raises(BanyanError, match="no text has a label"):
        train_classifier(base, (["a cat", "a dog"], [[], []]), tmp_path / "one", quiet=True)
    with pytest.raises(BanyanError, match="lr must be a positive number, not inf"):
        train_classifier(base, texts(20), tmp_path / "one", lr=float("inf"), quiet=True)
    for wrong, meant in {"batch": "batch_size", "seperator": "separator"}.items():
        with pytest.raises(BanyanError, match=f"there is no setting '{wrong}'; did you mean {meant}"):
            train_classifier(base, texts(20), tmp_path / "one", **{wrong: 1}, quiet=True)
    with pytest.raises(BanyanError, match="there is no setting 'xyzzy'; the settings are frozen, balanced"):
        train_classifier(base, texts(20), tmp_path / "one", xyzzy=1, quiet=True)
    assert not (tmp_path / "one").exists()


def test_texts_that_measure_chose_nothing_if_there_are_enough(base, monkeypatch):
    model, known = Banyan.from_pretrained(base), texts(500)
    few = prepared(model, known, Settings())
    assert few.measuring is few.learner.held_out
    monkeypatch.setattr("banyan.classify.split.ENOUGH", 40)
    apart = prepared(model, known, Settings())
    rows = [
        {tuple(text) for text in np.split(part.texts[0].tokens, part.texts[0].offsets[1:-1])}
        for part in (apart.learner.held_out, apart.measuring)
    ]
    assert not rows[0] & rows[1]
    assert len(apart.learner.train) == len(few.learner.train)
    assert 20 <= len(apart.measuring) <= len(few.measuring) - len(apart.learner.held_out)


def test_figures_say_whether_their_texts_also_chose(base, tmp_path, monkeypatch):
    for enough, told in (400, "which also chose the epoch and calibrated"), (40, "which chose nothing"):
        monkeypatch.setattr("banyan.classify.split.ENOUGH", enough)
        train_classifier(base, texts(500), tmp_path / str(enough), epochs=1, quiet=True)
        assert f"held-out texts, {told}" in (tmp_path / str(enough) / "README.md").read_text()


@pytest.mark.parametrize("pair", [False, True])
def test_a_class_of_equal_texts_does_not_let_other_held_out_texts_be_learned(pair):
    """Its texts cannot be on both sides. All of them are learned, and none is held out."""
    rng = np.random.default_rng(0)
    once = [" ".join(f"w{word}" for word in rng.integers(0, 500, 6)) for _ in range(300)]
    given = [*once * 3, "odd one out here", "odd one out here"]
    target = np.eye(3)[[*rng.integers(2, size=300).tolist() * 3, 2, 2]]
    columns = [given, [text[::-1] for text in given]] if pair else [given]
    train, held = split(columns, target, seed=0)
    learned, kept = ({given[i] for i in some} for some in (train, held))
    assert not learned & kept
    assert target[held].sum(0).all(where=[True, True, False])
    assert target[train].sum(0)[2] == 2


def test_all_of_a_few_texts_are_learned(base, tmp_path, capsys):
    train, held = split([[f"text {i}" for i in range(30)]], np.eye(2)[np.arange(30) % 2], seed=0)
    assert (len(train), len(held)) == (26, 4)
    found = train_classifier(base, texts(29), tmp_path / "few", epochs=2, batch_size=32)
    assert (found.about["texts"], found.about["held_out"], found.about["epoch"]) == (29, 0, 2)
    told = capsys.readouterr().err
    assert "at most 2 epochs of 1 batch;" in told
    assert "epoch 2 of 2 is kept" in told  # nothing says that it is the best
    assert "fewer than 30 texts, so none were held out: nothing is measured, and probabilities are not calib" in told


def test_what_was_not_held_out_has_no_figures(base, tmp_path, capsys):
    known = [f"{one} {other}" for one in FILLER for other in FILLER]
    train_classifier(base, (known, [str(i) for i in range(len(known))]), tmp_path / "each", epochs=1)
    told = "no class has two different texts, so none were held out: nothing is measured, and probabilities are not cal"
    assert told in capsys.readouterr().err
    scores, target = np.eye(3)[:2] * 5, np.eye(3)[:2]
    figures = Figures.of(scores, probabilities(scores, False), target, ["x", "y", "z"], False)
    assert figures.rows()[1:] == [
        ("y", "100.0", "100.0", "100.0", "1"),
        ("z", "-", "-", "-", "0"),
        ("mean of classes", "100.0", "100.0", "100.0", "2"),
    ]


def test_a_known_name_shows_a_header(tmp_path):
    (tmp_path / "a.csv").write_text("text,department\na b,post\nb c,shop\nc d,post\n")
    assert read_labelled(tmp_path / "a.csv")[0].classes() == ["post", "shop"]


def test_two_texts_and_a_label_without_pair_are_explained(tmp_path):
    (tmp_path / "a.csv").write_text("sentence1,sentence2,label\na,b,0\nc,d,1\n")
    with pytest.raises(BanyanError, match=r"a text and a label \(for two texts and a label, add --pair; in Python"):
        read_labelled(tmp_path / "a.csv")


def test_without_matplotlib_only_the_picture_is_missing(base, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = train_classifier(base, texts(100), tmp_path / "plain", epochs=1)
    told = capsys.readouterr().err
    assert re.search(r"no confusion\.png\. Drawing it needs matplotlib.*pip install matplotlib", told, re.DOTALL)
    assert "Accuracy:" in told
    assert found.predict(["the cat"])
    assert not (tmp_path / "plain" / "confusion.png").exists()
    card = (tmp_path / "plain" / "README.md").read_text()
    assert "Accuracy" in card
    assert "confusion.png" not in card


def test_names_that_no_font_can_draw_are_rows_of_the_table(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of every letter that it cannot draw
        assert picture.draw(np.eye(3, dtype=np.int64), ["plain $5$", "العربية", "\U000e0fff"], tmp_path / "a.png") == 1
        picture.draw(np.eye(2, dtype=np.int64), ["ስፖርት", "ፖለቲካ"], tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


# --- The command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["predict", "--out", "labels.tsv"], "--out is for `banyan classify train`"),
        (["predict", "--epochs", "3"], "--epochs is for `banyan classify train`"),
        (["predict", "--columns", "text"], "--columns is for classifiers of pairs: --column names the text"),
        (["train", "--top", "3"], "--top is for `banyan classify predict`"),
    ],
)
def test_options_that_would_do_nothing_are_refused(trained, tmp_path, banyan, arguments, told):
    (tmp_path / "texts.txt").write_text("the cat\n")
    job, *options = arguments
    code, out, err = banyan("classify", job, trained, tmp_path / "texts.txt", *options)
    assert (code, out) == (2, "")
    assert told in err


def test_the_command_trains_and_predicts_without_torch(base, tmp_path):
    known = texts(200)
    rows = [f"{text}\t{label}\n" for text, (label,) in zip(known.columns[0], known.labels, strict=True)]
    (tmp_path / "labelled.tsv").write_text("text\tlabel\n" + "".join(rows))
    (tmp_path / "texts.txt").write_bytes(b"the cat\n\nunder a tr\xe9e\n")
    program = (
        "import sys\nfrom banyan.commands import main\n"
        f"code = main(['classify', 'train', {str(base)!r}, 'labelled.tsv', '--out', 'out', '--epochs', '2'])\n"
        "code = code or main('classify predict out texts.txt --format json --explain --top 2'.split())\n"
        "sys.exit(code or ('torch' in sys.modules or 'sklearn' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in found] == ["the cat", "", "under a tr\ufffde"]
    assert "Repaired: 1 invalid UTF-8 sequences replaced by U+FFFD. If the text has another encoding" in done.stderr
    assert found[0]["label"] == found[0]["why"]["label"]
    assert len(found[0]["probabilities"]) == 2


def test_ragged_rows_can_be_taken_in_any_order():
    batch = Ragged(np.arange(6, dtype=np.int32), np.array([0, 1, 3, 6]))
    taken = batch.take(np.array([2, 0]))
    assert (taken.tokens.tolist(), taken.offsets.tolist()) == ([3, 4, 5, 0], [0, 3, 4])
