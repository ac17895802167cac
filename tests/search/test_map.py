"""The overview of a collection: clusters, phrases, near-duplicates, and a map that is one file."""

from __future__ import annotations

import csv
import json
import re
import zlib

import numpy as np
import pytest

from tests.helpers.browser import chromium, opened, until

pytest.importorskip("lancedb")
pytest.importorskip("sklearn")

from banyan import BanyanError
from banyan.explorer import map_page
from banyan.search import clusters, maps
from banyan.search.closed_classes import closed
from banyan.search.clusters import divided, near_duplicates, overview, typical_phrases
from banyan.search.index import Index, Maker

TOPICS = {
    "rail": "The steam train leaves the railway station number {}.",
    "bread": "The baker kneads the dough of rye bread for day {}.",
    "stars": "A telescope shows the distant galaxy and star {}.",
}


def encode(texts: list[str]) -> np.ndarray:
    """A direction for each topic, and a little of its own for each text."""
    places = [next((i for i, text in enumerate(TOPICS.values()) if said[:9] == text[:9]), 3) for said in texts]
    own = np.array([np.random.default_rng(zlib.crc32(said.encode())).normal(size=8) for said in texts])
    return np.eye(8)[places] + 0.1 * own


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    folder = tmp_path_factory.mktemp("map")
    texts = [text.format(i) for i in range(40) for text in TOPICS.values()]
    texts += [texts[0], texts[1], texts[0], "<script>alert('x')</script> </script><!-- said the train"]
    (folder / "corpus.txt").write_text("\n".join(texts))
    with Index.writing(folder / "index", Maker("none", "none", 8)) as index:
        index.add(encode, [str(folder / "corpus.txt")])
    return index


def test_clusters_are_the_topics_and_their_phrases_name_them(index):
    found = overview(index.rows, 3, where="row <= 120")
    assert [cluster.size for cluster in found.clusters] == [40, 40, 40]
    said = [" ".join(cluster.phrases) for cluster in found.clusters]
    for word in ("railway", "dough", "galaxy"):
        assert sum(word in phrases for phrases in said) == 1
    for cluster in found.clusters:
        assert len({text[:9] for text in cluster.typical}) == 1


def test_the_same_collection_gives_the_same_clusters(index):
    a, b = overview(index.rows, 4), overview(index.rows, 4)
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.clusters == b.clusters


def test_common_words_are_no_phrases():
    texts = {1: [f"the cat of the house {i}" for i in range(20)], 2: [f"the dog of the yard {i}" for i in range(20)]}
    said = typical_phrases(texts)
    assert said[1][0] == "cat"
    assert not any(phrase.split()[0] == "the" for phrases in said.values() for phrase in phrases)


@pytest.mark.parametrize("all_pairs", [True, False])
def test_near_duplicates_are_all_pairs_above_the_threshold(monkeypatch, all_pairs):
    monkeypatch.setattr(clusters, "BLOCK", 16)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 8))
    vectors[[7, 30, 41]] = vectors[3] + 0.01 * rng.normal(size=(3, 8))
    vectors[20] = vectors[19]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    monkeypatch.setattr(clusters, "ALL_PAIRS", 1000 if all_pairs else 10)
    groups = near_duplicates(vectors.astype(np.float32), divided(vectors, 2)[0], 0.99)
    assert [group.tolist() for group in groups] == [[3, 7, 30, 41], [19, 20]]


def test_more_clusters_than_rows_is_one_sentence(index):
    with pytest.raises(BanyanError, match="cannot divide 3 rows into 5 clusters"):
        overview(index.rows, 5, where="row <= 3")
    with pytest.raises(BanyanError, match="at least two are needed"):
        overview(index.rows, 5, where="row < 0")


# --- The map ---------------------------------------------------------------------------------------------------------


def drawn(index: Index, **options) -> str:
    from banyan.search.maps import map_of

    return map_of(index.rows, "A <map>", 3, method="pca", **options)


def data_of(page: str) -> dict:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def test_a_name_is_where_its_cluster_is_densest():
    parts = [((1000, 60_000), 40), ((30_000, 0), 35), ((65_535, 65_535), 35)]
    places = np.concatenate([np.tile(place, (n, 1)) for place, n in parts])
    found = maps._cluster(1, ["cats"], places)
    assert (found["x"], found["y"]) == parts[0][0]  # not the median, where there is nothing
    assert (found["name"], found["size"]) == ("cats", 110)


