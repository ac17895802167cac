"""Held-out translations: what is tested is nowhere in the training text; and the baseline that translates words."""

from __future__ import annotations

import lzma
import random
import sys
from itertools import combinations
from pathlib import Path

import pytest

from banyan.corpus.parallel import ParallelText
from experiments.translations import prepare, split
from experiments.translations.pmi import WordByWord, measure
from experiments.translations.split import Pair, Split, key


@pytest.fixture(autouse=True)
def small_sets(monkeypatch):
    monkeypatch.setattr(split, "TEST", 10)
    monkeypatch.setattr(split, "DEV", 5)


def made(language: str, verses: range) -> list[Pair]:
    held_out = split.SOURCES[language]
    pairs = [Pair(f"Verse {i} is here.", f"Verse {language} {i}. A second long sentence {i}.", "bible") for i in verses]
    return pairs + [Pair(f"Health {i}.", f"{language} health {i}", held_out) for i in range(20)]


ALL = {"ha": made("ha", range(100)), "te": made("te", range(30, 200))}


def english(pairs: list[Pair]) -> set[str]:
    return {key(pair.english) for pair in pairs}


def test_keys_ignore_case_punctuation_and_white_space_but_not_indic_vowel_signs():
    assert key("  “Don't” GO, 7-times! ") == key("dont go 7 TIMES") == "dontgo7times"
    assert key("कि") != key("का")
    assert key("قَالَ") == key("قال")


def test_what_one_language_holds_out_no_language_trains_on():
    parts = Split(ALL).parts
    held_out = [english([*one.dev, *one.verses, *one.source]) for one in parts.values()]
    for one in parts.values():
        assert (len(one.dev), len(one.verses), len(one.source)) == (5, 10, 10)
        assert not english(one.train) & set().union(*held_out)
        assert not {key(pair.other) for pair in one.train} & {key(pair.other) for pair in [*one.dev, *one.verses]}
    assert not english(parts["ha"].dev) & english(parts["te"].verses)
    assert english(parts["ha"].verses) != english(parts["te"].verses)


def test_the_held_out_source_is_held_out_whole_and_no_pair_is_lost():
    for language, one in Split(ALL).parts.items():
        assert {pair.source for pair in one.train + one.dev + one.verses} == {"bible"}
        assert {pair.source for pair in one.source} == {split.SOURCES[language]}
        assert sorted(pair for pairs in one for pair in pairs) == sorted(ALL[language])


def test_a_pair_with_an_equal_side_is_held_out_too():
    first = Split(ALL).parts["ha"].verses[0]
    twins = [Pair(first.english.upper(), "wani", "bible"), Pair("Other words", f"«{first.other}»", "bible")]
    one = Split({**ALL, "ha": ALL["ha"] + twins}).parts["ha"]
    assert not set(twins) & set(one.train)
    assert len(one.verses) == len(english(one.verses))


def test_the_split_does_not_depend_on_the_order_of_the_pairs():
    shuffled = {language: random.Random(0).sample(pairs, len(pairs)) for language, pairs in ALL.items()}
    for language, one in Split(shuffled).parts.items():
        assert one[1:4] == Split(ALL).parts[language][1:4]


def test_a_corpus_loses_the_held_out_texts_and_their_sentences():
    divided = Split(ALL)
    held_out, trained = divided.parts["ha"].verses[0], divided.parts["ha"].train[0]
    number = held_out.other.split()[2].rstrip(".")
    gone = [held_out.other.upper(), f"a second long sentence {number}", "HA health 3."]
    kept = [trained.other, f"verse ha {number}"]  # the latter is too short to tell
    assert list(divided.kept("ha", kept + gone)) == kept
    assert list(divided.kept("en", [held_out.english, "Health 3", "a line"])) == ["a line"]


def test_prepared_files_hold_the_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(split, "LANGUAGES", ("ha", "te"))
    for language, pairs in ALL.items():
        write(tmp_path / f"parallel/{language}.tsv.xz", ["\t".join(pair) for pair in pairs])
    write(tmp_path / "corpora/ha/train.txt.xz", [pair.other for pair in ALL["ha"]])
    write(tmp_path / "corpora/en/train.txt.xz", ["Health 3!", "a line"])
    arguments = ["prepare", "ha", "en", "--work", str(tmp_path / "work"), "--data", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*arguments, "--out", str(tmp_path / "counts.json")])
    assert prepare.main() == 0
    one = Split(ALL).parts["ha"]
    for name in prepare.SETS:
        found = list(ParallelText(tmp_path / f"work/ha/{name}.tsv.xz"))
        assert found == [(pair.english, pair.other) for pair in getattr(one, name)]
    with lzma.open(tmp_path / "work/ha/corpus.txt.xz", "rt") as file:
        left = file.read().splitlines()
    assert {pair.other for pair in one.train} <= set(left)
    assert f"ha {len(one.train)} 5 10 tico19 10 {len(one.unused)} 120 {120 - len(left)}\n" in capsys.readouterr().out
    with lzma.open(tmp_path / "work/en/corpus.txt.xz", "rt") as file:
        assert file.read() == "a line\n"


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


# --- The baseline ----------------------------------------------------------------------------------------------------

WORDS = "tree river stone house bird field cloud road horse wind fire rain".split()


def sentences(n: int, seed: int) -> list[Pair]:
    """Sentences of four words, and the same words reversed and spelt backwards."""
    drawn = random.Random(seed).sample(list(combinations(WORDS, 4)), n)
    return [Pair(" ".join(some), " ".join(word[::-1] for word in reversed(some)), "toy") for some in drawn]


def test_words_translated_by_pmi_find_translations_both_ways():
    model = WordByWord(sentences(200, 0))
    found = model.translations.toarray()
    for word in WORDS:
        of_word = found[model.other.numbers[word[::-1]]]
        assert of_word.argmax() == model.english.numbers[word]
    assert [outcome.value for outcome in measure(model, sentences(40, 1), "toy")] == [100] * 4


def test_an_unseen_word_stands_for_itself():
    model = WordByWord(sentences(200, 0))
    pairs = [Pair(f"tree {name}", f"eert {name}", "toy") for name in ("ada", "grace", "1815")]
    assert [outcome.value for outcome in measure(model, pairs, "toy")] == [100] * 4
