"""Model folders with a few values, bytes or files changed. Each must load and work, or be refused in one sentence.

A model that loads must give finite vectors, the same alone and in a batch. A worker process tries one folder after
another under a ceiling of memory; a folder that takes it too long, or kills it, has failed. A second worker tries them
with Numba's kernels compiled to check every index.
"""

from __future__ import annotations

import copy
import json
import os
import random
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from banyan.support.checksums import SUMS
from torture.campaign import Outcome, Plan

TITLE = "mutated model folders"
SECONDS = 10  # per folder
BYTES = 2 << 30  # memory beyond that of a process that has loaded the models
TEXTS = ["The cat sat on the mat.", "", "a", "naïve ½ ﬁ e\u0301 東京 🙂", "7:30 (1984)", "x" * 300, "  the  dog "]
TEXTS.append("\ud800 \x00")
_NUMBERS = (0, 1, -1, 2, 255, 2**31, 2**63, 2**64, 300_000_000, 0.5, -0.0, 1e-320, 1e300, 1e308, -1e308, 1e39)
_ODD: tuple[Any, ...] = (None, True, False, "", "x", "▁", "\ud800", [], {}, [[]], [1], "x" * 5000)
_ODD += (float("nan"), float("inf"))
_TYPES = ("F64", "F32", "F16", "BF16", "I64", "I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "I32", "X", "")


# --- The models ------------------------------------------------------------------------------------------------------


def models(work: Path) -> list[Path]:
    """Folders of small models of every kind."""
    import numpy as np

    from banyan import Banyan
    from banyan.config import Config
    from banyan.model.functions import Functions
    from banyan.model.shapes import GATES
    from banyan.model.word_ngrams import BUCKETS
    from banyan.tokenizer import Tokenizer

    rng = np.random.default_rng(1)
    words = "the a cat dog sat slept on mat house tree green runs slowly quickly over under".split()
    texts = [" ".join(rng.choice(words, 6)) for _ in range(50)]
    kinds: dict[str, dict[str, Any]] = {
        "bpe": {},
        "linear": {"functions": "linear"},
        "pieces": {"subword_model": "unigram", "sublinear_tf": True, "lexical_dim": 8},
        "words": {"subword_model": "unigram", "sublinear_tf": True, "lexical_dim": 8, "lexical_ngrams": "words"},
        "taught": {"subword_model": "unigram", "taught_dim": 4, "lexical_dim": 8, "lexical_ngrams": "words"},
    }
    for name, settings in kinds.items():
        config = Config(dim=16, channels=8, vocab_size=400, **settings)
        tokenizer = Tokenizer.train(texts, kind=config.subword_model, vocab_size=400)
        gate = (2, 2) if config.functions == "linear" else (2,)
        shapes = {name: gate if name in GATES else (2,) for name in Functions._fields}
        shapes["embedding"] = (tokenizer.vocab_size, 16)
        weights = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
        if config.hashes_words:
            weights["lexical_idf"] = rng.integers(1, 40, BUCKETS, np.uint8)
        elif config.lexical_dim:
            weights["lexical"] = rng.integers(-9, 9, (tokenizer.vocab_size, 8)).astype(np.int8)
        Banyan(config, tokenizer, weights).save_pretrained(work / name)
    return [*(work / name for name in kinds), *_classifiers(work, work / "words", texts)]


def _classifiers(work: Path, folder: Path, texts: list[str]) -> list[Path]:
    """Classifiers of texts, and of pairs of texts, on top of a model."""
    import numpy as np

    from banyan import Banyan
    from banyan.classify.calibration import Calibration
    from banyan.classify.classifier import Classifier
    from banyan.classify.features import Ragged, Vocabulary, bits_for, digits_of, width
    from banyan.classify.head import Head

    model, rng, classes = Banyan.from_pretrained(folder), np.random.default_rng(2), ["no", "yes"]
    tokens = Ragged(*model.tokenizer.encode(texts))
    for name, pair in (("labels", False), ("pairs", True)):
        vocabulary = Vocabulary.of((tokens, tokens.take(np.arange(len(texts))[::-1])) if pair else (tokens,),
                                   bits_for(2), digits_of(model))  # fmt: skip
        shapes = (width(model, pair), 2), (2,), (len(vocabulary.idf), 2)
        head = Head(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes))
        Classifier(model, classes, pair, pair, head, vocabulary, Calibration(2.0, 0.1)).save_pretrained(work / name)
    return [work / "labels", work / "pairs"]


