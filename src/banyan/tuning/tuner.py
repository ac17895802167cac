"""tune(): adapt a trained model to examples of texts that belong together.

Tuning is a run of banyan.training, so checkpoints, resuming to the same bits, metrics and progress bars are those of
training. What differs:

  text      an example takes the place of a passage; its texts are tokenised once and kept in memory (batches)
  loss      InfoNCE with in-batch negatives on whole embeddings, or a ranking loss on scores (banyan.model.pairing);
            a pull of token vectors and weights of n-grams to where they began (stay_weight), so that the model does
            not forget. Only the up pass runs, unless the settings ask for reconstruction, too
  negatives the other texts of a batch, those of the examples, and hard ones that are mined before each epoch (mining)
  weights   token vectors and functions are learned. In the lexical part, the weights of n-grams are learned, too.
            Token vectors start with a norm, and n-grams with a weight, by how rare they are in the examples. The
            weight of the lexical part is chosen on the held-out examples after each epoch, and at the end what share
            vectors have beside words in a search (sharing)
  stopping  after each epoch, the second texts of held-out examples are searched with their first texts (finding); with
            many held-out examples, half of them wait for the table before / after and choose nothing (split). The
            run stops when that no longer improves, and writes the latest epoch that is within one standard error of
            the best, which its checkpoints keep
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from banyan import backends
from banyan.classify.classifier import has_classifier
from banyan.config import Config, check_names
from banyan.corpus.store import Store, shuffled
from banyan.encoder import Banyan, teacher_of
from banyan.errors import BanyanError, arguments_of
from banyan.model import BanyanModel
from banyan.model.word_ngrams import spelling, weights_of
from banyan.support import devices, files
from banyan.support.display import Display
from banyan.training import card
from banyan.training.distributed import Processes
from banyan.training.folder import CARD, Given, RunFolder
from banyan.tuning.batches import prepared
from banyan.tuning.examples import Examples
from banyan.tuning.measuring import Measured, measure
from banyan.tuning.run import TuningRun
from banyan.tuning.sharing import vectors_share
from banyan.tuning.split import halved, split


def tune(
    model: str | Path | Banyan,
    examples: Any,
    out: str | Path,
    *,
    columns: Sequence[str] | None = None,
    labels: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = 60,
    device: str = "auto",
    deterministic: bool = False,
    tensorboard: bool = False,
    quiet: bool = False,
    **overrides: Any,
) -> Banyan:
    """Tune a model on texts that belong together, and write the tuned model to the folder `out`.

    model: a model folder, a name on the Hugging Face Hub, or a model loaded from one of them.
    examples, columns, labels: what banyan.tuning.reading.read_examples reads: a file (TSV, CSV, JSON lines, Parquet),
        a data frame, a datasets.Dataset, a dict of columns, a list of rows [(text, other), ...], or a tuple of columns.
    resume: continue an interrupted run with its settings, or start if there is none. Only epochs may change.
    overwrite: replace the model or the run in `out`.
    checkpoint_seconds, device, deterministic: as in train().
    overrides: settings of Config that differ from those of the preset `tuned`.
    """
    check_names(overrides, arguments_of(tune))
    if Processes.of_environment().several:
        raise BanyanError("a model is tuned by one process: run banyan tune without torchrun")
    place, display, folder = devices.choose(device), Display(quiet), RunFolder(Path(out))
    before = _loaded(model, display)
    assert before.folder is not None
    folder.refuse_to_lose(resume, overwrite)
    tuned_on = examples if isinstance(examples, str | Path) else None
    given = Given.of(init=before.folder, tuned_on=tuned_on)
    config, given = folder.settle({"preset": "tuned", **overrides}, given, resume)
    _refuse_unfit(config)
    read, told = _read(examples, columns, labels, config, display)
    train, held_out = split(read, config.seed)
    choosing, measuring = halved(held_out, config.seed)
    batches = prepared(train, choosing, before.tokenizer, config.max_pieces)
    with devices.using(place, deterministic), ExitStack() as stack:
        stack.enter_context(folder.held())
        folder.begin(config, given, resume, overwrite)
        network = BanyanModel(config, before.tokenizer.vocab_size).to(place)
        network.precision = backends.choose_precision("auto", place, config.matrix_width)
        summary = _summary(told, tuned_on, before.folder)
        run = TuningRun(folder, network, before.tokenizer, batches, summary, display)
        stack.enter_context(closing(run))
        run.taught_by = teacher_of(before.folder)
        run.start_from(recounted(before, batches[0].store))
        run.go(checkpoint_seconds, tensorboard)
        run.vectors_share = vectors_share(run.kept(), choosing)
        tuned = run.finish()
        if len(measuring) > 1:
            found = measure(before, tuned, measuring)
            _tell(found.after_choosing() if measuring is choosing else found, folder.out / CARD, display)
        return tuned


def _refuse_unfit(config: Config) -> None:
    if not config.pairs_weight:
        raise BanyanError("pairs_weight must be above 0: nothing else in tuning learns from the examples")
    if config.infonce_weight or config.has_teacher:
        raise BanyanError("infonce_weight and teachers are for `banyan train`: leave them out in tuning")
    if config.batch_size < 2:
        raise BanyanError("batch_size must be at least 2 in tuning: the texts of a batch are told from each other")


def _loaded(model: str | Path | Banyan, display: Display) -> Banyan:
    loaded = model if isinstance(model, Banyan) else Banyan.from_pretrained(model)
    if loaded.folder is None:
        raise BanyanError("the model to tune must be in a folder: write it with save_pretrained and load it from there")
    if has_classifier(loaded.folder):
        display.note(f"the classifier in {loaded.folder} is left out: train it again on the tuned model")
    return loaded


def _read(
    source: Any, columns: Sequence[str] | None, labels: bool, config: Config, display: Display
) -> tuple[Examples, str]:
    """The examples, and what was read, kept and dropped, in words."""
    from banyan.tuning.reading import read_examples

    if isinstance(source, Examples):
        examples, told = source, f"{len(source):,} examples."
    else:
        found = read_examples(source, columns, labels)
        examples, told = found.examples, found.report.summary("example")
        display.note(found.note)
        display.note(told)
    if config.hard_negatives and examples.score is not None:
        raise BanyanError("hard negatives are for examples without scores, which rank all pairs: leave out --hard")
    return examples, told


def _summary(told: str, path: str | Path | None, start: Path) -> str:
    """What the model card says about the text."""
    name = f" of {Path(path).name}" if path else ""
    return card.text_since(f"Tuned on texts that belong together{name}: {told}", start)


def _tell(measured: Measured, path: Path, display: Display) -> None:
    """Print whether tuning paid, and add it to the model card."""
    display.note(measured.to_text())
    before, heading, after = path.read_text(encoding="utf-8").partition("## Limits\n")
    found = f"On examples that were held out, with 95% intervals of the differences:\n\n{measured.to_markdown()}"
    files.write_text(path, f"{before}## Before and after tuning\n{found}\n{heading}{after}")


def recounted(model: Banyan, texts: Store) -> dict[str, np.ndarray]:
    """The weights of the model. Its tokens, and the n-grams of its lexical part, are weighted by how rare they are in
    these texts."""
    longer = _rarity(model.embedding, texts)
    weights = {**model.weights, "embedding": model.embedding * longer[:, None]}
    if model.config.hashes_words:
        sample = texts.batch(shuffled(len(texts), 0, 0))  # document frequencies are counted in its first texts
        weights["lexical_idf"] = weights_of(*sample, spelling(model.tokenizer.pieces))
    return weights


def _rarity(embedding: np.ndarray, texts: Store) -> np.ndarray:
    """The IDF of tokens in texts, float32 [V], times a factor: the tokens that texts have keep their mean norm."""
    n, V = len(texts), len(embedding)
    text = np.repeat(np.arange(n), np.diff(texts.offsets))
    codes = np.sort(text * V + texts.tokens)
    having = np.bincount(codes[np.diff(codes, prepend=-1) > 0] % V, minlength=V)
    idf, norms = np.log((n + 1) / (having + 1)) + 1, having * np.linalg.norm(embedding, axis=1)
    return (idf * norms.sum() / max(norms @ idf, 1e-9)).astype(np.float32)
