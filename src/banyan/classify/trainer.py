"""train_classifier(): learn to classify texts, measure on held-out texts, and write the folder."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.classify import picture
from banyan.classify.calibration import Calibration, probabilities
from banyan.classify.classifier import CONFUSION, Classifier
from banyan.classify.features import Ragged, Vocabulary, bits_for, digits_of
from banyan.classify.figures import Figures
from banyan.classify.head import Head, scores_of
from banyan.classify.labelled import Labelled, read_labelled
from banyan.classify.learning import Learner, Part, with_embedding
from banyan.classify.settings import Settings
from banyan.classify.split import FEWEST, halved, split
from banyan.encoder import Banyan, teacher_of
from banyan.errors import BanyanError
from banyan.support import checksums, files
from banyan.support.display import Display, duration
from banyan.training import card
from banyan.training.folder import CARD, RESULTS, RunFolder

LONGEST = 512  # pieces of a text that training reads
NO_PIECES = "without words that the model knows"


def train_classifier(
    model: str | Path | Banyan,
    labelled: Any,
    out: str | Path,
    *,
    columns: Sequence[str] | None = None,
    pair: bool = False,
    separator: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = 60,
    quiet: bool = False,
    **settings: Any,
) -> Classifier:
    """Train a classifier on labelled texts, and write it to the folder `out`, with the model it works on.

    model: a model folder, a name on the Hugging Face Hub, or a model loaded from one of them.
    labelled, columns, pair, separator: as in banyan.classify.labelled.read_labelled.
    resume: continue an interrupted run, or start if there is none.
    overwrite: replace the model or the run in `out`.
    settings: frozen, balanced, epochs, batch_size, lr, seed, as in banyan.classify.settings.Settings."""
    display, folder, asked = Display(quiet), RunFolder(Path(out)), Settings.checked(settings, train_classifier)
    before = model if isinstance(model, Banyan) else Banyan.from_pretrained(model)
    if before.folder is not None and before.folder.resolve() == folder.out.resolve():
        raise BanyanError(f"the model and --out are both {folder.out}: name another folder for the classifier")
    folder.refuse_to_lose(resume, overwrite)
    read, told = _read(labelled, columns, pair, separator, display)
    with folder.held():
        folder.refuse_to_lose(resume, overwrite)
        for place in (folder.out, folder.work):
            files.remove_leftovers(place)
        ready = prepared(before, read, asked)
        learner, record = ready.learner, _record(ready, asked)
        if resume and folder.record.exists():
            _check_same(folder, record)
            if folder.checkpoint.exists():
                learner.load(folder.checkpoint)
        else:
            _begin(folder, record)
        classifier, figures = learned(ready, display, folder.checkpoint, checkpoint_seconds)
        name = f" of {Path(labelled).name}" if isinstance(labelled, str | Path) else ""
        told = f"A classifier was trained on the labelled texts{name}: {told}"
        return _write(folder, classifier, figures, before, told, display)


def _read(
    source: Any, columns: Sequence[str] | None, pair: bool, separator: str | None, display: Display
) -> tuple[Labelled, str]:
    if isinstance(source, Labelled):
        return source, f"{len(source):,} labelled texts."
    read, report, note = read_labelled(source, columns, pair=pair, separator=separator)
    told = report.summary("text")
    display.note(note)
    display.note(told)
    return read, told


class Prepared(NamedTuple):
    learner: Learner
    classes: list[str]
    measuring: Part  # held-out texts for the figures; with few, those that choose the epoch and calibrate
    skipped: int  # texts that are neither learned nor held out, because a held-out text repeats or contains them

    @property
    def also_chose(self) -> bool:
        return self.measuring is self.learner.held_out


def prepared(model: Banyan, read: Labelled, settings: Settings) -> Prepared:
    """Divide the texts, and check that there is something to learn."""
    classes = read.classes()
    if len(classes) < 2:
        found = f"all texts have the label {classes[0]!r}" if classes else "no text has a label"
        raise BanyanError(f"a classifier needs at least two classes; {found}")
    target = read.target(classes)
    columns = tuple(Ragged(*model.tokenizer.encode(texts)).cut(LONGEST) for texts in read.columns)
    some = np.flatnonzero(np.all([np.diff(part.offsets) > 0 for part in columns], axis=0))
    if not target[some].any(0).all():
        raise BanyanError("a class has no text with pieces that the model knows")
    texts = [[column[i] for i in some] for column in read.columns]
    known = Part(columns, target).take(some)
    rows, held = split(texts, known.target, settings.seed)
    choosing, measuring = halved(texts, known.target, held, settings.seed)
    train, held_out = known.take(rows), known.take(choosing)
    vocabulary = Vocabulary.of(train.texts, bits_for(len(classes)), digits_of(model))
    learner = Learner(model, vocabulary, train, held_out, read.several, settings)
    apart = held_out if measuring is choosing else known.take(measuring)
    return Prepared(learner, classes, apart, len(known) - len(rows) - len(held))


def learned(
    ready: Prepared, display: Display, checkpoint: Path | None = None, seconds: float = 60
) -> tuple[Classifier, Figures | None]:
    """Run to the end. Return the classifier of the best epoch, and its figures on held-out texts if there are any."""
    learner, classes, measuring, skipped = ready
    texts, held_out, started = len(learner.train), len(learner.held_out), time.monotonic()
    epochs = f"{learner.epochs} epoch{'s' * (learner.epochs != 1)}"
    most = f"at most {epochs} of {learner.batches:,} batch{'es' * (learner.batches != 1)}"
    kept = "token vectors are frozen" if learner.settings.frozen else "token vectors learn, too"
    apart = "" if ready.also_chose else f" and {len(measuring):,} to measure on"
    display.note(f"learning {len(classes)} classes from {texts:,} texts, {held_out:,} held out{apart}: {most}; {kept}")
    if skipped:
        display.note(f"not learned because held-out texts repeat or contain them: {skipped:,}")
    learner.run(checkpoint, seconds, display)
    progress, best = learner.progress, learner.best
    model = learner.model if learner.settings.frozen else with_embedding(learner.model, best["embedding"])
    head = Head(*(best[name] for name in ("weight", "bias", "table")))
    about: dict[str, Any] = {
        "texts": texts,
        "held_out": held_out,
        "epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "settings": asdict(learner.settings),
        "texts_of_classes": dict(zip(classes, learner.train.target.sum(0).astype(int).tolist(), strict=True)),
    }
    pair, calibration = learner.vocabulary.of_pairs, Calibration(progress.slope, progress.offset)
    found = Classifier(model, classes, learner.several, pair, head, learner.vocabulary, calibration, about)
    took = duration(time.monotonic() - started)
    which = "the best" if held_out else "kept"
    display.note(f"epoch {progress.best_epoch} of {progress.epoch} is {which} ({took})")
    if not held_out:
        why = f"there are fewer than {FEWEST} texts" if texts < FEWEST else "no class has two different texts"
        display.note(f"{why}, so none were held out: nothing is measured, and probabilities are not calibrated")
        return found, None
    scores = calibration(scores_of(found.features, head, measuring.texts))
    p = probabilities(scores, learner.several)
    figures = Figures.of(scores, p, measuring.target, classes, learner.several, ready.also_chose)
    return replace(found, about={**about, "figures": figures.to_dict()}), figures


# --- The folder ------------------------------------------------------------------------------------------------------


def _record(ready: Prepared, settings: Settings) -> dict[str, Any]:
    """What identifies a run: its settings, and hashes of the model and of the texts."""
    (learner, classes, measuring, _), digest = ready, hashlib.sha256()
    for part in (learner.train, learner.held_out, measuring):
        for array in (*(column for texts in part.texts for column in texts), part.target):
            digest.update(np.ascontiguousarray(array).data)
    known = {"model": learner.model.fingerprint(), "texts": digest.hexdigest()}
    return {"classifier": asdict(settings), "classes": classes, "several": learner.several, **known}


def _begin(folder: RunFolder, record: dict[str, Any]) -> None:
    """Record the run. Remove what an earlier one left."""
    folder.checkpoint.unlink(missing_ok=True)
    text = json.dumps(checksums.sealed(record), indent=2, ensure_ascii=False)
    files.write_text(folder.record, f"{text}\n")
    for name in RESULTS:
        (folder.out / name).unlink(missing_ok=True)


def _check_same(folder: RunFolder, record: dict[str, Any]) -> None:
    began = checksums.read_sealed(folder.record, "--overwrite starts over")
    if "classifier" not in began:
        raise BanyanError(f"the run in {folder.out} does not train a classifier: choose another folder")
    changed = [name for name, value in record.items() if began.get(name) != value]
    if changed:
        differing = (name for name, value in record["classifier"].items() if began["classifier"].get(name) != value)
        words = {"classifier": f"settings ({', '.join(differing)})", "several": "labels"}
        told = ", ".join(words.get(name, name) for name in changed)
        raise BanyanError(f"the run in {folder.out} cannot be resumed: it began with different {told}")


def _write(
    folder: RunFolder, found: Classifier, figures: Figures | None, before: Banyan, told: str, display: Display
) -> Classifier:
    """Write the model, the classifier, the picture and the model card. Return what was written."""
    found.model.taught_by = teacher_of(before.folder) if before.folder else before.taught_by
    found.save_pretrained(folder.out)
    if figures and figures.confusion is not None:
        try:
            untold = picture.draw(figures.confusion, found.classes, folder.out / CONFUSION)
            if untold:
                told_of = f"{untold} of its classes by their row in the table: no installed font has their letters"
                display.note(f"{CONFUSION} names {told_of}")
        except BanyanError as error:  # matplotlib is not installed
            display.note(f"there is no {CONFUSION}. {error}")
            figures = replace(figures, confusion=None)
    text = card.model_card(found.model, card.text_since(told, before.folder))
    files.write_text(folder.out / CARD, with_classifier(text, found, figures))
    folder.checkpoint.unlink(missing_ok=True)
    if figures:
        display.note(f"On {figures.told}:\n{figures.to_text()}")
    display.note(f"wrote {folder.out}: try `banyan classify predict {folder.out} texts.txt`")
    return Classifier.from_pretrained(folder.out)


def with_classifier(text: str, found: Classifier, figures: Figures | None) -> str:
    """A model card with the classifier's task and example, and a section about it."""
    what = "pairs of texts" if found.pair else "texts"
    how = "each may have several labels" if found.several else "each has one label"
    frozen = found.about.get("settings", {}).get("frozen")
    vectors = "The token vectors were frozen." if frozen else "The token vectors learned with it."
    lines = [f"It classifies {what} into {len(found.classes)} classes; {how}. {vectors}"]
    if figures:
        lines += ["", f"On {figures.told}, × 100:", "", figures.to_markdown()]
    if figures and figures.confusion is not None:
        lines += ["", f"![confusion matrix]({CONFUSION})"]
    before, heading, after = card.of_classifier(text, found).partition("## Limits\n")
    section = "\n".join(lines)
    return f"{before}## Classifier\n{section}\n\n{heading}{after}"
