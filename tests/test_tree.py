from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.errors import BanyanError
from banyan.model.brackets import BracketTree, read_brackets
from banyan.support import drawing as svg
from banyan.tree import Node, Tree, _Drawing

SENTENCES = {
    "English": "The ba|nyan tree <spreads> its unbeliev|able roots & \"branch|es\" over the village (slowly) .",
    "Hindi": "जम्मू क्षेत्|र में मंगलवा|र सुबह 4.0 ती|व्र|ता का भूकंप आया .",
    "Arabic": "تنتش|ر جذور شجرة البا|نيان الكب|يرة فوق المد|رسة ، ببطء .",
    "Chinese": "榕树|的|根|慢慢地|伸展|在|村庄|上空|。",
    "Thai": "ต้น|ไทร|ใหญ่",
    "Korean": "큰 나무|가 자란|다",
    "forty words": " ".join(f"word{i}" if i % 3 else f"w|{i}" for i in range(40)),
    "right to left, deep": " ".join("אבגד"[: 1 + i % 4] for i in range(30)),
    "one word": "banyan",
    "one letter": "I",
    "no words": "",
}


def grow(marked: str, choices: Sequence[int] = ()) -> Tree:
    """A tree over the words of a text, where | parts the pieces of a word; each choice picks the pair that merges."""
    text, pieces, spans = marked.replace("|", ""), [], []
    position = 0
    for word in re.split(r"(\s+)", marked):
        for number, piece in enumerate(word.split("|")):
            if piece.strip():
                pieces.append(piece if number else "▁" + piece)
                spans.append((position, position + len(piece)))
            position += len(piece)
    return tree_over(text, pieces, spans, choices)


def tree_over(text: str, pieces: list[str], spans: list[tuple[int, int]], choices: Sequence[int] = ()) -> Tree:
    spans = list(spans)
    children: list[tuple[int, int]] = []
    frontier = list(range(len(pieces)))
    while len(frontier) > 1:
        k = len(children)
        at = (choices[k % len(choices)] if choices else 0) % (len(frontier) - 1)
        left, right = frontier[at : at + 2]
        children.append((left, right))
        spans.append((spans[left][0], spans[right][1]))
        frontier[at : at + 2] = [len(pieces) + k]
    generator = np.random.default_rng(0)
    return Tree(
        text,
        pieces,
        np.array(spans, np.int64).reshape(-1, 2),
        np.array(children, np.int32).reshape(-1, 2),
        generator.uniform(-1, 1, len(children)).astype(np.float32),
        generator.normal(size=(len(spans), 4)).astype(np.float32),
    )


def structure(leaves: int, merges: Sequence[Sequence[int]]) -> object:
    """Nested pairs of leaf numbers, whatever the order of the merges."""
    nodes: list[object] = list(range(leaves))
    for left, right in merges:
        nodes.append((nodes[left], nodes[right]))
    return nodes[-1] if nodes else None


def words_of(marked: str) -> list[str]:
    return [piece for piece in re.split(r"[\s|]+", marked) if piece]


def with_trees(test):
    """Over every sentence, each as a left-branching and as a mixed tree."""
    test = pytest.mark.parametrize("choices", [(), (7, 2, 11, 5, 3)], ids=["left", "mixed"])(test)
    return pytest.mark.parametrize("marked", SENTENCES.values(), ids=SENTENCES)(test)


# --- the value ---------------------------------------------------------------------------------------------------


def test_nodes_come_from_the_bottom_up_with_everything_a_linguist_asks_for():
    tree = grow("the ba|nyan grows", (1, 0, 0))
    assert len(tree) == 7
    assert [node.text for node in tree] == ["the", "ba", "nyan", "grows", "banyan", "the banyan", "the banyan grows"]
    assert [node.height for node in tree] == [0, 0, 0, 0, 1, 2, 3]
    assert [node.span for node in tree][3:6] == [(11, 16), (4, 10), (0, 10)]
    root = tree.root
    assert isinstance(root, Node)
    assert [child.text for child in root.children] == ["the banyan", "grows"]
    assert root.similarity == pytest.approx(tree.similarity[2])
    assert tree[0].similarity is None
    assert tree[0].children == ()
    np.testing.assert_array_equal(root.embedding, tree.embeddings[6])
    np.testing.assert_array_equal(tree.embeddings[root], tree.embeddings[6])
    assert tree.phrase(root) == tree.phrase(6) == "the banyan grows"


def test_white_space_inside_a_span_is_trimmed():
    tree = tree_over(" a  b ", ["▁a", "▁b"], [(0, 2), (2, 6)])
    assert [node.text for node in tree] == ["a", "b", "a  b"]
    assert tree.leaves == ["a", "b"]


