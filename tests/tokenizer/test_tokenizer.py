from __future__ import annotations

import copy
import io
import json
import lzma
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors

from banyan.errors import BanyanError
from banyan.support.needs import pip_install
from banyan.tokenizer import making
from banyan.tokenizer import tokenizer as module
from banyan.tokenizer.making import suitable_vocab_size
from banyan.tokenizer.rules import BYTES
from banyan.tokenizer.tokenizer import Tokenizer

SENTENCES = """\
The (word), which he gave in 1984, is the first of the 12 words of the book; the others (all of them) came later.
Don't give the words away... the book of the law says: "The law is the law," and so on and on and on!
Die Straße war naß, und die Äpfel fielen im Jahre 1999 über den Weg, während die Kinder spielten.
Tiếng Việt được viết bằng chữ Quốc ngữ, với nhiều dấu thanh và các chữ cái đặc biệt.
Η γλώσσα των Ελλήνων έχει πολλές λέξεις που τελειώνουν σε ς, όπως ο λόγος.
Русский язык использует кириллицу, а ёлка и й пишутся одной буквой.
जम्मू क्षेत्र में मंगलवार सुबह 4.0 तीव्रता का भूकंप आया, और लड़का पढ़ाई छोड़कर बड़ा हुआ।
বাংলা ভাষায় অনেক যুক্তাক্ষর আছে, যেমন ক্ষ, জ্ঞ এবং ঙ্গ।
ஒரு கோயில் பெரிய தெருவில் இருந்தது, அதன் கோபுரம் உயரமானது.
ስብሰባው ከክልሉ ፕሬዝዳንት ከአቶ ገብሩ አስራት እውቅና ውጪ ነው ተብሏል።
اللغة العربية هي لغة القرآن، وقد كتبها الناس في عام ١٩٨٤ من اليمين إلى اليسار.
می‌خواهم کتاب‌ها را بخوانم، اما نمی‌توانم.
השפה העברית נכתבת מימין לשמאל, ויש בה עשרים ושתיים אותיות.
ภาษาไทยไม่มีช่องว่างระหว่างคำ และมีน้ำเสียงห้าเสียง
日本語の文章には漢字と、ひらがなと、カタカナが使われています。2024年です。
我们在北京学习中文，每天都写一百个汉字。
한국어는 한글로 씁니다. 세종대왕이 1443년에 만들었습니다.
ქართული ენა და Հայերեն լեզուն։ မြန်မာဘာသာ ភាសាខ្មែរ ᠮᠣᠩᠭᠣᠯ
""".splitlines()

SNIPPETS = [
    *" \t\n\u00a0\u2003\u3000\u0085\u200b\u200c\u200d\ufeff\u00ad\x00\x01\x1c\x7f▁_.,;!?()[]{}<>-'\"…™½²ª¨ﬁﷺ㍿①Ⅷㅏㅋ",
    *"\u0300\u0301\u0302\u0308\u0323\u0327\u0345\u0344\u0340\u0315\u093c\u094d\u09be\u09d7\u0bbe\u1161\u11a8\u3099",
    *"aAeEoOıİßẞſΣσςÅÅΩㅎ가각ᄀᄂڑड़ड़क़न஦ொேো०٣۴𝟘Ⅻ߁\uff9e\ufffe\U0001e08f\U000e0100\U00016121",
    *"the words (word), 1984 o\u0323\u0301 ọ\u0301 ó\u0323 \u1100\u1161\u11a8 가\u11a8 न\u093c ड\u093c ে\u09be".split(),
    *"\u094d\u093c 👩‍👩‍👧‍👦 ❤️ 🏳️‍🌈 🇩🇪 👍🏽 שָׁלוֹם مُحَمَّد أُعلنت <0x41> </s> <unk>".split(),
    *"ｶﾞ Ｆｕｌｌ ǅ ŉ .... !!! --".split(),
    "  ",
]

ANY_TEXT = st.one_of(
    st.text(st.characters(codec="utf-8")),
    st.lists(st.one_of(st.sampled_from(SNIPPETS), st.characters(codec="utf-8")), max_size=20).map("".join),
    st.lists(st.sampled_from(SNIPPETS), max_size=20).map("".join),
)