# --- Mutations -------------------------------------------------------------------------------------------------------


def mutate(folder: Path, rng: random.Random) -> str:
    """Change something in a model folder, and remove its checksums: they would stop it. Return what was changed."""
    (folder / SUMS).unlink()
    names = ("config.json", "tokenizer.json", "tokenizer.json", "model.safetensors", "model.safetensors")
    own = ("classifier.json", "classifier.json", "classifier.safetensors", "classifier.safetensors")
    name = rng.choice(own if (folder / own[0]).exists() else names)
    path = folder / name
    ways = (_bytes, _json if path.suffix == ".json" else _tensors)
    if rng.random() < 0.03:
        way: Callable[[Path, random.Random], str] = _file
    else:
        way = rng.choices(ways, (1, 5))[0]
    return f"{name}: {way(path, rng)}"


def _file(path: Path, rng: random.Random) -> str:
    what = rng.choice(("gone", "empty", "folder", "link to itself", "unreadable bytes", "nested"))
    path.unlink()
    if what == "empty":
        path.touch()
    elif what == "folder":
        path.mkdir()
    elif what == "link to itself":
        path.symlink_to(path)
    elif what == "unreadable bytes":
        path.write_bytes(rng.randbytes(2000))
    elif what == "nested":
        path.write_text("[" * 200_000)
    return what


