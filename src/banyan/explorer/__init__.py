"""The page to explore a model and a collection with, and the map as one file. See docs/explorer.md.

Both are one HTML file that loads nothing else. Each is joined here from plain files in this folder; their scripts share
one scope:

    page.html    the explorer                 map.html      a map in one file
    style.css    the style of both
    base.js      elements and text            server.js     requests to the server, the state in the address
    search.js    search as one types          tree.js       the tree of a text, and drawings of trees
    compare.js   two texts                    graph.js      the entangled graph of sentences
    points.js    the canvas of a map          map.js        the map of the collection
    models.js    a query in two models        map_file.js   the script of map.html
    start.js     the first view

Text of users only ever becomes the content of text nodes.
"""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path
from typing import Any

from banyan.support.pages import policy

_FOLDER = Path(__file__).parent
_EXPLORER = ("base", "server", "search", "tree", "compare", "graph", "points", "map", "models", "start")
_MAP = ("base", "points", "map_file")


@cache
def page() -> tuple[bytes, str]:
    """The explorer and its content-security policy."""
    script, style = _script(_EXPLORER), _read("style.css")
    filled = _filled("page.html", STYLE=style, SCRIPT=script)
    return filled.encode(), policy(script, style, connect="'self'") + "; frame-ancestors 'none'"


def map_page(title: str, data: dict[str, Any]) -> str:
    """A map as one file. data: see banyan.search.maps.map_of."""
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    for character in "<\u2028\u2029":  # so that no tag can begin
        packed = packed.replace(character, f"\\u{ord(character):04x}")
    script, style = _script(_MAP), _read("style.css")
    parts = {"TITLE": html.escape(title), "STYLE": style, "DATA": packed, "SCRIPT": script}
    return _filled("map.html", POLICY=policy(script, style), **parts)


def _script(names: tuple[str, ...]) -> str:
    return "\n".join(['"use strict";', *(_read(f"{name}.js") for name in names)])


@cache
def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _filled(name: str, **parts: str) -> str:
    """A page with its parts, which are @NAMED@ in it. They may contain anything, so they are never searched."""
    pieces = _read(name).split("@")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