def trained(kind: str, plain: bool = False) -> Tokenizer:
    return Tokenizer.train(SENTENCES * 2, kind=kind, vocab_size=1200, lowercase=not plain, zero_digits=not plain)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request) -> Tokenizer:
    return trained(request.param)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def cased(request) -> Tokenizer:
    return trained(request.param, plain=True)


@cache
def the_library(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(tokenizer.to_json())


def ragged(lists: list[list[int]]) -> tuple[list[int], list[int]]:
    return [id for ids in lists for id in ids], np.cumsum([0, *map(len, lists)]).tolist()


def assert_same_as_the_library(tokenizer: Tokenizer, texts: list[str], library: tokenizers.Tokenizer) -> None:
    tokens, offsets = tokenizer.encode(texts)
    expected = library.encode_batch_fast(texts, add_special_tokens=False)
    for i, encoding in enumerate(expected):
        assert tokens[offsets[i] : offsets[i + 1]].tolist() == encoding.ids, ascii(texts[i])
    assert len(tokens) == offsets[-1] == sum(len(encoding.ids) for encoding in expected)


def left_to_the_library(tokenizer: Tokenizer, texts: list[str]) -> float:
    assert tokenizer._fast is not None
    return float(np.mean(tokenizer._fast.encode(texts)[1] < 0))


def spelt(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.pieces[token] for token in tokenizer.encode([text])[0]]


# What pieces are made.


def test_marks_and_punctuation_are_cut_as_promised():
    tokenizer = Tokenizer.train(["the (word), is... (word), in 2024... x² ▁"] * 20, vocab_size=500)
    assert spelt(tokenizer, "The (word), is...") == ["▁the", "▁(", "word", ")", ",", "▁is", "..."]
    assert spelt(tokenizer, " in\u30001999 x²") == ["▁in", "▁0000", "▁x", "0"]
    assert spelt(tokenizer, "▁") == ["▁_"]


@pytest.mark.parametrize("text", ["", " ", "\t\n\u00a0\u2028", "\u3000"])
def test_no_text_no_pieces(tokenizer, text):
    tokens, offsets = tokenizer.encode(["the", text, "word"])
    assert offsets[1] == offsets[2] < offsets[3] == len(tokens)
    assert tokenizer.encode([text])[0].tolist() == []
    assert tokenizer.encode_with_offsets(text)[1] == []


def test_no_texts(tokenizer):
    tokens, offsets = tokenizer.encode([])
    assert tokens.dtype == np.int32
    assert offsets.dtype == np.int64
    assert (tokens.tolist(), offsets.tolist()) == ([], [0])


@given(text=ANY_TEXT)
@settings(deadline=None, max_examples=300)
def test_decoding_gives_back_the_normalised_text(tokenizer, text):
    library = the_library(tokenizer)
    tokens, _ = tokenizer.encode([text])
    assert library.decode(tokens.tolist(), skip_special_tokens=False) == library.normalizer.normalize_str(text)


def test_a_character_of_no_piece_is_spelt_in_bytes(tokenizer):
    assert spelt(tokenizer, "the ☃") == ["▁the", "▁", "<0xE2>", "<0x98>", "<0x83>"]
    assert "<0x41>" not in spelt(tokenizer, "<0x41> is not a byte")
    assert tokenizer.pieces[:256] == BYTES


def test_lone_surrogates_count_as_replacement_characters(tokenizer):
    broken, whole = ["a\ud800b", "\udc00"], ["a\ufffdb", "\ufffd"]
    assert [a.tolist() for a in tokenizer.encode(broken)] == [a.tolist() for a in tokenizer.encode(whole)]
    assert tokenizer.encode_with_offsets(broken[0])[1] == tokenizer.encode_with_offsets(whole[0])[1]


@pytest.mark.parametrize("texts", [["a", 5, "b"], ["a", None], ["a", ["b"]], ["a", b"b"]])
def test_what_is_not_a_string_is_named(tokenizer, texts):
    with pytest.raises(TypeError, match=r"text 1 is .*, not a string"):
        tokenizer.encode(texts)
    with pytest.raises(TypeError, match="sequence of strings"):
        tokenizer.encode("a")


# The kernels do what `tokenizers` does.


@given(texts=st.lists(ANY_TEXT, max_size=4))
@settings(deadline=None, max_examples=400)
def test_any_text_gives_the_pieces_of_the_library(tokenizer, texts):
    assert_same_as_the_library(tokenizer, texts, the_library(tokenizer))


@given(texts=st.lists(ANY_TEXT, max_size=4))
@settings(deadline=None, max_examples=200)
def test_case_and_digits_may_stay(cased, texts):
    assert_same_as_the_library(cased, texts, the_library(cased))


def test_every_code_point_gives_the_pieces_of_the_library():
    tokenizer = trained("bpe")
    assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]
    assert len(assigned) > 140_000
    assert_same_as_the_library(tokenizer, [f"a{c}b {c}1{c}" for c in assigned], the_library(tokenizer))
    assert left_to_the_library(tokenizer, [f"x {c} y" for c in assigned]) < 0.01