def test_the_empty_tree_has_no_root():
    tree = grow("")
    assert len(tree) == 0
    assert not tree
    with pytest.raises(BanyanError, match="the tree of an empty text has no root"):
        tree.root  # noqa: B018
    assert list(tree) == []
    assert tree.height.shape == (0,)
    assert str(tree) == ""
    assert json.loads(tree.to_json()) == {"text": "", "root": None, "nodes": []}


def test_bytes_of_one_character_are_shown_as_pieces():
    same = tree_over("🌳", ["▁", "<0xF0>", "<0x9F>"], [(0, 0), (0, 1), (0, 1)])
    assert same.leaves == ["▁", "🌳", "<0x9F>"]
    assert same._words == [range(1), range(1, 3)]
    assert tree_over("a b", ["▁a", " ", "b"], [(0, 1), (1, 2), (2, 3)]).leaves == ["a", "▁", "b"]


@pytest.mark.parametrize(
    ("language", "words"), [("English", 14), ("Hindi", 11), ("Arabic", 10), ("Chinese", 9), ("Thai", 3), ("Korean", 3)]
)
def test_pieces_of_a_word_are_known_as_one_where_the_script_has_spaces(language: str, words: int):
    marked = SENTENCES[language]
    tree = grow(marked)
    assert [leaf for word in tree._words for leaf in word] == list(range(len(tree.pieces)))
    assert len(tree._words) == words


def test_representations_of_long_documents_are_short():
    tree = grow("word " * 20_000)
    assert len(repr(tree)) < 100
    assert len(repr(tree.root)) < 100
    assert tree._repr_svg_() is tree._repr_html_() is None


# --- text, brackets, JSON ----------------------------------------------------------------------------------------


def test_text_view_shows_merges_similarities_and_words():
    tree = grow("the ba|nyan tree grows", (1, 0, 1, 0))
    object.__setattr__(tree, "similarity", np.array([0.9, -0.001, 1, -0.256], np.float32))
    assert str(tree) == "\n".join(
        [
            "-.26┬─0.00┬─ the",
            "    │     └─0.90┬─ ba·",
            "    │           └─ ·nyan",
            "    └─1.00┬─ tree",
            "          └─ grows",
        ]
    )
    assert str(grow("banyan")) == "banyan"


def test_text_view_never_sends_control_characters_to_the_terminal():
    tree = tree_over("a\x1b[31mb\x00 c", ["▁a\x1b[31mb\x00", "▁c"], [(0, 8), (8, 10)])
    assert not re.search("[\x00-\x09\x0b-\x1f]", str(tree))


@with_trees
def test_text_view_has_a_line_for_each_leaf(marked: str, choices: tuple[int, ...]):
    lines = str(grow(marked, choices)).splitlines()
    assert [line.split()[-1].strip("·") for line in lines] == words_of(marked)


def test_brackets_are_what_nltk_reads():
    tree = tree_over("f(x y) z", ["▁f(x y)", "▁z"], [(0, 6), (7, 8)])
    assert tree.to_brackets() == "(X f-LRB-x▁y-RRB- z)"
    assert grow("banyan").to_brackets() == "(X banyan)"
    assert grow("").to_brackets() == "()"
    assert grow("the ba|nyan grows", (1, 0, 0)).to_brackets() == "(X (X the (X ba nyan)) grows)"


@with_trees
def test_brackets_read_back_give_the_same_tree(marked: str, choices: tuple[int, ...]):
    tree = grow(marked, choices)
    (read,) = read_brackets(tree.to_brackets())
    assert read.words == tree.leaves == words_of(marked)
    assert structure(len(read.words), read.merges) == structure(len(tree.pieces), tree.children.tolist())


@with_trees
def test_json_has_every_node_and_embeddings_only_on_request(marked: str, choices: tuple[int, ...]):
    tree = grow(marked, choices)
    read = json.loads(tree.to_json())
    assert read["text"] == tree.text
    assert [node["id"] for node in read["nodes"]] == list(range(len(tree)))
    for node, view in zip(read["nodes"], tree, strict=True):
        start, end = node["span"]
        assert tree.text[start:end].strip() == node["text"]
        assert ("piece" in node) == view.is_leaf
        assert node.get("children", []) == [child.index for child in view.children]
        assert "embedding" not in node
    with_embeddings = json.loads(tree.to_json(embeddings=True))["nodes"]
    assert [node["embedding"] for node in with_embeddings] == tree.embeddings.tolist()


# --- the drawing -------------------------------------------------------------------------------------------------

NAME = "{http://www.w3.org/2000/svg}"


@with_trees
def test_drawing_is_well_formed_and_holds_every_word(marked: str, choices: tuple[int, ...]):
    tree = grow(marked, choices)
    drawing = ET.fromstring(tree.to_svg())
    assert tree._repr_svg_() == tree.to_svg()
    assert tree.to_svg() in tree._repr_html_()
    assert "prefers-color-scheme: dark" in tree._repr_html_()
    shown = [(element.text or "").strip("\u200d") for element in drawing.iter(f"{NAME}text")]
    assert set(tree.leaves) <= set(shown)
    assert len(drawing.findall(f".//{NAME}path")) == len(tree.children)
    assert len(drawing.findall(f".//{NAME}title")) == len(tree.children)