def test_the_map_is_one_file_that_loads_nothing(index):
    page = drawn(index)
    ours = re.sub(r'id="data">.*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=|@import|url\(|https?:|fetch\(|import\(", ours)
    data = data_of(page)
    assert len(data["x"]) == len(data["y"]) == len(data["text"]) == len(data["cluster"]) == len(index.rows)
    assert min(data["x"] + data["y"]) == 0
    assert max(data["x"] + data["y"]) == 65_535
    assert data["columns"].keys() == {"source"}
    assert sum(cluster["size"] for cluster in data["clusters"]) == len(index.rows)


def test_text_of_the_corpus_is_never_html(index):
    page = drawn(index)
    assert "<script>alert" not in page
    assert any(text.startswith("<script>alert('x')</script>") for text in data_of(page)["text"])
    assert "<title>A &lt;map&gt;</title>" in page


def test_a_large_collection_is_sampled(index):
    data = data_of(drawn(index, most=30))
    assert len(data["x"]) == 30
    assert len(set(data["place"])) == 30


def test_similar_texts_lie_close_together(index):
    data = data_of(drawn(index, where="row <= 120"))
    places, labels = np.array([data["x"], data["y"]]).T, np.array(data["cluster"])
    centres = np.array([places[labels == number].mean(0) for number in (1, 2, 3)])
    spread = max(np.linalg.norm(places[labels == number] - centres[number - 1], axis=1).mean() for number in (1, 2, 3))
    apart = min(np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert apart > 2 * spread


LATIN = """arma virumque cano Troiae qui primus ab oris Italiam fato profugus Laviniaque venit litora multum ille et
terris iactatus et alto vi superum saevae memorem Iunonis ob iram multa quoque et bello passus dum conderet urbem
quid tibi vis cum eo quem tu et tua mater apud nos videre non potestis nec ego nec vos nec hic nec ille nec ipse sed
si quis ea quae de his aut contra eos per te vel sine me iam nunc aut tum in hac re dicta sunt ut est sic esse sit
huius uero hominis atque eius qui tecum fuit ex quo ad illum nihil a nobis quam ob rem"""


def test_words_of_closed_classes_are_known_in_their_language_only():
    latin = LATIN.lower().split()
    english = "the church was built by the river in nineteen hundred and its tower is a ruin".split()
    found = closed([latin])
    assert {"tecum", "huius", "uero", "vis", "cum"} - found == {"vis"}
    assert closed([[*latin, "hujus", "ējus", "vnde"]]) >= {"hujus", "ējus", "vnde"}  # other spellings
    assert not closed([english * 50])
    assert not closed([latin, *[english] * 50])
    prose = """nothing of what they said to him was what he would do himself if it were not for those who had been there
    before and whom she would have asked to be with us or at least with some of them when we are from here and as long
    as you can but then no one has done it and all these are in my own house because i do not think that both of your"""
    assert {"nothing", "do"} <= closed([prose.split()])
    assert "house" not in closed([prose.split()])


def test_words_of_grammar_name_no_cluster_in_any_script():
    rng = np.random.default_rng(0)
    topics = {"film music": "the of are", "war army": "the of are", "فيلم موسيقى": "في من على", "حرب جيش": "في من على"}
    texts = {}
    for number, (topic, grammar) in enumerate(topics.items(), 1):
        words = topic.split() + grammar.split() * 2
        texts[number] = [" ".join([*rng.permutation(words)[:5], f"x{i}", topic.split()[0]]) for i in range(40)]
    for number, (topic, grammar) in enumerate(topics.items(), 1):
        said = [phrase.split() for phrase in typical_phrases(texts)[number]]
        assert said[0][0] in topic
        assert not {phrase[0] for phrase in said} & set(grammar.split())


def test_the_file_finds_colours_and_lassos(index, tmp_path):
    (tmp_path / "map.html").write_text(drawn(index), encoding="utf-8")
    with chromium() as browser, opened(browser) as page:
        page.goto((tmp_path / "map.html").as_uri())
        assert page.locator("p[role=status].faint").inner_text() == "124 texts, 3 clusters"
        assert int(page.locator("canvas").get_attribute("data-labels")) >= 1
        page.get_by_label("Find").fill("Galaxy star")
        until(page, "document.querySelectorAll('.side ol > li').length === 40")
        assert "40 of 124 texts" in page.locator(".side").inner_text()
        page.get_by_role("button", name="Show all").click()
        page.locator(".legend button").first.click()
        until(page, "document.querySelectorAll('.side ol > li').length > 0")
        page.get_by_role("button", name="Show all").click()
        page.get_by_label("Colour by").select_option("source")
        until(page, "document.querySelectorAll('.legend li').length === 1")
        page.get_by_role("button", name="Lasso").click()
        box = page.locator("canvas").bounding_box()
        corners = [(3, 3), (box["width"] - 3, 3), (box["width"] - 3, box["height"] - 3), (3, box["height"] - 3)]
        page.mouse.move(box["x"] + 3, box["y"] + 3)
        page.mouse.down()
        for x, y in corners:
            page.mouse.move(box["x"] + x, box["y"] + y)
        page.mouse.up()
        until(page, "document.querySelectorAll('.side ol > li').length === 124")
        assert page.evaluate("document.querySelectorAll('.side script').length") == 0


def test_groups_of_a_column_have_short_names_and_an_empty_value_has_one(tmp_path):
    values = [(0.1 + 0.2 + i / 7, ("a", "")[i % 2]) for i in range(40)]
    rows = [f"{TOPICS['rail'].format(i)},{price!r},{kind}" for i, (price, kind) in enumerate(values)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,price,kind", *rows]))
    with Index.writing(tmp_path / "index", Maker("none", "none", 8)) as index:
        index.add(encode, [str(tmp_path / "rows.csv")], column="text")
    (tmp_path / "map.html").write_text(drawn(index), encoding="utf-8")
    names = "[...document.querySelectorAll('.legend bdi')].map(one => one.textContent)"
    with chromium() as browser, opened(browser) as page:
        page.goto((tmp_path / "map.html").as_uri())
        page.get_by_label("Colour by").select_option("price")
        until(page, f"{names}.length === 10")
        assert page.evaluate(names)[:2] == ["below 0.871429", "0.871429 to 1.44286"]
        page.get_by_label("Colour by").select_option("kind")
        until(page, f"{names}.length === 2")
        assert page.evaluate(names) == ["a", "empty"]


def test_words_of_many_clusters_name_none_even_if_one_has_most_of_them():
    """As pronouns in biographies: in every other cluster now and then, in one cluster often."""
    texts = {}
    for number in range(1, 21):
        often = 90 if number == 1 else 5 * (number % 2)
        texts[number] = [f"topic{number} x{i}{' her' if i < often else ''}" for i in range(100)]
    said = typical_phrases(texts)
    assert said[1][0] == "topic1"
    assert not any("her" in phrase.split() for phrases in said.values() for phrase in phrases)


def test_a_single_letter_names_a_cluster_only_where_letters_have_no_case():
    others = {"k": "dog", "Q": "dog", "д": "дом", "aa": "dog", "k q": "dog", "水": "山", "ש": "בית"}
    for one, other in others.items():
        texts = {1: [f"{one} x{i}" for i in range(20)], 2: [f"{other} y{i}" for i in range(20)]}
        assert typical_phrases(texts) == {1: [] if one in ("k", "Q", "д") else [one], 2: [other]}


def test_vowels_that_only_some_texts_write_make_no_other_words():
    both = [f"مُحَمَّدٌ رَسُول {i}" for i in range(9)] + [f"محمد رسول {i}" for i in range(9)]
    texts = {1: both, 2: [f"بيت قديم {i}" for i in range(18)]}
    assert typical_phrases(texts)[1][0] == "محمد رسول"


def test_islands_are_drawn_near_and_stay_in_their_direction():
    rng = np.random.default_rng(0)
    plane = np.concatenate([rng.normal(size=(980, 2)), [50, 0] + 0.01 * rng.normal(size=(20, 2))])
    drawn = maps._gathered(plane)
    inside = np.linalg.norm(plane, axis=1) < 1.5
    np.testing.assert_allclose(drawn[inside] - drawn[0], plane[inside] - plane[0], atol=1e-9)
    assert 3 < drawn[-20:, 0].min() <= drawn[-20:, 0].max() < 10
    assert np.abs(drawn[-20:, 1]).max() < 1


PAINTED = """const put = CanvasRenderingContext2D.prototype.putImageData; window.painted = 0;
CanvasRenderingContext2D.prototype.putImageData = function (...given) { window.painted++; put.apply(this, given); };"""


def test_100_000_points_are_painted_only_when_they_move_and_then_in_fewer_pixels(tmp_path):
    n, rng = 100_000, np.random.default_rng(0)
    x, y = rng.integers(0, 65_536, (2, n)).tolist()
    clusters = [{"number": 1, "name": "all", "size": n, "x": 0, "y": 0}]
    data = {"x": x, "y": y, "cluster": [1] * n, "clusters": clusters, "rows": n, "columns": {}}
    data |= {name: ["a text"] * n for name in ("text", "place")}
    (tmp_path / "map.html").write_text(map_page("many", data), encoding="utf-8")
    with chromium() as browser, opened(browser, device_scale_factor=2) as page:
        page.add_init_script(PAINTED)
        page.goto((tmp_path / "map.html").as_uri())
        width = "document.querySelector('canvas').width === {} * document.querySelector('canvas').clientWidth"
        until(page, "window.painted > 0 && " + width.format(2))
        box = page.locator("canvas").bounding_box()
        page.wait_for_timeout(100)
        before = page.evaluate("window.painted")
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=5)
        until(page, "!document.querySelector('.ring').hidden")
        assert page.evaluate("window.painted") == before
        page.mouse.wheel(0, -100)
        until(page, width.format(1))
        until(page, width.format(2))
        assert page.evaluate("window.painted") >= before + 2


# --- The commands ----------------------------------------------------------------------------------------------------


def test_cluster_and_map_from_the_command_line(index, tmp_path, capsys):
    from banyan.commands import main

    folder = str(index.folder)
    assert main(["cluster", folder, "--clusters", "4", "--alike", "0.9999", "-o", str(tmp_path / "rows.csv")]) == 0
    told = capsys.readouterr().out
    assert "railway" in told
    assert "near-duplicates: 2 groups, 3 texts" in told
    rows = list(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))
    assert len(rows) == 124
    assert [row["row"] for row in rows if row["alike"] == "1"] == ["1", "121", "123"]
    assert main(["cluster", folder, "--clusters", "4", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["clusters"]) == 4
    assert main(["map", folder, "-o", str(tmp_path / "map.html"), "--method", "pca"]) == 0
    assert (tmp_path / "map.html").stat().st_size > 10_000
    assert main(["cluster", folder, "-o", str(tmp_path / "rows.xls")]) == 1
    assert "must end in .csv or .jsonl" in capsys.readouterr().err


def test_umap_places_every_row_the_same_way_and_keeps_neighbours():
    from banyan.search.maps import laid_out

    rng = np.random.default_rng(0)
    topic = np.arange(240) % 8
    vectors = (3 * np.eye(8, 20)[topic] + rng.normal(scale=0.3, size=(240, 20))).astype(np.float32)
    vectors[200:240] = vectors[0:40]  # equal texts
    places = laid_out(vectors, "umap")
    assert (places.shape, places.min(), places.max()) == ((240, 2), 0, 65_535)
    np.testing.assert_array_equal(places, laid_out(vectors, "umap"))
    far = np.linalg.norm(places[:, None] - places, axis=-1) + 1e9 * np.eye(240)
    assert (topic[far.argsort(1)[:, :5]] == topic[:, None]).mean() > 0.99


def test_of_many_points_a_sample_is_placed_and_the_others_beside_it(monkeypatch):
    from banyan.search import maps

    monkeypatch.setattr(maps, "LAID_OUT", 120)
    rng = np.random.default_rng(0)
    topic = np.arange(400) % 4
    vectors = (3 * np.eye(4, 20)[topic] + rng.normal(scale=0.3, size=(400, 20))).astype(np.float32)
    places = maps.laid_out(vectors, "umap")
    far = np.linalg.norm(places[:, None] - places, axis=-1) + 1e9 * np.eye(400)
    assert (topic[far.argsort(1)[:, :5]] == topic[:, None]).mean() > 0.99


@pytest.mark.parametrize("vectors", [np.ones((40, 8)), np.eye(40), np.ones((40, 1)), np.zeros((20, 5))])
def test_maps_of_odd_vectors_are_finite(vectors):
    from banyan.search.maps import laid_out

    places = laid_out(vectors.astype(np.float32), "umap")
    assert 0 <= places.min() <= places.max() <= 65_535


def test_pronouns_name_no_cluster_even_if_they_are_its_most_frequent_words():
    """As in a cluster of letters: "mi", "ti" and "si" are in most of its texts and in few others."""
    rng = np.random.default_rng(0)
    grammar, pronouns = [f"{a}{b}" for a in "klmnp" for b in "aeiou" if a + b != "mi"], ["mi", "ti", "si"]
    texts: dict[int, list[str]] = {}
    for number in range(1, 21):
        subjects = [f"subject{number}{letter}" for letter in "abcdef"]
        texts[number] = []
        for _ in range(100):
            words = [word for _ in range(4) for word in (rng.choice(subjects), *rng.choice(grammar, 2))]
            for pronoun in pronouns:
                if rng.random() < (0.95 if number == 1 else 0.02):
                    words.insert(rng.integers(len(words)), pronoun)
            texts[number].append(" ".join(words))
    said = typical_phrases(texts, 3)
    assert all(word.startswith("subject1") for phrase in said[1] for word in phrase.split()), said[1]