def test_every_mark_gives_the_pieces_of_the_library_after_any_kind_of_character():
    tokenizer = trained("bpe")
    marks = [c for c in map(chr, range(0x20000)) if unicodedata.category(c)[0] == "M" or c in "\u1161\u11a8\uff9e"]
    before = [*"aEéọṩ가각ᄀかनडড়েொάأ½ﬁ5❤\u0301\u0323\u094d\u05b0\u0651", "\u0327\u0301"]
    texts = [f"{first}{mark} {first}{mark}\u0301z{mark}\u0323" for mark in marks for first in before]
    assert_same_as_the_library(tokenizer, texts, the_library(tokenizer))


def test_ordinary_text_of_any_script_stays_with_the_kernels(tokenizer, cased):
    assert left_to_the_library(tokenizer, SENTENCES) == 0
    assert left_to_the_library(cased, SENTENCES) == 0


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 255, "a" * 256, "a" * 257, "a" * 100_000, "a" * 4095 + " b", " " * 10_000 + "a", "." * 9000),
        *("the word, " * 5000, "words" * 1000 + " a", "é" * 5000, "☃" * 256, "😀" * 200, "a " * 4096 + "☃" * 4096),
        *("㍿" * 5000, "ﷺ" * 3000, "Ⱥ" * 6000, "İ " * 6000),
    ],
    ids=lambda text: f"{text[:10]}-{len(text)}",
)
def test_long_words_and_texts_give_the_pieces_of_the_library(tokenizer, text):
    assert_same_as_the_library(tokenizer, ["the", text, "word"], the_library(tokenizer))


def test_blocks_and_threads_change_nothing(tokenizer, monkeypatch):
    texts = [*SENTENCES, "", "e\u0301", *SNIPPETS] * 5
    whole = [part.tolist() for part in tokenizer.encode(texts, threads=1)]
    assert whole == list(ragged([tokenizer.encode([text])[0].tolist() for text in texts]))
    monkeypatch.setattr(module, "BLOCK", 7)
    monkeypatch.setattr(module, "BLOCK_CHARACTERS", 300)
    for threads in (1, 2, 3):
        assert [part.tolist() for part in tokenizer.encode(texts, threads)] == whole


def test_several_threads_may_use_a_new_tokenizer_at_once(tokenizer):
    texts = SENTENCES + SNIPPETS
    expected = [part.tolist() for part in tokenizer.encode(texts)]
    for _ in range(5):
        new = Tokenizer.from_json(tokenizer.to_json())
        with ThreadPoolExecutor(4) as pool:
            for result in pool.map(lambda _, new=new: new.encode(texts, threads=1), range(8)):
                assert [part.tolist() for part in result] == expected


