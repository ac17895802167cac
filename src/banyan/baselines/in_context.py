"""Static word vectors from a transformer: the mean of a word's contextual vectors over its occurrences in a corpus.

The paper does this for the word similarity sets (after Bommasani, Davis and Cardie 2020), because a transformer is not
trained on single words. The vectors are stored with the model, which then uses them for texts of one word:

    python -m banyan.baselines.in_context MODEL corpus.txt --words simlex.tsv --words wordsim.txt
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import save_file

from banyan.baselines.pretrained import WORD_VECTORS, MeanPooled, load, quietly
from banyan.baselines.tokens import texts
from banyan.errors import BanyanError
from banyan.evaluate.similarity import read_pairs
from banyan.support import devices, files
from banyan.support.display import Display

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


class Occurrence(NamedTuple):
    word: str
    start: int  # character offsets in the sentence
    end: int


def add(
    folder: str | Path,
    corpus_paths: Sequence[str | Path],
    words: Iterable[str],
    *,
    occurrences: int = 0,
    device: str = "auto",
    quiet: bool = False,
) -> dict[str, int]:
    """Store vectors of these words in the model's folder; return how often each word was found.

    occurrences: use at most this many of each word, from the beginning of the corpus; 0: all, as in the paper.
    """
    model, display = load(str(folder), device=str(devices.choose(device)), batch_size=128), Display(quiet)
    wanted = {word.strip().lower() for word in words}
    found = occurring(texts(corpus_paths), wanted, occurrences)
    sums: dict[str, np.ndarray] = {}
    counts = Counter[str]()
    with display.bar("words in context", None, "sentences") as meter, quietly():
        for done, (word, vector) in means(model, found):
            sums[word] = vector.astype(np.float64) + sums.get(word, 0.0)
            counts[word] += 1
            meter(done)
    if not sums:
        raise BanyanError("none of the words occur in the corpus")
    known = sorted(sums)
    vectors = np.stack([sums[word] / counts[word] for word in known]).astype(np.float32)
    with files.atomic(Path(folder) / WORD_VECTORS) as temporary:
        save_file({"vectors": vectors}, temporary, {"words": json.dumps(known, ensure_ascii=False)})
    display.note(f"{len(known):,} of {len(wanted):,} words, {counts.total():,} occurrences")
    return dict(counts)


def occurring(
    sentences: Iterable[str], wanted: set[str], occurrences: int
) -> Iterator[tuple[str, list[Occurrence]]]:
    """The sentences that contain wanted words (ignoring case), with their occurrences."""
    seen = Counter[str]()
    for sentence in sentences:
        inside = []
        for match in _WORD.finditer(sentence):
            word = match.group().lower()
            if word in wanted and not 0 < occurrences <= seen[word]:
                seen[word] += 1
                inside.append(Occurrence(word, *match.span()))
        if inside:
            yield sentence, inside


@torch.inference_mode()
def means(
    model: MeanPooled, found: Iterator[tuple[str, list[Occurrence]]]
) -> Iterator[tuple[int, tuple[str, np.ndarray]]]:
    """For each occurrence, the mean vector of the tokens that overlap it, with the number of sentences done so far."""
    done = 0
    while block := sorted(islice(found, 64 * model.batch_size), key=lambda sentence: len(sentence[0])):
        for start in range(0, len(block), model.batch_size):
            batch = block[start : start + model.batch_size]
            states, spans = _states(model, [sentence for sentence, _ in batch])
            done += len(batch)
            for row, (_, inside) in enumerate(batch):
                for word, begin, end in inside:
                    touching = (spans[row, :, 0] < end) & (spans[row, :, 1] > begin)
                    if touching.any():  # otherwise the text was truncated before the word
                        yield done, (word, states[row, touching].mean(0))


def _states(model: MeanPooled, sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The vector of each token, and its span of characters (empty for special tokens)."""
    tokenizer, transformer = model.model.tokenizer, model.model[0]
    features = tokenizer(
        sentences,
        padding=True,
        truncation=True,
        max_length=model.model.max_seq_length,
        return_tensors="pt",
        return_offsets_mapping=True,
    )
    spans = features.pop("offset_mapping").numpy()
    given = {name: tensor.to(model.model.device) for name, tensor in features.items()}
    states: Any = transformer(given)["token_embeddings"]
    return states.cpu().numpy(), spans


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of the model")
    parser.add_argument("corpus", nargs="+", help="text, as for banyan train, or a prepared folder")
    parser.add_argument("--words", action="append", required=True, type=Path, help="file of word pairs with scores")
    parser.add_argument("--occurrences", type=int, default=0, help="occurrences of each word to use (default: all)")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    pairs = [read_pairs(path) for path in options.words]
    words = {word for some in pairs for word in (*some.first, *some.second)}
    add(options.model, options.corpus, words, occurrences=options.occurrences, device=options.device)


if __name__ == "__main__":
    main()
