"""The tokenised store: exact, reused, and byte for byte the same after any interruption."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.corpus import Corpus, Shard
from banyan.corpus import store as module
from banyan.corpus.report import EMPTY, Report
from banyan.corpus.store import Store, of_all_shards, shard, shuffled_batches
from banyan.errors import BanyanError
from banyan.support import files
from tests.helpers.letters import LIMITS, Letters, corpus_of
from tests.helpers.places import ROOT


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10)


def sentences(count: int) -> list[str]:
    return [f"{i:b}"[: i % 9 + 1] for i in range(count)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_store_holds_the_sentences_that_fit_and_counts_the_others(tmp_path, small_blocks):
    lines = sentences(137)
    store = Store.build(tmp_path / "store", corpus_of(tmp_path, [*lines, "", " "]), Letters(), **LIMITS)
    fit = [line for line in lines if 2 <= len(line) <= 6]
    read = ["".join(map(chr, store.tokens[a:b])) for a, b in pairwise(store.offsets)]
    assert read == fit
    assert (len(store), store.n_tokens, store.tokens.dtype) == (len(fit), sum(map(len, fit)), np.uint16)
    short, long = (sum(map(test, lines)) for test in (lambda line: len(line) < 2, lambda line: len(line) > 6))
    dropped = {EMPTY: 2, "with fewer than 2 pieces": short, "with more than 6 pieces": long}
    assert store.report == Report(files=1, lines=139, kept=len(fit), dropped=dropped)
    assert f"{short} with fewer than 2 pieces, {long} with more than 6 pieces" in store.report.summary()
    assert sorted(contents(tmp_path / "store")) == ["SHA256SUMS", "meta.json", "offsets.bin", "tokens.bin"]
    again = Store.open(tmp_path / "store")
    assert again.report == store.report
    np.testing.assert_array_equal(again.tokens, store.tokens)


def test_a_large_vocabulary_takes_wider_tokens(tmp_path):
    store = Store.build(tmp_path / "store", corpus_of(tmp_path, ["🐟🐠🐡"]), Letters(1 << 17), **LIMITS)
    assert store.tokens.dtype == np.uint32
    tokens, _ = store.batch(np.array([0]))
    assert tokens.dtype == np.int32
    assert tokens.tolist() == [ord(char) for char in "🐟🐠🐡"]


def test_a_token_outside_the_vocabulary_is_refused_rather_than_wrapped(tmp_path):
    with pytest.raises(BanyanError, match="token outside its vocabulary of 65,536"):
        Store.build(tmp_path / "store", corpus_of(tmp_path, ["🐟🐠🐡"]), Letters(), **LIMITS)


@given(st.lists(st.lists(st.integers(0, 60_000), min_size=1, max_size=9), min_size=1, max_size=20), st.data())
@settings(deadline=None, max_examples=100)
def test_a_batch_is_what_a_plain_loop_gathers(rows, data):
    store = Store(np.concatenate(rows).astype(np.uint16), np.cumsum([0, *map(len, rows)]), Report(), "")
    indices = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1))), np.int64)
    tokens, offsets = store.batch(indices)
    assert (tokens.dtype, offsets.dtype) == (np.int32, np.int64)
    assert [tokens[a:b].tolist() for a, b in pairwise(offsets)] == [rows[i] for i in indices]
    assert (offsets[0], offsets[-1]) == (0, len(tokens))


def test_an_unchanged_store_is_reused_and_a_changed_one_built_again(tmp_path):
    folder, lines = tmp_path / "store", sentences(50)

    def sentences_tokenised(tokenizer: Letters, limits: dict[str, int]) -> int:
        Store.build(folder, corpus_of(tmp_path, lines), tokenizer, **limits)
        return tokenizer.given

    assert sentences_tokenised(Letters(), LIMITS) == 50
    assert sentences_tokenised(Letters(), LIMITS) == 0
    assert sentences_tokenised(Letters(60_000), LIMITS) == 50
    assert sentences_tokenised(Letters(60_000), {"min_pieces": 3, "max_pieces": 6}) == 50
    assert sentences_tokenised(Letters(60_000), {"min_pieces": 3, "max_pieces": 5}) == 50
    os.utime(tmp_path / "corpus.txt", ns=(1, 1))
    assert sentences_tokenised(Letters(60_000), {"min_pieces": 3, "max_pieces": 5}) == 0
    (tmp_path / "corpus.txt").write_text("".join(f"{line}\n" for line in reversed(lines)))
    assert sentences_tokenised(Letters(60_000), {"min_pieces": 3, "max_pieces": 5}) == 50
    os.truncate(folder / "tokens.bin", 4)
    assert sentences_tokenised(Letters(60_000), {"min_pieces": 3, "max_pieces": 5}) == 50
    assert sentences_tokenised(Letters(60_000), {"min_pieces": 3, "max_pieces": 5}) == 0


def test_a_store_of_an_earlier_version_is_reused(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path, sentences(50))
    by_time = corpus.fingerprints()[1:]
    monkeypatch.setattr(corpus, "fingerprints", lambda: by_time)
    before = Store.build(tmp_path / "store", corpus, Letters(), **LIMITS)
    monkeypatch.undo()
    tokenizer = Letters()
    assert Store.build(tmp_path / "store", corpus, tokenizer, **LIMITS).fingerprint == before.fingerprint
    assert tokenizer.given == 0


def in_blocks_of_lines(count: int) -> list[str]:
    """The sentences as paragraphs of 1 to 7 lines."""
    rng = random.Random(0)
    return [line for one in sentences(count) for line in ([one, ""] if rng.random() < 0.3 else [one])]


def test_a_store_keeps_the_first_sentence_of_each_paragraph(tmp_path, small_blocks):
    lines = in_blocks_of_lines(137)
    store = Store.build(tmp_path / "store", corpus_of(tmp_path, lines, "blocks"), Letters(), **LIMITS)
    read = ["".join(map(chr, store.tokens[a:b])) for a, b in pairwise(store.offsets)]
    paragraphs = [[line for line in one.split("\n") if 2 <= len(line) <= 6] for one in "\n".join(lines).split("\n\n")]
    kept = [one for one in paragraphs if one]
    assert len(kept) < len(paragraphs)
    assert store.paragraphs.tolist() == np.cumsum([0, *map(len, kept)])[:-1].tolist()
    assert [read[a:b] for a, b in pairwise([*store.paragraphs, len(store)])] == kept
    names = ["SHA256SUMS", "meta.json", "offsets.bin", "paragraphs.bin", "tokens.bin"]
    assert sorted(contents(tmp_path / "store")) == names
    np.testing.assert_array_equal(Store.open(tmp_path / "store").paragraphs, store.paragraphs)
    alone = Store.build(tmp_path / "store", corpus_of(tmp_path, lines), Letters(), **LIMITS)  # the same sentences
    assert alone.paragraphs is None
    assert alone.fingerprint != store.fingerprint
    assert alone.tokens.tobytes() == store.tokens.tobytes()
    assert sorted(contents(tmp_path / "store")) == ["SHA256SUMS", "meta.json", "offsets.bin", "tokens.bin"]
    Store.build(tmp_path / "store", corpus_of(tmp_path, lines, "blocks"), Letters(), **LIMITS)
    os.truncate(tmp_path / "store/paragraphs.bin", 8)
    with pytest.raises(BanyanError, match="is damaged"):
        Store.open(tmp_path / "store")


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=8), st.data())
@settings(deadline=None, max_examples=200)
def test_paragraphs_do_not_depend_on_the_blocks_they_arrive_in(paragraphs, data):
    begins = np.array([i == 0 for one in paragraphs for i in range(len(one))])
    keep = np.array([kept for one in paragraphs for kept in one])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(keep)))) | {0, len(keep)})
    found, begun, before = [], False, 0
    for a, b in pairwise(cuts):
        first, begun = module._first_kept(begins[a:b], keep[a:b], begun)
        found += (before + first).tolist()
        before += int(keep[a:b].sum())
    sizes = [sum(one) for one in paragraphs]
    assert found == [sum(sizes[:i]) for i, size in enumerate(sizes) if size]


@pytest.mark.parametrize("layout", ["lines", "blocks"])
@pytest.mark.parametrize("stop_after", [0, 9, 10, 55, 130])
def test_an_interrupted_build_goes_on_where_it_stopped(tmp_path, small_blocks, stop_after, layout):
    corpus = corpus_of(tmp_path, in_blocks_of_lines(137), layout)
    Store.build(tmp_path / "whole", corpus, Letters(), **LIMITS)
    folder = tmp_path / "store"
    Store.build(folder, corpus, Letters(60_000), **LIMITS)  # a store of another kind, which is in the way
    with pytest.raises(KeyboardInterrupt):
        Store.build(folder, corpus, Letters(stop_after=stop_after), **LIMITS)
    with pytest.raises(BanyanError, match="there is no finished store"):
        Store.open(folder)
    for path in folder.glob("*.bin"):  # a block that was written but not recorded, or half of one
        with open(path, "ab") as file:
            file.write(b"\xff" * 13)
    (folder / ".meta.json.1.tmp").write_text("half of a rec")
    rest = Letters()
    Store.build(folder, corpus, rest, **LIMITS)
    assert rest.given == 137 - stop_after // 10 * 10
    assert contents(folder) == contents(tmp_path / "whole")


def test_a_store_is_not_resumed_with_another_recipe_or_from_lost_files(tmp_path, small_blocks):
    corpus = corpus_of(tmp_path, sentences(137))
    whole = Store.build(tmp_path / "whole", corpus, Letters(), **LIMITS)
    for spoil in ("recipe", "files"):
        folder = tmp_path / spoil
        with pytest.raises(KeyboardInterrupt):
            Store.build(folder, corpus, Letters(60_000 if spoil == "recipe" else 1 << 16, stop_after=99), **LIMITS)
        if spoil == "files":
            os.truncate(folder / "offsets.bin", 8)
        rest = Letters()
        assert len(Store.build(folder, corpus, rest, **LIMITS)) == len(whole)
        assert rest.given == 137
        assert contents(folder) == contents(tmp_path / "whole")


def test_long_sentences_make_smaller_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_CHARACTERS", 100)
    blocks = []

    class Watched(Letters):
        def encode(self, texts):
            blocks.append(len(texts))
            return super().encode(texts)

    Store.build(tmp_path / "s", corpus_of(tmp_path, ["x" * 60] * 9 + ["ab"] * 20), Watched(), **LIMITS)
    assert blocks == [2, 2, 2, 2, 21]


KILLED = """
import sys, time
from tests.helpers.letters import LIMITS, Letters, corpus_of
from pathlib import Path
from banyan.corpus import store
store.BLOCK = 25
class Slow(Letters):
    def encode(self, texts):
        time.sleep(0.004)
        with open(sys.argv[2], "a") as log:
            log.write(f"{len(texts)}\\n")
        return super().encode(texts)
