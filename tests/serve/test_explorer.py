"""The explorer in a real browser: typing, clicking, going back, and text that means harm."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("lancedb")

from tests.helpers.browser import chromium, inaccessible, opened, until
from tests.helpers.served import Served, served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(browser: Any, model_folder: Path, index_folder: Path) -> Iterator[Served]:
    with served(model_folder, "--index", index_folder, "--quiet") as server:
        yield server


@pytest.fixture
def page(browser: Any, server: Served) -> Iterator[Any]:
    with opened(browser, "status of 422") as page:
        yield page


def hits(page: Any) -> list[str]:
    return page.locator("ol.hits > li > .text").all_inner_texts()


# --- Search ----------------------------------------------------------------------------------------------------------


SECOND = "location.hash.includes('page=2') && document.getElementById('status').textContent.startsWith('Hits 11 to 20')"


def test_typing_searches_and_back_returns(page, server):
    page.goto(server.address)
    page.get_by_label("Search the collection").type("green tree")
    until(page, "document.querySelectorAll('ol.hits > li').length === 10")
    until(page, "location.hash === '#search?q=green+tree'")
    assert "green" in hits(page)[0]
    page.get_by_role("button", name="Next").click()
    until(page, SECOND)
    second = hits(page)
    page.get_by_label("words", exact=True).click()
    until(page, "location.hash === '#search?q=green+tree&by=words'")
    until(page, "document.getElementById('status').textContent.startsWith('Hits 1 ')")
    page.go_back()
    until(page, SECOND)
    assert hits(page) == second
    page.reload()
    until(page, SECOND)
    assert hits(page) == second


LATE = """const real = fetch;
window.fetch = async (path, more) => {
  const answer = await real(path, { ...more, signal: null }), told = await answer.json();
  if (path === "search") await new Promise(resolve => setTimeout(resolve, 500));
  if (path === "search") window.came = true;
  return { ok: true, json: async () => told };
};"""


@pytest.mark.parametrize("view", ["#search", "#models"])
def test_a_late_answer_is_not_shown_where_nobody_waits_for_it(browser, model_folder, index_folder, view):
    arguments = model_folder, index_folder, "--beside", model_folder
    with explored(*arguments) as address, opened(browser) as page:
        page.add_init_script(LATE)
        page.goto(f"{address}/{view}")
        query = page.locator("#query")
        query.fill("green tree")
        page.wait_for_timeout(300)
        query.fill("")  # there is nothing to search for now
        until(page, "window.came")
        page.wait_for_timeout(100)
        assert page.locator("#status").inner_text() == "Type to search."
        assert page.locator("ol.hits > li").count() == 0
        page.evaluate("window.came = false")
        query.fill("green tree")
        page.wait_for_timeout(300)
        page.get_by_role("link", name="Tree").click()
        until(page, "document.getElementById('status').textContent.endsWith('leaves')")
        until(page, "window.came")
        page.wait_for_timeout(100)
        assert page.locator("#status").inner_text().endswith("leaves")


@pytest.mark.parametrize("number", [50, 200])
def test_a_page_that_does_not_exist_leads_to_the_first(page, server, number):
    page.goto(f"{server.address}/#search?q=cat&page={number}")
    until(page, f"document.getElementById('status').textContent.startsWith('There is no page {number}')")
    page.get_by_role("button", name="First page").click()
    until(page, "document.getElementById('status').textContent.startsWith('Hits 1 to 10')")
    assert page.get_by_role("button", name="Previous").is_disabled()


def test_hits_say_why_they_were_found(page, server):
    page.goto(f"{server.address}/#search?q=the+cat+sat+on+the+mat")
    first = page.locator("ol.hits > li").first
    first.locator("mark").first.wait_for()
    assert first.locator("mark").count() > 0
    chip = first.locator(".chip").first
    chip.hover()
    assert first.locator(".text .lit").count() > 0
    page.mouse.move(0, 0)
    assert first.locator(".text .lit").count() == 0


def test_a_filter_is_built_and_shared(page, server):
    page.goto(f"{server.address}/#search?q=cat")
    page.get_by_text("Filter").click()
    page.get_by_label("Column").select_option("kind")
    assert page.get_by_role("button", name="Add").is_disabled()
    page.get_by_label("Value").fill("b'c")
    page.get_by_role("button", name="Add").click()
    until(page, "location.hash.includes('where=kind')")
    assert page.get_by_label("Only rows that match this SQL condition").input_value() == "kind = 'b''c'"
    page.get_by_label("Column").select_option("year")
    page.get_by_label("Value").press("Enter")
    page.get_by_label("Value").fill("1901")
    page.get_by_label("Value").press("Enter")
    expected = "(kind = 'b''c') AND year = 1901"
    assert page.get_by_label("Only rows that match this SQL condition").input_value() == expected
    until(page, "document.querySelectorAll('.meta').length === 1")
    until(page, "[...document.querySelectorAll('.meta')].every(meta => meta.textContent.includes(\"kind: b'c\"))")
    page.get_by_label("Only rows that match this SQL condition").fill("nothing = 1")
    until(page, "document.getElementById('status').classList.contains('bad')")
    assert "is not a valid condition" in page.locator("#status").inner_text()


HOSTILE = [
    "<script>alert('cat')</script> & \"quotes\"",
    "the cat \u202egod eht\u202c sat",
    "<img src=x onerror=alert(1)>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_never_html_and_stays_in_its_place(page, server, text):
    page.goto(server.address)
    page.get_by_label("Search the collection").fill(text)
    until(page, "document.querySelectorAll('ol.hits > li').length === 10")
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert page.evaluate(
        "[...document.querySelectorAll('ol.hits .text')].every(one => getComputedStyle(one).unicodeBidi === 'isolate')"
    )
    if text in HOSTILE[:2]:
        assert hits(page)[0] == text
    page.locator("ol.hits > li").first.get_by_role("link", name="Compare").click()
    page.wait_for_selector(".pieces")
    assert page.get_by_label("First text").input_value() == text
    assert page.locator(".pieces").first.inner_text() == text
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0


ENDLESS = """([text]) => {
    const list = document.querySelector('ol.hits');
    const phrases = [{ query: [0, text.length], text: [0, text.length], cosine: 1 }];
    list.replaceChildren(views.search.item(text, { text, source: 'a', row: 1, cosine: 1, phrases }));
    return [list.firstChild.clientHeight < innerHeight, getComputedStyle(list.firstChild).overflow];
}"""


@pytest.mark.parametrize("text", ["word " * 20_000, "a" * 3000, "c" + "\u0310\u0321" * 200])
def test_a_hit_leaves_room_for_the_others(page, server, text):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{server.address}/#search?q=cat")
    page.wait_for_selector("ol.hits > li")
    assert page.evaluate(ENDLESS, [text]) == [True, "clip"]


def test_back_returns_to_the_hit_and_the_focus_follows_a_link(page, server):
    page.goto(f"{server.address}/#search?q=green+tree")
    page.wait_for_selector("ol.hits > li")
    page.locator("ol.hits > li").last.get_by_role("link", name="Tree").focus()
    until(page, "history.state?.scrolled > 100")
    scrolled = page.evaluate("scrollY")
    page.keyboard.press("Enter")
    page.wait_for_selector("svg .node")
    assert page.evaluate("document.activeElement.id") == "view"
    assert page.evaluate("scrollY") == 0
    page.go_back()
    until(page, f"scrollY === {scrolled}")


def test_the_page_begins_with_texts_of_the_collection(page, server):
    page.goto(f"{server.address}/#compare")
    page.wait_for_selector(".pieces")
    texts = [page.get_by_label(f"{which} text").input_value() for which in ("First", "Second")]
    assert texts[0] == "The cat sat on the mat."
    assert texts[1].startswith("The cat sat on the mat. ")
    page.goto(f"{server.address}/#graph")
    page.wait_for_selector("svg .shared")
    assert page.locator("main li").first.inner_text() == texts[0]


@pytest.mark.parametrize(
    ("view", "hash", "told"),
    [
        ("tree", "#tree?text=", "Type a text."),
        ("compare", "#compare?a=&b=", "Type two texts."),
        ("graph", "#graph?s=", "Type some sentences."),
    ],
)
def test_a_text_that_was_cleared_stays_empty(page, server, view, hash, told):
    page.goto(f"{server.address}/#{view}")
    page.wait_for_selector("svg")
    text = page.locator("textarea").first
    text.fill("")
    until(page, f"location.hash.startsWith('{hash}')")
    page.reload()
    until(page, f"document.getElementById('status').textContent === '{told}'")
    assert text.input_value() == ""


# --- Compare and Tree ------------------------------------------------------------------------------------------------


def test_a_phrase_lights_what_goes_with_it(page, server):
    page.goto(f"{server.address}/#compare?a=the+cat+sat&b=a+dog+and+the+cat+sat")
    page.wait_for_selector(".pieces")
    assert page.locator("svg .lit").count() == 0
    page.locator("svg").first.locator(".node:not(.leaf)").last.hover()
    assert page.locator("svg .lit").count() == 2
    assert "the cat sat" in page.locator("main p.faint").inner_text()
    page.get_by_label("Second text").fill("the cat sat")
    until(page, "document.querySelector('.big').textContent === '1.000'")
    told = page.locator("main").inner_text()
    assert not any(nothing in told for nothing in ("Left out", "mark of a space", "false"))


def test_compare_names_what_no_colour_can_show(page, server):
    leaf = {"text": "", "span": [0, 0], "height": 0, "piece": "▁"}
    cat, tree = leaf | {"text": "cat", "span": [4, 7], "piece": "▁cat"}, {"root": 0, "matches": [[0, 1.0]]}
    found = {
        "similarity": 0.5,
        "rows": ["▁", "bias"],
        "columns": ["cat", "bias"],
        "matrix": [[0.4, 0.05], [0.05, 0.0]],
        "a": tree | {"text": "...", "nodes": [leaf]},
        "b": tree | {"text": "cat cat", "nodes": [cat]},
    }
    page.route("**/explain", lambda route: route.fulfill(json=found))
    page.goto(f"{server.address}/#compare?a=...&b=cat+cat")
    page.wait_for_selector(".pieces")
    told = page.locator("main").inner_text()
    assert "Pairs with ▁, the mark of a space, add 0.450 to the cosine." in told
    assert "Left out, because it is repeated: cat" in told


def test_a_tree_leaves_nothing_of_the_one_before(page, server):
    page.goto(f"{server.address}/#tree?text=the+cat+sat")
    page.wait_for_selector("svg .node")
    assert page.locator("main p.text").inner_text() == "the cat sat"
    page.get_by_label("Text").fill("cat")
    until(page, "document.getElementById('status').textContent === '1 leaf'")
    assert page.locator("main p.text").inner_text() == "cat"
    assert page.locator("main input[type=range]").count() == 0
    nothing = {"text": ".", "root": None, "nodes": []}
    for text, told in (("", "Type a text."), ("...", "0 leaves")):
        page.get_by_label("Text").fill("the cat sat")
        until(page, "document.querySelectorAll('ol.merges li').length > 0")
        page.route("**/parse", lambda route: route.fulfill(json=[nothing]))
        page.get_by_label("Text").fill(text)
        until(page, f"document.getElementById('status').textContent === '{told}'")
        assert page.locator("main p.text").inner_text() == ""
        assert page.locator("ol.merges li, main input[type=range]").count() == 0
        page.unroute("**/parse")


def test_merges_are_stepped_through(page, server):
    page.goto(f"{server.address}/#tree?text=the+cat+sat+on+the+mat")
    page.wait_for_selector("svg .node")
    merges = page.locator("ol.merges > li").count()
    assert merges == page.locator("svg .node:not(.leaf)").count()
    page.get_by_role("button", name="Step back").click()
    assert page.get_by_text(f"merge {merges - 1} of {merges}").is_visible()
    assert page.locator("svg .node.later").count() == 1
    page.locator("svg .node:not(.leaf)").first.focus()  # with the keyboard, too
    page.keyboard.press("Enter")
    page.wait_for_selector(".plain li")
    assert "Nearest to" in page.locator("main").inner_text()


@pytest.mark.parametrize("text", ["قطة خضراء على السجادة", "हरी बिल्ली चटाई पर बैठी", "𝒄𝒂𝒕 🐈 cat"])
def test_every_script_is_cut_where_its_pieces_are(page, server, text):
    page.goto(server.address)
    page.evaluate("text => { location.hash = link('compare', { a: text, b: text }) }", text)
    page.wait_for_selector(".pieces")
    assert page.locator(".pieces").all_inner_texts() == [text, text]
    page.evaluate("text => { location.hash = link('tree', { text }) }", text)
    page.wait_for_selector("svg .node")
    first, last = (page.locator("svg .leaf").nth(i).bounding_box()["x"] for i in (0, -1))
    assert (first > last) == text.startswith("ق")


def test_a_tree_wider_than_its_box_begins_where_the_text_does(browser, server):
    text = " ".join(["قطة خضراء على السجادة"] * 3)
    with opened(browser, viewport={"width": 700, "height": 800}) as page:
        for view in ("compare", "tree"):
            page.goto(server.address)
            page.wait_for_selector("nav a")
            page.evaluate("([view, text]) => { location.hash = link(view, { text, a: text, b: text }) }", [view, text])
            page.wait_for_selector("svg .node")
            boxes = "[...document.querySelectorAll('.scroll.card')]"
            assert page.evaluate(f"{boxes}.every(one => one.scrollWidth > one.clientWidth && one.scrollLeft > 0)"), view


LEFT_OUT = """drawing.leftOut({ text: "The cat, the dog.", nodes: [[0, 3], [4, 7], [13, 16], [0, 7], [0, 16]].map(
    span => ({ span, piece: "", height: 0, children: null })) })"""


def test_repeated_words_that_the_tree_leaves_out_are_named(page, server):
    page.goto(f"{server.address}/#tree")
    page.wait_for_selector("svg .node")
    assert page.evaluate(LEFT_OUT) == ["the"]


# --- Graph -----------------------------------------------------------------------------------------------------------


def test_shared_phrases_are_drawn_once(page, server):
    page.goto(f"{server.address}/#graph?s=the+cat+sat%0Athe+cat+sat%0Aa+dog+slept")
    page.wait_for_selector("svg.graph .node")
    nodes, shared = page.locator("svg.graph .node").count(), page.locator("svg.graph .node.shared").count()
    assert f"{nodes} nodes instead of {nodes + shared} in" in page.locator("#status").inner_text()
    page.locator("svg.graph .node.shared").last.hover()
    assert page.locator("main ol > li.lit").all_inner_texts() == ["the cat sat", "the cat sat"]
    before = page.locator("svg.graph").get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").click()
    page.locator("svg.graph").press("ArrowLeft")
    assert page.locator("svg.graph").get_attribute("viewBox") != before
    page.get_by_role("button", name="Fit").click()
    assert page.locator("svg.graph").get_attribute("viewBox") == before


FORTY = "%0A".join(
    f"the {colour}+{what}+{i}+sat+on+the+{where}"
    for i, (colour, what, where) in enumerate(
        itertools.product(
            ("green", "old"), ("cat", "dog", "house", "tree"), ("mat", "house", "big+tree", "table", "roof")
        )
    )
)
LETTERS = """14 * document.querySelector('.stage').clientWidth /
    document.querySelector('svg.graph').getAttribute('viewBox').split(' ')[2]"""
COVERED = """(() => {
    const boxes = [...document.querySelectorAll('svg.graph .pill')].map(one => one.getBBox());
    const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    return boxes.some((a, i) => boxes.some((b, j) => i < j && meet(a, b)));
})()"""
IN_VIEW = """name => {
    const stage = document.querySelector('.stage').getBoundingClientRect();
    return [...document.querySelectorAll('svg.graph .node')].flatMap((node, i) => {
        const box = node.getBoundingClientRect();
        const across = stage.left <= box.left && box.right <= stage.right;
        const inside = across && Math.max(stage.top, -1) <= box.top && box.bottom <= stage.bottom;
        return inside && node.classList.contains(name) ? [i] : [];
    });
}"""


def centre(page: Any, node: int) -> tuple[float, float]:
    box = page.locator("svg.graph .node").nth(node).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("width", [360, 1280])
def test_forty_sentences_are_legible_and_within_reach(browser, server, width):
    with opened(browser, viewport={"width": width, "height": 800}) as page:
        page.goto(f"{server.address}/#graph?s={FORTY}")
        page.wait_for_selector("svg.graph .node")
        assert f"{page.locator('svg.graph .node').count()} nodes" in page.locator("#status").inner_text()
        assert page.evaluate(LETTERS) > 8
        assert not page.evaluate(COVERED)
        page.locator("ol.sentences button").nth(30).click()
        page.mouse.move(0, 0)
        node, letters = page.evaluate(IN_VIEW, "under")[0], page.evaluate(LETTERS)
        assert letters > 8
        before = centre(page, node)
        page.mouse.move(*before)
        page.mouse.wheel(0, -200)
        until(page, f"({LETTERS}) > {1.2 * letters}")
        assert centre(page, node) == pytest.approx(before, abs=2)
        page.mouse.move(0, 0)
        page.locator("svg.graph").focus()  # with the keyboard: the phrases of the sentence, wherever they are drawn
        reached = page.locator("svg.graph .node[tabindex='0']").count()
        assert 0 < reached < 50
        for _ in range(reached):
            page.keyboard.press("Tab")
            assert len(page.evaluate(IN_VIEW, "lit")) == 1
        page.get_by_role("button", name="Fit").click()
        assert page.evaluate(LETTERS) < 8
        for _ in range(4):
            page.get_by_role("button", name="Zoom in").click()
        assert page.evaluate(LETTERS) > 8


def test_hits_are_chosen_for_the_graph(page, server):
    page.goto(f"{server.address}/#search?q=cat")
    page.locator("ol.hits > li").first.wait_for()
    texts = hits(page)[:2]
    for i in range(2):
        page.locator("ol.hits > li").nth(i).get_by_role("button", name="Graph").click()
    page.get_by_role("link", name="Graph").click()
    page.wait_for_selector("svg.graph .node")
    assert page.get_by_label("Sentences, one per line").input_value().split("\n") == texts
    page.reload()  # as the link that is copied: the other browser has chosen nothing
    page.wait_for_selector("svg.graph .node")
    assert page.get_by_label("Sentences, one per line").input_value().split("\n") == texts
    page.go_back()
    until(page, "location.hash === '#search?q=cat'")


# --- Map -------------------------------------------------------------------------------------------------------------


def test_the_map_is_searched_coloured_and_shared(page, server):
    page.goto(f"{server.address}/#map")
    page.wait_for_selector("canvas")
    until(page, "document.querySelector('.side').innerText.includes('40 texts')")
    page.get_by_label("Find").fill("green tree")
    until(page, "document.querySelectorAll('.side ol > li').length > 0")
    until(page, "location.hash === '#map?q=green+tree'")
    assert "green" in page.locator(".side ol > li").first.inner_text()
    assert "the 40 nearest of 40 texts" in page.locator(".side").inner_text()
    page.get_by_label("Find").fill("   ")
    until(page, "document.querySelector('.side').innerText.includes('40 texts, ')")
    page.get_by_label("Find").fill("green tree")
    until(page, "document.querySelectorAll('.side ol > li').length > 0")
    assert not page.locator(".legend").is_visible()  # there are many groups, and the hits are below
    page.get_by_text("Groups").click()
    page.get_by_role("button", name="Copy link").click()
    page.get_by_label("Colour by").select_option("kind")
    until(page, "[...document.querySelectorAll('.legend bdi')].map(one => one.textContent).join() === \"a,b'c\"")
    page.locator(".side ol > li button").first.click()
    page.locator(".tip").wait_for()
    page.go_back()
    until(page, "location.hash === '#map?q=green+tree' && document.querySelectorAll('.legend li').length > 2")
    page.locator("canvas").press("+")


# --- Models ----------------------------------------------------------------------------------------------------------


def test_two_models_search_side_by_side(browser, model_folder, index_folder, trained_folder):
    with (
        explored(model_folder, index_folder, "--beside", trained_folder) as address,
        opened(browser, viewport={"width": 360, "height": 800}) as page,
    ):
        page.goto(f"{address}/#models")
        page.wait_for_selector("nav a[aria-current]")
        assert page.evaluate(
            "document.querySelector('nav a[aria-current]').getBoundingClientRect().right <= innerWidth"
        )
        page.get_by_label("Search with both models").fill("green tree")
        until(page, "[...document.querySelectorAll('ol.hits')].every(list => list.children.length === 10)")
        one, other = (column.locator("li > .text").all_inner_texts() for column in page.locator("ol.hits").all())
        assert one != other
        told = page.locator("#status").inner_text()
        assert told == f"The first 10 of both models have {len(set(one) & set(other))} in common."
        assert "in the other" in page.locator(".meta").first.inner_text()


@contextmanager
def explored(*arguments: object) -> Iterator[str]:
    """The address of the page of `banyan explore`."""
    command = [sys.executable, "-m", "banyan", "explore", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        told = process.stderr.readline()
        try:
            assert told.endswith("/ shows the page; Ctrl-C ends it\n"), told
            yield told.partition("/ shows")[0]
        finally:
            process.send_signal(signal.SIGINT)
        process.stderr.read()
    assert process.returncode == 0


def test_explore_answers_only_to_names_of_this_machine(model_folder):
    with explored(model_folder) as address:
        port = address.rpartition(":")[2]
        for host, status in ((f"localhost:{port}", 200), (f"127.0.0.1:{port}", 200), (f"evil.example:{port}", 403)):
            assert httpx.get(address, headers={"host": host}).status_code == status
        told = httpx.post(f"{address}/explore/about", json={}, headers={"host": "evil.example"}).json()["error"]
        assert told == "this page is for this machine only, and the request has the Host 'evil.example': use localhost"


# --- The page --------------------------------------------------------------------------------------------------------


def test_the_page_asks_for_a_key(browser, model_folder, tmp_path):
    (tmp_path / "key").write_text("sesame")
    with served(model_folder, "--quiet", "--api-key-file", tmp_path / "key") as server, opened(browser, "401") as page:
        page.goto(server.address)
        page.get_by_label("This server needs an API key.").fill("sesame")
        page.get_by_role("button", name="Use it").click()
        page.wait_for_selector("nav a")
        assert page.locator("nav a").all_inner_texts()[0] != "Search"  # there is no index


VIEWS = ("search?q=cat", "compare?a=the+cat+sat&b=a+dog+and+the+cat+sat", "tree", "graph", "map")
NAMELESS = """[...document.querySelectorAll('input, select, textarea, button, [role=button]')].filter(one =>
    !one.labels?.length && !one.getAttribute('aria-label') && !one.textContent.trim()).map(one => one.outerHTML)"""


def test_every_control_has_a_name_and_the_tabs_are_links(page, server):
    for view in VIEWS:
        page.goto(f"{server.address}/#{view}")
        page.reload()
        page.wait_for_selector("#view *")
        assert page.evaluate(NAMELESS) == []
        assert page.locator("nav a[aria-current=page]").count() == 1


STYLE = "getComputedStyle(document.body)."


@pytest.mark.parametrize("width", [360, 1280])
def test_every_view_is_accessible_and_no_wider_than_the_screen(browser, server, width):
    for scheme in ("light", "dark"):
        with opened(browser, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
            for view in VIEWS:
                page.goto(f"{server.address}/#{view}")
                page.reload()
                page.wait_for_selector("#view *")
                page.wait_for_load_state("networkidle")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
                assert inaccessible(page) == [], (view, scheme)
            ink, back = (
                sum(map(int, re.findall(r"\d+", page.evaluate(STYLE + each)))) for each in ("color", "backgroundColor")
            )
            assert (ink < back) == (scheme == "light")