def _bytes(path: Path, rng: random.Random) -> str:
    """Flip bits, cut, or repeat a part."""
    data = bytearray(path.read_bytes())
    what = rng.choice(("flips", "cut", "repeat"))
    if what == "flips":
        for _ in range(rng.choice((1, 1, 3, 50))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif what == "cut":
        del data[rng.randrange(len(data)) :]
    else:
        start = rng.randrange(len(data))
        data[start:start] = data[start : start + rng.randrange(1, 2000)] * rng.choice((1, 2, 500))
    path.write_bytes(data)
    return what


def _json(path: Path, rng: random.Random) -> str:
    values = json.loads(path.read_text())
    told = [_change(values, rng) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
    path.write_text(json.dumps(values))
    return ", ".join(told)


def _change(values: Any, rng: random.Random, steps: str = "") -> str:
    """Change a random value somewhere inside, more often near the surface."""
    places = list(values) if isinstance(values, dict) else list(range(len(values)))
    if not places:
        return "nothing"
    place = rng.choice(places)
    inside = values[place]
    steps += f"/{str(place)[:20]}"
    if isinstance(inside, dict | list) and inside and rng.random() < 0.8:
        if rng.random() < 0.05:
            return f"{steps} {_every(inside, rng)}"
        return _change(inside, rng, steps)
    if rng.random() < 0.1:
        del values[place]
        return f"{steps} gone"
    new = _value(inside, rng)
    if isinstance(values, dict) and rng.random() < 0.2:
        values[str(_value("x", rng))] = values.pop(place)
        return f"{steps} renamed"
    values[place] = new
    return f"{steps} = {str(new)[:30]!r}"


def _value(old: Any, rng: random.Random) -> Any:
    if rng.random() < 0.2 and isinstance(old, str):
        return old * rng.choice((2, 300, 20_000))
    if rng.random() < 0.02:
        return json.loads("[" * 900 + "]" * 900)
    same = _NUMBERS if isinstance(old, int | float) and not isinstance(old, bool) else _ODD
    return copy.deepcopy(rng.choice(same if rng.random() < 0.7 else (*_NUMBERS, *_ODD)))


def _every(values: Any, rng: random.Random) -> str:
    """Change every number below."""
    new = [rng.choice(_NUMBERS) for _ in range(rng.choice((1, 2)))]

    def walk(here: Any) -> None:
        for place in list(here) if isinstance(here, dict) else range(len(here)):
            if isinstance(here[place], dict | list):
                walk(here[place])
            elif isinstance(here[place], int | float):
                here[place] = rng.choice(new)

    walk(values)
    return f"every number = {new}"


def _tensors(path: Path, rng: random.Random) -> str:
    """Change the header, or single numbers."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    name = rng.choice([name for name in head if name != "__metadata__" and 0 not in head[name]["shape"]])
    what = rng.choice(("numbers", "numbers", "type", "header", "size", "shape"))
    if what == "numbers":
        first, last = head[name]["data_offsets"]
        new = rng.choice(("ffff7f7f", "0000807f", "0000c07f", "000080ff", "00000000", "ffffffff", "01000000"))
        for at in range(first, last, 4) if rng.random() < 0.3 else [rng.randrange(first, last - 3) // 4 * 4]:
            body[at : at + 4] = bytes.fromhex(new)
        what = f"{name} = {new}"
    elif what == "type":
        head[name]["dtype"] = rng.choice(_TYPES)
    elif what == "shape":
        rng.shuffle(head[name]["shape"])
        head[name]["shape"] = rng.choice((head[name]["shape"], [*head[name]["shape"], 1], [1, 1], [2**40], [], [0]))
    elif what == "header":
        what = _change(head, rng)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    size = len(text) if what != "size" else rng.choice((0, 1, len(text) - 8, len(text) + 8, 2**40, 2**63))
    path.write_bytes(size.to_bytes(8, "little") + text + body)
    return what


# --- Trying ----------------------------------------------------------------------------------------------------------


def examine(folder: Path) -> str:
    """Load a model as the server does and use it. Return "works" or "refused", or what is wrong."""
    import numpy as np

    from banyan import Banyan
    from banyan.classify.classifier import Classifier, has_classifier
    from banyan.errors import BanyanError

    try:
        model = Banyan.from_pretrained(folder)
        together = model.encode(TEXTS)
        if not np.isfinite(together).all():
            return "FAILED: vectors that are not finite"
        for text, row in zip(TEXTS, together, strict=True):
            if not np.array_equal(model.encode(text), row):
                return "FAILED: alone and in a batch differ"
        model.parse(TEXTS[0])
        model.explain(TEXTS[0], TEXTS[3])
        if has_classifier(folder):
            return _classified(Classifier.of(model))
    except BanyanError as error:
        message = str(error)
        return "refused" if message.strip() and "\n" not in message else f"FAILED: not one sentence: {message!r}"
    except BaseException as error:
        return f"FAILED: {type(error).__name__}: {str(error)[:200]!r}"
    return "works"


def _classified(classifier: Any) -> str:
    import numpy as np

    texts = list(zip(TEXTS, TEXTS[::-1], strict=True)) if classifier.pair else TEXTS
    together = classifier.predict_proba(texts)
    if not np.isfinite(together).all():
        return "FAILED: probabilities that are not finite"
    alone = np.concatenate([classifier.predict_proba([text]) for text in texts])
    classifier.explain(texts[0])
    return "works" if np.array_equal(alone, together) else "FAILED: probabilities alone and in a batch differ"


def _worker() -> None:
    """Try the folders named on standard input."""
    import resource

    for warm in sys.stdin.readline().split("\t"):
        assert examine(Path(warm.strip())) == "works", warm
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(examine(Path(line.strip()))), flush=True)


class Worker:
    """A process that examines folders, and is replaced when it dies."""

    def __init__(self, good: list[Path], **environment: str) -> None:
        self.good, self.environment = good, os.environ | environment
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "torture.folders"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=self.environment,
        )  # fmt: skip
        found = self._asked("\t".join(map(str, self.good)), 900)  # it may compile
        assert found == "ready", found

    def _asked(self, line: str, seconds: float) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.process.kill()
            return f"FAILED: no end within {seconds:.0f} s"
        return self.process.stdout.readline().strip()

    def examine(self, folder: Path) -> str:
        found = self._asked(str(folder), SECONDS)
        if found and not found.startswith("FAILED"):
            return json.loads(found)
        code = self.process.wait()
        self._start()
        return found or f"FAILED: the process died, exit code {code}"

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def run(plan: Plan) -> Outcome:
    good = models(plan.work / "good")
    outcome, case = Outcome(), plan.work / "case"
    cache = str(plan.work / "numba")  # of its own: Numba's cache does not know whether kernels check indices
    workers = {
        "": Worker(good),
        ", indices checked": Worker(good, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=cache, BANYAN_KERNELS="numba"),
    }
    for number in plan.cases(2_000, 100_000):
        rng = plan.rng("folders", number)
        base = rng.choice(good)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(base, case)
        what = mutate(case, rng)
        for how, worker in workers.items():
            found = worker.examine(case)
            failed = found.startswith("FAILED")
            problem = f"case {number}, {base.name}, {what}: {found}" if failed else None
            outcome.count(("loaded or refused" if failed else found) + how, problem)
    for worker in workers.values():
        worker.close()
    return outcome


if __name__ == "__main__":
    _worker()