def test_memory_beyond_input_and_output_does_not_grow(tokenizer, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    texts = SENTENCES * 800
    tokenizer.encode(texts[:100])

    def beyond(texts: list[str]) -> int:
        tracemalloc.start()
        tokens, offsets = tokenizer.encode(texts, threads=2)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak - tokens.nbytes - 2 * offsets.nbytes

    assert beyond(texts) < 1.3 * beyond(texts[: len(texts) // 4]) + 100_000


@pytest.mark.data
@pytest.mark.parametrize("language", ["en", "hi", "am", "ar", "te", "mr", "es", "la"])
def test_real_lines_give_the_pieces_of_the_library(data_folder: Path, language):
    path = data_folder / "corpora" / language / "dev.txt.xz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()[:2000]
    tokenizer = Tokenizer.train(lines)
    assert_same_as_the_library(tokenizer, lines, the_library(tokenizer))
    assert left_to_the_library(tokenizer, lines) < 0.03


# Where in the text a piece is.


@given(text=ANY_TEXT)
@settings(deadline=None, max_examples=300)
def test_spans_belong_to_the_same_pieces_and_lie_in_the_text(tokenizer, text):
    tokens, spans = tokenizer.encode_with_offsets(text)
    assert tokens.tolist() == tokenizer.encode([text])[0].tolist()
    assert len(spans) == len(tokens)
    assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_spans_are_tight_around_words_and_whole_around_characters(tokenizer):
    text = "  The  ☃☄ e\u0301é,\u00a0½ (Word)"
    tokens, spans = tokenizer.encode_with_offsets(text)
    found: dict[str, list[str]] = {}
    for token, (start, end) in zip(tokens, spans, strict=True):
        found.setdefault(text[start:end], []).append(tokenizer.pieces[token])
    assert found["The"] == ["▁the"]
    assert found["☃"] == ["<0xE2>", "<0x98>", "<0x83>"]
    assert found["☄"] == ["<0xE2>", "<0x98>", "<0x84>"]
    assert "e\u0301" in found or "e\u0301é" in found
    assert found["½"][0].strip("▁") == "0"
    assert {*found.get("", [])} <= {"▁"}
    covered = {at for start, end in spans for at in range(start, end)}
    assert covered == {at for at, character in enumerate(text) if not character.isspace()}


# Training.


def test_the_same_texts_make_the_same_file():
    program = (
        "import sys; from banyan.tokenizer import Tokenizer; texts = sys.stdin.read().split('\\n');"
        "[sys.stdout.buffer.write(Tokenizer.train(texts, kind=kind, vocab_size=900).to_json().encode())"
        " for kind in ('bpe', 'unigram')]"
    )
    results = []
    for seed, threads in (("1", "1"), ("2", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "BANYAN_THREADS": threads, "PYTHONUTF8": "1"}
        texts = "\n".join(SENTENCES * 3).encode()
        done = subprocess.run([sys.executable, "-c", program], input=texts, capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr.decode()
        results.append(done.stdout)
    assert results[0] == results[1]
    assert len(results[0]) > 10_000


def test_ten_lines_are_enough(tmp_path):
    for kind in ("bpe", "unigram"):
        tokenizer = Tokenizer.train(SENTENCES[:10], kind=kind)
        assert 256 < tokenizer.vocab_size <= 1000
        assert "▁the" in spelt(tokenizer, "the law of the words")


def test_one_letter_is_enough(tokenizer):
    for kind in ("bpe", "unigram"):
        assert spelt(Tokenizer.train(["a"], kind=kind), "a b")[:2] == ["▁", "a"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [300, 400, 700])
def test_the_vocabulary_has_the_size_asked_for(kind, size):
    tokenizer = Tokenizer.train(SENTENCES * 3, kind=kind, vocab_size=size)
    assert tokenizer.vocab_size == size
    assert len({*tokenizer.pieces}) == size


def test_frequent_words_are_one_piece(tokenizer):
    assert spelt(tokenizer, "the book of the words") == ["▁the", "▁book", "▁of", "▁the", "▁words"]


def test_texts_may_come_one_at_a_time():
    assert Tokenizer.train(iter(SENTENCES), vocab_size=600).to_json() == trained_small().to_json()


def trained_small() -> Tokenizer:
    return Tokenizer.train(SENTENCES, vocab_size=600)


def test_chunks_are_counted_as_the_library_cuts_them():
    texts = SENTENCES + SNIPPETS + ["".join(SNIPPETS), "a" * 9000, "the \ud800"]
    library = the_library(trained_small())
    counts: Counter[str] = Counter()
    for text in texts:
        normalised = library.normalizer.normalize_str(text.replace("\ud800", "\ufffd"))
        counts.update(chunk for chunk, _ in library.pre_tokenizer.pre_tokenize_str(normalised))
    assert making._count(texts, (True, True)) == counts


def test_a_control_character_of_the_alphabet_is_kept():
    assert making._known({"▁a\x1c": 2, "☃b": 1}, {"▁", "a", "b", "\x1c"}) == {"b": 1, "▁a\x1c": 2}


def test_counting_forgets_rare_words_of_an_endless_corpus(monkeypatch):
    monkeypatch.setattr(making, "MOST_WORDS", 50)
    monkeypatch.setattr(making, "BLOCK", 1)
    counts = making._count((f"the word{'x' * i}" for i in range(1000)), (True, True))
    assert len(counts) < 200
    assert counts["▁the"] == 1000


def test_only_what_is_rare_is_left_out_of_a_large_alphabet():
    common = {chr(code): 10_000 for code in range(0x4E00, 0x4E00 + 600)}
    rare = {chr(code): 1 for code in range(0x5E00, 0x5E00 + 600)}
    alphabet = making._alphabet({"▁": 1, **common, **rare}, 25_000)
    assert {*common} < alphabet
    assert len(alphabet & {*rare}) < 20
    assert len(making._alphabet({"▁": 1, **common, **rare}, 1000)) == 1 + (1000 - 256) // 2


def test_a_huge_corpus_is_scaled_down(monkeypatch):
    monkeypatch.setattr(making, "TRAINED_ON", 1000)
    tokenizer = Tokenizer.train(SENTENCES * 30, vocab_size=600)
    assert spelt(tokenizer, "the words") == ["▁the", "▁words"]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "no text"),
        (["", " \n"], {}, "no text"),
        (["a"], {"vocab_size": 299}, "at least 300"),
        (["a"], {"kind": "words"}, "bpe or unigram"),
    ],
)
def test_what_cannot_be_trained_is_refused(texts, options, message):
    with pytest.raises(BanyanError, match=message):
        Tokenizer.train(texts, **options)


def test_a_text_that_is_not_a_string_is_named_in_training():
    with pytest.raises(TypeError, match="text 2 is int, not a string"):
        Tokenizer.train(["a", "b", 3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("words", "size"),
    [(0, 1000), (10_000, 1000), (100_000, 2500), (1_000_000, 7900), (10_000_000, 25_000), (10**10, 25_000)],
)
def test_the_size_suits_the_corpus(words, size):
    assert suitable_vocab_size(words) == size


# Files.


def test_a_saved_tokenizer_is_the_same_and_the_library_reads_it(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    assert [*tmp_path.iterdir()] == [path]
    again = Tokenizer.from_file(path)
    assert again.to_json() == tokenizer.to_json() == path.read_text(encoding="utf-8")
    assert again.pieces == tokenizer.pieces
    assert_same_as_the_library(again, SENTENCES, tokenizers.Tokenizer.from_file(str(path)))
    assert again._fast is not None


def test_a_tokenizer_can_be_pickled_and_copied_after_use(tokenizer):
    tokens, _ = tokenizer.encode(SENTENCES)
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert again.encode(SENTENCES)[0].tolist() == tokens.tolist()


def test_a_tokenizer_from_elsewhere_is_left_to_the_library(tmp_path):
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "the": 2, "words": 3, "(": 4, "[PAD]": 7}
    library = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    library.enable_padding(pad_id=7, pad_token="[PAD]", length=10)
    library.enable_truncation(2)
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    tokens, offsets = tokenizer.encode(["the ( words", "", "the \ud800"])
    assert (tokens.tolist(), offsets.tolist()) == ([2, 4, 3, 2, 0], [0, 3, 3, 5])
    assert tokenizer.vocab_size == 8
    assert tokenizer.pieces == ["[UNK]", "[CLS]", "the", "words", "(", "", "", "[PAD]"]
    assert tokenizer.encode_with_offsets(" the  ( words")[1] == [(1, 4), (6, 7), (8, 13)]


def test_a_tokenizer_that_differs_a_little_is_left_to_the_library():
    library = the_library(trained_small())
    library.add_tokens(["the"])
    tokenizer = Tokenizer.from_json(library.to_str())
    assert tokenizer._fast is None
    assert_same_as_the_library(tokenizer, SENTENCES, library)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", None, "cannot read the tokenizer .*tokenizer.json: No such file"),
        ("tokenizer.json", b"", "tokenizer.json: this is not a tokenizer.json"),
        ("tokenizer.json", b"{}", "tokenizer.json: this is not a tokenizer.json"),
        ("tokenizer.json", b"\xff\xfe", "tokenizer.json: this is not a tokenizer.json"),
        ("bpe.model", b"not a model", "bpe.model: this is not a SentencePiece model"),
        ("bpe.model", b"", "bpe.model: this is not a SentencePiece model"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, message):
    if name.endswith(".model"):
        pytest.importorskip("sentencepiece")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BanyanError, match=message):
        Tokenizer.from_file(tmp_path / name)


def unigram_file(path: Path, scores) -> Path:
    """A unigram tokenizer.json of ours with other scores: scores(i) is the i-th piece's."""
    state = json.loads(trained("unigram").to_json())
    state["model"]["vocab"] = [[piece, scores(i)] for i, (piece, _) in enumerate(state["model"]["vocab"])]
    path.write_text(json.dumps(state))
    return path


LOAD_AND_ENCODE = """
import sys
from banyan.errors import BanyanError
from banyan.tokenizer import Tokenizer

try:
    tokenizer = Tokenizer.from_file(sys.argv[1])
except BanyanError as error:
    sys.exit(str(error))
tokens, offsets = tokenizer.encode(["the unbelievable words of the book 1984"] * 50)
assert 0 <= tokens.min() <= tokens.max() < tokenizer.vocab_size and offsets[-1] == len(tokens)
"""

HUGE_SCORES = {
    "lowest": lambda i: -1e308,
    "highest": lambda i: 1e308,
    "mixed": lambda i: 1e308 * (-1) ** i,
    "one": lambda i: -1e308 if i == 300 else -9.0,
    "just too large": lambda i: -1_000_001.0 if i == 300 else -9.0,
}


@pytest.mark.parametrize("scores", HUGE_SCORES.values(), ids=HUGE_SCORES)
def test_huge_scores_are_refused_before_any_kernel_reads_them(tmp_path, scores):
    path = unigram_file(tmp_path / "tokenizer.json", scores)
    command = [sys.executable, "-c", LOAD_AND_ENCODE, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    told = rf"{re.escape(str(path))}: the score of the piece .* is .*: scores must be .* 1,000,000 in absolute value$"
    assert re.match(told, done.stderr)
    with pytest.raises(BanyanError, match=r"^the score of "):
        Tokenizer.from_json(path.read_text())


def test_scores_up_to_a_million_give_the_pieces_of_the_library(tmp_path):
    for scores in (lambda i: -1e6, lambda i: 1e6, lambda i: 1e6 * (-1) ** i):
        tokenizer = Tokenizer.from_file(unigram_file(tmp_path / "tokenizer.json", scores))
        assert_same_as_the_library(tokenizer, SENTENCES, tokenizers.Tokenizer.from_str(tokenizer.to_json()))


def test_no_score_makes_the_kernels_read_out_of_range_or_loop_forever():
    """The kernels by themselves, without the check that comes before them."""
    program = """
import numpy as np
from banyan.tokenizer.rules import BYTES, START
from banyan.tokenizer.rules import make_fast

pieces = [*BYTES, START, *"abcdehiklnortuvw", "the", START + "the", "un", "believ", "able"]
infinity = float("inf")
for first, second in [(-1e308, -1e308), (1e308, -1e308), (1e308, 1e308), (-infinity, -infinity), (infinity, -1.0),
                      (infinity, -infinity), (float("nan"), float("nan")), (float("nan"), -1.0)]:
    fast = make_fast((True, True), pieces, scores=[(first, second)[i % 2] for i in range(len(pieces))])
    tokens, counts = fast.encode(["the unbelievable words of the book 1984 \u0436"] * 100)
    assert counts.min() > 0 and counts.sum() == len(tokens)
    assert 0 <= tokens.min() <= tokens.max() < len(pieces)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_vocabulary_of_huge_ids_is_refused_before_it_is_made_room_for(tmp_path):
    state = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 300_000_000}, "unk_token": "a"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    tracemalloc.start()
    try:
        with pytest.raises(BanyanError, match=r"tokenizer.json: the piece 'b' has the id 300,000,000, but there are 2"):
            assert Tokenizer.from_file(tmp_path / "tokenizer.json").vocab_size
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_importing_the_tokenizer_does_not_import_numba():
    program = "import sys, banyan.tokenizer; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# SentencePiece.

ODD = [
    *("", " ", "  a  b ", "\tthe\nwords", "the\u00a0words", "x\u200by", "\ufeffthe", "the\x00\x01 words", "...!!!"),
    *("e\u0301 o\u0323\u0301", "Ｆｕｌｌ ｗｉｄｔｈ １２", "ﬁne ½ ™", "👩‍👧 ❤️", "☃☃ ☃", "<s> </s> <unk>", "Tiếng Việt"),
    *("가 \u1100\u1161", "नमस्ते क़"),
]

MANUAL = [line for text in topics.values() for line in text.splitlines() if len(line) > 40]  # of Python
MANUAL = [line for line in MANUAL if not re.search(r"(\S)\1\1", line)][:2000]  # "-----" can be split many equal ways


def sentencepiece_model(path: Path, **options) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(MANUAL + SENTENCES * 10), model_writer=writer, minloglevel=2, num_threads=1, **options
    )
    path.write_bytes(writer.getvalue())


@pytest.mark.parametrize("rule", ["nmt_nfkc", "identity"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("more", [{}, {"byte_fallback": True, "add_dummy_prefix": False}], ids=["", "bytes"])
def test_a_sentencepiece_model_gives_its_own_pieces(tmp_path, kind, rule, more):
    path = tmp_path / "some.model"
    sentencepiece_model(
        path, vocab_size=1000, model_type=kind, normalization_rule_name=rule, character_coverage=0.98, **more
    )
    processor = pytest.importorskip("sentencepiece").SentencePieceProcessor(model_file=str(path))
    tokenizer = Tokenizer.from_file(path)
    texts = MANUAL + ODD
    tokens, offsets = tokenizer.encode(texts)
    for i, text in enumerate(texts):
        assert tokens[offsets[i] : offsets[i + 1]].tolist() == processor.encode(text), ascii(text)
    assert tokenizer.vocab_size == processor.vocab_size()
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.from_file(tmp_path / "tokenizer.json").encode(texts)
    assert [part.tolist() for part in again] == [tokens.tolist(), offsets.tolist()]


def test_lower_case_and_digits_can_be_put_before_a_sentencepiece_model(tmp_path):
    path = tmp_path / "some.model"
    sentencepiece_model(path, vocab_size=900, model_type="bpe")
    plain = Tokenizer.from_file(path)
    tokens, _ = Tokenizer.from_file(path, lowercase=True, zero_digits=True).encode(["The WORDS of 1984"])
    assert tokens.tolist() == plain.encode(["the words of 0000"])[0].tolist()
    assert tokens.tolist() != plain.encode(["The WORDS of 1984"])[0].tolist()


def test_sentencepiece_models_that_cannot_be_converted_are_refused(tmp_path):
    path = tmp_path / "some.model"
    sentencepiece_model(path, vocab_size=900, model_type="bpe", user_defined_symbols=["<x>"])
    with pytest.raises(BanyanError, match="user-defined"):
        Tokenizer.from_file(path)
    sentencepiece_model(path, model_type="char", vocab_size=400, hard_vocab_limit=False)
    with pytest.raises(BanyanError, match="only the BPE and unigram"):
        Tokenizer.from_file(path)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
def test_a_sentencepiece_model_with_a_score_that_is_no_number_is_refused(tmp_path, kind, score):
    path = tmp_path / "some.model"
    sentencepiece_model(path, vocab_size=900, model_type=kind)
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(path.read_bytes())
    proto.pieces[50].score = score
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(BanyanError, match=rf"{path}: the score of .* is {score}"):
        Tokenizer.from_file(path)


def test_a_sentencepiece_model_asks_for_the_package_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    (tmp_path / "some.model").write_bytes(b"")
    with pytest.raises(BanyanError, match=re.escape(pip_install("sentencepiece"))):
        Tokenizer.from_file(tmp_path / "some.model")


def test_a_word_that_is_the_whole_corpus_takes_little_memory(monkeypatch):
    """The trainer takes a hundred bytes for each character of a text: ten million times the same word took 5 GB."""
    parts = [len(part) for part in making._repeated("▁word\n", 10_000_000)]
    assert (max(parts) <= making.REPEATED, sum(parts)) == (True, 60_000_000)
    corpus = ["the cat sat on the mat " * 200] * 2
    whole = [Tokenizer.train(corpus, kind=kind, vocab_size=300).to_json() for kind in ("bpe", "unigram")]
    monkeypatch.setattr(making, "REPEATED", 7)
    assert [Tokenizer.train(corpus, kind=kind, vocab_size=300).to_json() for kind in ("bpe", "unigram")] == whole