corpus = corpus_of(Path(sys.argv[1]).parent, [], "blocks")
print("go", flush=True)
store.Store.build(sys.argv[1], corpus, Slow(), **LIMITS)
"""


def test_a_build_killed_again_and_again_ends_as_if_it_never_was(tmp_path):
    corpus = corpus_of(tmp_path, in_blocks_of_lines(2500), "blocks")
    Store.build(tmp_path / "whole", corpus, Letters(), **LIMITS)
    folder, log = tmp_path / "store", tmp_path / "log"
    moments = random.Random(0)
    kills = 0
    while True:
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder), str(log)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            if kills < 6:
                time.sleep(moments.uniform(0, 0.15))
                child.send_signal(signal.SIGKILL)
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL
        kills += 1
    assert contents(folder) == contents(tmp_path / "whole")
    assert sum(map(int, log.read_text().split())) <= 2500 + 25 * kills


def test_a_full_disk_is_said_in_a_sentence_and_loses_nothing(tmp_path, small_blocks, monkeypatch):
    corpus = corpus_of(tmp_path, sentences(137))
    whole = Store.build(tmp_path / "whole", corpus, Letters(), **LIMITS)
    folder, real, calls = tmp_path / "store", files.write_text, []

    def full(path, text):
        calls.append(path)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", full)
        with pytest.raises(BanyanError, match=r"cannot write .*/store: No space left on device; the sentences"):
            Store.build(folder, corpus, Letters(), **LIMITS)
    rest = Letters()
    assert len(Store.build(folder, corpus, rest, **LIMITS)) == len(whole)
    assert rest.given == 137 - 40
    assert contents(folder) == contents(tmp_path / "whole")


def test_a_limit_on_file_sizes_is_said_in_a_sentence(tmp_path):
    resource = pytest.importorskip("resource")
    corpus = corpus_of(tmp_path, ["abcd"] * 30_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(BanyanError, match=r"cannot write the tokenised corpus to .*: File too large"):
            Store.build(tmp_path / "store", corpus, Letters(), **LIMITS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_corpus_of_which_nothing_is_left_is_an_error_with_the_counts(tmp_path):
    corpus = corpus_of(tmp_path, ["a", "", "much too long", "b"])
    for _ in range(2):
        with pytest.raises(BanyanError) as caught:
            Store.build(tmp_path / "store", corpus, Letters(), **LIMITS)
        assert str(caught.value) == (
            "the corpus has no sentence to train on: 4 lines read from 1 file, 0 sentences kept, "
            "4 dropped (1 empty, 2 with fewer than 2 pieces, 1 with more than 6 pieces)."
        )


def test_a_corpus_that_changes_while_it_is_read_is_an_error(tmp_path, small_blocks):
    corpus = corpus_of(tmp_path, sentences(50))

    def grow(done: float, total: float) -> None:
        with open(corpus.paths[0], "a") as file:
            file.write("one more\n")

    with pytest.raises(BanyanError, match="the corpus changed while it was read"):
        Store.build(tmp_path / "store", corpus, Letters(), progress=grow, **LIMITS)
    Store.build(tmp_path / "store", Corpus(corpus.paths), Letters(), **LIMITS)


def test_progress_grows_to_the_number_of_sentences(tmp_path, small_blocks):
    told = []
    corpus = corpus_of(tmp_path, sentences(137))
    Store.build(tmp_path / "s", corpus, Letters(), progress=lambda done, total: told.append((done, total)), **LIMITS)
    assert [done for done, _ in told] == [*range(10, 131, 10), 137]
    assert all(done <= total for done, total in told)
    assert told[-1] == (137, 137)


def test_a_store_of_a_newer_format_or_a_damaged_one_is_refused(tmp_path):
    folder = tmp_path / "store"
    Store.build(folder, corpus_of(tmp_path, sentences(50)), Letters(), **LIMITS)
    meta = json.loads((folder / "meta.json").read_text())
    spoiled = tmp_path / "newer"
    shutil.copytree(folder, spoiled)
    (spoiled / "meta.json").write_text(json.dumps({**meta, "format": 99, "banyan_version": "9.0"}))
    with pytest.raises(BanyanError, match=r"written by banyan 9\.0 in format 99; .* upgrade banyan-embed"):
        Store.open(spoiled)
    (spoiled / "meta.json").write_text("{nonsense")
    with pytest.raises(BanyanError, match=r"cannot read .*meta\.json: .*; delete it to tokenise again"):
        Store.open(spoiled)
    os.truncate(folder / "offsets.bin", 16)
    with pytest.raises(BanyanError, match="is damaged"):
        Store.open(folder)
    with pytest.raises(BanyanError, match="there is no finished store in"):
        Store.open(tmp_path / "nowhere")


@given(st.integers(1, 300), st.integers(1, 50), st.integers(0, 1 << 40), st.integers(0, 99))
@settings(deadline=None, max_examples=100)
def test_an_epoch_takes_every_sentence_once(n, batch_size, seed, epoch):
    batches = shuffled_batches(n, batch_size, seed, epoch)
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert 0 < len(batches[-1]) <= batch_size
    assert sorted(np.concatenate(batches).tolist()) == list(range(n))


def test_the_order_depends_on_seed_and_epoch_alone():
    def order(seed: int, epoch: int, batch_size: int = 10) -> list[int]:
        return np.concatenate(shuffled_batches(100, batch_size, seed, epoch)).tolist()

    assert order(3, 1) == order(3, 1) == order(3, 1, batch_size=7)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9
    assert order(0, 0)[:8] == [0, 72, 31, 8, 51, 19, 26, 9]  # recorded, so that a change is noticed


# --- Shards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [2, 3, 7])
def test_shards_hold_every_sentence_once_and_their_reports_add_up(tmp_path, small_blocks, world):
    lines = sentences(137)
    corpus = corpus_of(tmp_path, [*lines, "", " "])
    whole = Store.build(tmp_path / "whole", corpus, Letters(), **LIMITS)
    tokenizers = [Letters() for _ in range(world)]
    for rank, tokenizer in enumerate(tokenizers):
        Store.build(shard(tmp_path, rank, world), Shard(corpus, rank, world), tokenizer, **LIMITS)
    assert [tokenizer.given for tokenizer in tokenizers] == [len(lines[rank::world]) for rank in range(world)]
    for rank in range(world):
        store = Store.open(tmp_path / f"shard-{rank}-of-{world}")
        read = ["".join(map(chr, store.tokens[a:b])) for a, b in pairwise(store.offsets)]
        assert read == [line for line in lines[rank::world] if 2 <= len(line) <= 6]
    assert of_all_shards(tmp_path, world) == whole.report


def test_shards_hold_whole_paragraphs(tmp_path, small_blocks):
    lines = in_blocks_of_lines(137)
    corpus = corpus_of(tmp_path, lines, "blocks")
    paragraphs = [[line for line in one.split("\n") if 2 <= len(line) <= 6] for one in "\n".join(lines).split("\n\n")]
    for rank in range(3):
        store = Store.build(shard(tmp_path, rank, 3), Shard(corpus, rank, 3), Letters(), **LIMITS)
        read = ["".join(map(chr, store.tokens[a:b])) for a, b in pairwise(store.offsets)]
        kept = [one for one in paragraphs[rank::3] if one]
        assert [read[a:b] for a, b in pairwise([*store.paragraphs, len(store)])] == kept
    assert of_all_shards(tmp_path, 3).kept == sum(map(len, paragraphs))
    few = corpus_of(tmp_path / "shard-0-of-3", ["ab", "cd", "", "ef"], "blocks")
    with pytest.raises(BanyanError, match="fewer paragraphs than there are processes"):
        Store.build(tmp_path / "few", Shard(few, 2, 3), Letters(), **LIMITS)


def test_an_interrupted_shard_goes_on_and_is_no_other_shard(tmp_path, small_blocks):
    corpus = corpus_of(tmp_path, sentences(137))
    mine, other = Shard(corpus, 1, 3), Shard(corpus, 1, 2)
    whole = Store.build(tmp_path / "whole", mine, Letters(), **LIMITS)
    with pytest.raises(KeyboardInterrupt):
        Store.build(tmp_path / "store", mine, Letters(stop_after=25), **LIMITS)
    rest = Letters()
    again = Store.build(tmp_path / "store", mine, rest, **LIMITS)
    assert rest.given == 46 - 20
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")
    assert again.fingerprint == whole.fingerprint
    assert Store.build(tmp_path / "store", other, Letters(), **LIMITS).fingerprint != whole.fingerprint


def test_each_rank_shuffles_in_its_own_way_and_the_first_as_one_alone():
    orders = [np.concatenate(shuffled_batches(1000, 64, 5, 2, rank)) for rank in range(3)]
    np.testing.assert_array_equal(orders[0], np.concatenate(shuffled_batches(1000, 64, 5, 2)))
    for order in orders:
        assert sorted(order) == list(range(1000))
    for one, two in pairwise(orders):
        assert (one == two).sum() < 10