@with_trees
def test_nothing_in_the_drawing_overlaps_or_leaves_the_page(marked: str, choices: tuple[int, ...]):
    tree = grow(marked, choices)
    page = ET.fromstring(tree.to_svg())
    *_, leaves = page.findall(f"{NAME}g") or [page]
    size = float(leaves.get("font-size", 15))
    texts = [(float(text.get("x", "nan")), text.text or "") for text in leaves.iter(f"{NAME}text")]
    boxes = sorted((x - svg.text_width(text, size) / 2, x + svg.text_width(text, size) / 2) for x, text in texts)
    assert all(start > end - 0.2 for (_, end), (start, _) in pairwise(boxes))
    assert not boxes or (boxes[0][0] > 15 and boxes[-1][1] < float(page.get("width", 0)) - 15)
    rects = page.findall(f"{NAME}g/{NAME}g/{NAME}rect")
    pills = sorted((float(rect.get("y", "nan")), float(rect.get("x", "nan"))) for rect in rects)
    assert len(pills) == len(tree.children)
    assert all(y != next_y or next_x - x > _Drawing.PILL[0] for (y, x), (next_y, next_x) in pairwise(pills))
    for element in page.iter(f"{NAME}rect"):
        x, y, width, height = (float(element.get(name, "nan")) for name in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert x + width <= float(page.get("width", 0)) + 0.1
        assert y + height <= float(page.get("height", 0)) + 0.1


def test_scripts_that_run_from_right_to_left_are_drawn_so():
    arabic, english = _Drawing(grow(SENTENCES["Arabic"])), _Drawing(grow(SENTENCES["English"]))
    assert arabic.x[0] > arabic.x[1] > arabic.x[2]
    assert english.x[0] < english.x[1] < english.x[2]


def test_a_merge_stands_above_its_children_and_between_them():
    tree = grow(SENTENCES["forty words"], (7, 2, 11, 5, 3))
    drawing = _Drawing(tree)
    for node in tree:
        for child in node.children:
            assert drawing.y(node.index) < drawing.y(child.index)
        if node.children:
            left, right = (drawing.x[child.index] for child in node.children)
            assert left < drawing.x[node.index] < right


def test_hostile_text_stays_text():
    text = "</text><script>\x00\x1b\ufffe & \"quoted\" 'single'"
    tree = tree_over(text, ["▁a", "▁b"], [(0, 15), (15, len(text))])
    drawing = ET.fromstring(tree.to_svg())
    assert not drawing.findall(f".//{NAME}script")
    assert any("</text><script>" in (element.text or "") for element in drawing.iter(f"{NAME}text"))


def test_wide_characters_count_double_and_marks_not_at_all():
    assert svg.terminal_width("榕a") == 3
    assert svg.terminal_width("e\u0301") == 1
    assert svg.text_width("榕", 10) > svg.text_width("a", 10) > svg.text_width("i", 10)
    assert svg.text_width("e\u0301", 10) == svg.text_width("e", 10)


@pytest.mark.parametrize(("text", "short"), [("banyan", "banyan"), ("banyans", "banya…"), ("榕榕榕榕", "榕榕…")])
def test_shortened_text_fits(text: str, short: str):
    assert svg.shorten(text, 6) == short


# --- brackets written by others ----------------------------------------------------------------------------------

LETTERS = st.text("abz.-", min_size=1, max_size=3).filter(lambda word: word not in ("-NONE-",))


def written(tree: object, words: list[str]) -> str:
    """Brackets for nested lists, as a treebank writes them; `words` receives the leaves."""
    if isinstance(tree, str):
        words.append(tree)
        return f"(N {tree})" if len(words) % 2 else tree
    assert isinstance(tree, list)
    return "(S-1 " + "\n ".join(written(child, words) for child in tree) + ")"


NESTED = st.recursive(LETTERS, lambda below: st.lists(below, min_size=1, max_size=4), max_leaves=25)


def is_tree(leaves: int, merges: Sequence[tuple[int, int]]) -> bool:
    """n leaves, n-1 merges; children precede parents; every node but the root is used once; spans are adjacent."""
    used = [child for merge in merges for child in merge]
    early = all(max(merge) < leaves + k for k, merge in enumerate(merges))
    spans = [(leaf, leaf + 1) for leaf in range(leaves)]
    for left, right in merges:
        if spans[left][1] != spans[right][0]:
            return False
        spans.append((spans[left][0], spans[right][1]))
    once = sorted(used) == list(range(max(2 * leaves - 2, 0)))
    return early and once and len(merges) == max(leaves - 1, 0)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(NESTED, min_size=1, max_size=4), max_size=3), st.sampled_from(["left", "right"]))
def test_any_brackets_give_binary_trees(trees: list[list[object]], branching: str):
    expected: list[list[str]] = [[] for _ in trees]
    text = "\n".join(written(tree, words) for tree, words in zip(trees, expected, strict=True))
    read = read_brackets(text, branching=branching)
    assert [tree.words for tree in read] == expected
    assert all(is_tree(len(tree.words), tree.merges) for tree in read)


@settings(deadline=None, max_examples=150)
@given(st.lists(NESTED, min_size=1, max_size=4), st.data())
def test_expanded_trees_merge_the_pieces_of_a_word_before_its_neighbours(nested: list[object], data: st.DataObject):
    (tree,) = read_brackets(written(nested, []))
    counts = data.draw(st.lists(st.integers(0, 4), min_size=len(tree.words), max_size=len(tree.words)))
    merges = tree.expand(counts)
    assert is_tree(sum(counts), merges)
    spans = [{leaf} for leaf in range(sum(counts))]
    for left, right in merges:
        spans.append(spans[left] | spans[right])
    first = 0
    for count in counts:
        assert count == 0 or set(range(first, first + count)) in spans
        first += count
    if all(count == 1 for count in counts):
        assert merges == tree.merges


def test_pieces_of_a_word_merge_from_left_to_right():
    (tree,) = read_brackets("(S (NP the dog) barks)")
    assert tree == BracketTree(["the", "dog", "barks"], [(0, 1), (3, 2)])
    assert tree.expand([1, 3, 2]) == [(1, 2), (6, 3), (4, 5), (0, 7), (9, 8)]
    assert tree.expand([1, 0, 1]) == [(0, 1)]
    assert tree.expand([0, 0, 0]) == []
    with pytest.raises(BanyanError, match="3 words, but pieces were counted for 2"):
        tree.expand([1, 1])


def test_nodes_with_many_children_branch_right_unless_asked_to_branch_left():
    assert read_brackets("(S a b c d)")[0].merges == [(2, 3), (1, 4), (0, 5)]
    assert read_brackets("(S a b c d)", branching="left")[0].merges == [(0, 1), (4, 2), (5, 3)]


def test_penn_treebank_conventions_are_understood():
    text = """( (S (NP-SBJ-1 (NNP Ann))
             (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1)) (PRN (-LRB- -LRB-) (RB twice) (-RRB- -RRB-))))
             (. .)) )"""
    (tree,) = read_brackets(text, branching="left")
    assert tree.words == ["Ann", "was", "seen", "(", "twice", ")", "."]
    assert structure(7, tree.merges) == ((0, (1, (2, ((3, 4), 5)))), 6)
    assert read_brackets("(S (NP (-NONE- *)))") == [BracketTree([], [])]


def test_brackets_without_labels():
    (tree,) = read_brackets("((the dog) (barks loudly now))", labels=False)
    assert tree.words == ["the", "dog", "barks", "loudly", "now"]
    assert structure(5, tree.merges) == ((0, 1), (2, (3, 4)))
    assert read_brackets("(the) ()", labels=False) == [BracketTree(["the"], []), BracketTree([], [])]


def test_no_text_gives_no_trees():
    assert read_brackets(" \n") == []


def test_very_deep_brackets_are_read():
    depth = 20_000
    (tree,) = read_brackets("(X a " * depth + "(X b)" + ")" * depth)
    assert len(tree.merges) == depth
    assert len(tree.expand([2] * (depth + 1))) == 2 * depth + 1


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        ("(S a)\n  word", True, r"line 2, column 3: '\(' was expected, not 'word'"),
        ("(S a))", True, r"line 1, column 6: '\(' was expected, not '\)'"),
        ("(S a)\n(S (NP b)", True, r"line 2, column 1: this '\(' is never closed, '\)' was expected before the end"),
        ("(S a (NP))", True, r"line 1, column 9: a word or '\(' was expected, not '\)'"),
        ("(word)", True, r"line 1, column 6: a word or '\(' was expected, not '\)'"),
        ("(a ())", False, r"line 1, column 5: a word or '\(' was expected, not '\)'"),
        ("((the dog) barks)", True, r"line 1, column 1: a label was expected after '\('; .* labels=False"),
        ("(S ((the dog) barks))", True, r"line 1, column 4: a label was expected"),
    ],
)
def test_errors_say_where_and_what_was_expected(text: str, labels: bool, message: str):
    with pytest.raises(BanyanError, match=message):
        read_brackets(text, labels=labels)


def test_unknown_branching_is_refused():
    with pytest.raises(BanyanError, match="branching must be"):
        read_brackets("(S a b c)", branching="middle")
