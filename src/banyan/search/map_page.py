"""The HTML page of a map: one file that loads nothing else."""

from __future__ import annotations

import html
import json
from typing import Any

from banyan.support.pages import policy


def map_page(title: str, data: dict[str, Any]) -> str:
    """Return the page.

    data: x, y (integers 0..65535), cluster, text and place, each a list with one entry per point; clusters: a list of
    number, name and size."""
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")  # no tag can begin
    packed = packed.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {"TITLE": html.escape(title), "STYLE": _STYLE, "DATA": packed, "SCRIPT": _SCRIPT}
    parts["POLICY"] = policy(_SCRIPT, _STYLE)
    pieces = _PAGE.split("@")  # the data may contain anything, so it is never searched
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="@POLICY@">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@TITLE@</title>
<style>@STYLE@</style>
</head>
<body>
<canvas id="map" tabindex="0" role="img" aria-label="Map of texts; similar texts are close together"></canvas>
<aside>
<h1>@TITLE@</h1>
<input id="search" type="search" placeholder="Search the texts" aria-label="Search the texts" autocomplete="off">
<p id="count" aria-live="polite"></p>
<ul id="legend"></ul>
<ol id="results"></ol>
<p class="hint">Drag to move, scroll to zoom, double-click to see all. Click a cluster to show it alone.</p>
</aside>
<div id="tip" hidden></div>
<script type="application/json" id="data">@DATA@</script>
<script>@SCRIPT@</script>
</body>
</html>
"""

_STYLE = """
:root { --back: #fbfbfa; --ink: #222; --faint: #777; --line: #ddd; --card: #fff; --quiet: #c9c9c9 }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181a; --ink: #e6e6e6; --faint: #999; --line: #333; --card: #202326; --quiet: #45494d }
}
* { box-sizing: border-box }
html, body { margin: 0; height: 100%; overflow: hidden; background: var(--back); color: var(--ink);
  font: 14px/1.4 system-ui, sans-serif }
canvas { position: absolute; inset: 0 0 0 320px; width: calc(100% - 320px); height: 100%; cursor: grab; outline: 0 }
canvas:active { cursor: grabbing }
aside { position: absolute; inset: 0 auto 0 0; width: 320px; padding: 14px; overflow: auto;
  border-right: 1px solid var(--line); background: var(--card) }
h1 { font-size: 16px; margin: 0 0 10px; overflow-wrap: anywhere }
input { width: 100%; padding: 7px 9px; font: inherit; color: inherit; background: var(--back);
  border: 1px solid var(--line); border-radius: 6px }
#count, .hint { color: var(--faint); font-size: 12px; margin: 6px 0 }
ul, ol { list-style: none; margin: 8px 0; padding: 0 }
#legend button { display: flex; gap: 8px; width: 100%; padding: 3px 4px; border: 0; border-radius: 5px; font: inherit;
  color: inherit; background: none; text-align: left; cursor: pointer }
#legend button:hover, #legend button[aria-pressed=true], #results li:hover { background: var(--back) }
#legend i { flex: none; width: 11px; height: 11px; border-radius: 50%; margin-top: 5px }
#legend small { color: var(--faint); margin-left: auto }
#results li { padding: 5px 4px; border-top: 1px solid var(--line); cursor: pointer; overflow-wrap: anywhere }
#tip { position: absolute; max-width: 420px; padding: 8px 10px; background: var(--card); border: 1px solid var(--line);
  border-radius: 7px; box-shadow: 0 3px 14px #0003; pointer-events: none; overflow-wrap: anywhere }
#tip small { display: block; color: var(--faint) }
@media (max-width: 700px) {
  canvas { inset: 0; width: 100%; height: 60% }
  aside { inset: 60% 0 0 0; width: 100%; border: 0; border-top: 1px solid var(--line) }
}
"""

_SCRIPT = r"""
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const n = data.x.length, canvas = document.getElementById("map"), draw = canvas.getContext("2d");
const tip = document.getElementById("tip"), count = document.getElementById("count");
const results = document.getElementById("results"), legend = document.getElementById("legend");
const lower = data.text.map(text => text.toLowerCase());
let matches = null, only = 0, pointed = -1, waiting = false;   // matches: a Set, or null if there is no search
let scale = 1, left = 0, top_ = 0, width = 1, height = 1;      // screen = position * scale + left

// The golden angle separates the colours of neighbours in the list.
const colour = cluster => `hsl(${(cluster * 137.508) % 360} 62% ${cluster % 2 ? 46 : 58}%)`;
const colours = data.clusters.map(cluster => colour(cluster.number));
const screenX = i => data.x[i] * scale + left, screenY = i => data.y[i] * scale + top_;
const shown = i => (!only || data.cluster[i] === only) && (!matches || matches.has(i));

// A grid finds the points near the pointer without checking all of them.
const CELLS = 128, grid = new Map();
for (let i = 0; i < n; i++) {
  const key = (data.x[i] >> 9) * CELLS + (data.y[i] >> 9);
  if (!grid.has(key)) grid.set(key, []);
  grid.get(key).push(i);
}

function fit() {
  const ratio = window.devicePixelRatio || 1;
  width = canvas.clientWidth; height = canvas.clientHeight;
  canvas.width = width * ratio; canvas.height = height * ratio;
  draw.setTransform(ratio, 0, 0, ratio, 0, 0);
}

function seeAll() {
  scale = 0.92 * Math.min(width, height) / 65535;
  left = (width - 65535 * scale) / 2; top_ = (height - 65535 * scale) / 2;
  paint();
}

function paint() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; paintNow(); });
}

function paintNow() {
  const style = getComputedStyle(document.documentElement), quiet = style.getPropertyValue("--quiet");
  const size = Math.max(1.2, Math.min(7, 90 / Math.sqrt(n) * Math.sqrt(scale * 65535 / Math.min(width, height))));
  draw.clearRect(0, 0, width, height);
  for (const bright of [false, true]) {
    draw.globalAlpha = bright ? 0.85 : 0.35;
    for (let i = 0; i < n; i++) {
      if (shown(i) !== bright) continue;
      const x = screenX(i), y = screenY(i);
      if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
      draw.fillStyle = bright ? colours[data.cluster[i] - 1] : quiet;
      draw.beginPath(); draw.arc(x, y, bright && matches ? size * 1.6 : size, 0, 7); draw.fill();
    }
  }
  draw.globalAlpha = 1;
  if (pointed >= 0) {
    draw.strokeStyle = style.getPropertyValue("--ink"); draw.lineWidth = 2;
    draw.beginPath(); draw.arc(screenX(pointed), screenY(pointed), size + 4, 0, 7); draw.stroke();
  }
}

function nearest(x, y) {
  const reach = 10 / scale, dataX = (x - left) / scale, dataY = (y - top_) / scale;
  const cell = value => Math.max(0, Math.min(CELLS - 1, value >> 9));
  let best = -1, distance = reach * reach;
  for (let a = cell(dataX - reach); a <= cell(dataX + reach); a++)
    for (let b = cell(dataY - reach); b <= cell(dataY + reach); b++)
      for (const i of grid.get(a * CELLS + b) || []) {
        const far = (data.x[i] - dataX) ** 2 + (data.y[i] - dataY) ** 2;
        if (far < distance && shown(i)) { best = i; distance = far; }
      }
  return best;
}

function point(i, x, y) {
  pointed = i;
  tip.hidden = i < 0;
  if (i >= 0) {
    const where = document.createElement("small");
    where.textContent = data.place[i] + " · " + data.clusters[data.cluster[i] - 1].name;
    tip.replaceChildren(data.text[i], where);
    const box = canvas.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(box.left + x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(box.top + y + 14, innerHeight - tip.offsetHeight - 8)) + "px";
  }
  paint();
}

function look() {
  const wanted = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  matches = wanted.length ? new Set() : null;
  if (matches) lower.forEach((text, i) => { if (wanted.every(word => text.includes(word))) matches.add(i); });
  const found = matches ? [...matches].filter(shown) : [];
  count.textContent = matches ? `${found.length} of ${n} texts` : `${n} texts, ${data.clusters.length} clusters`;
  results.replaceChildren(...found.slice(0, 100).map(i => {
    const item = document.createElement("li");
    item.textContent = data.text[i];
    item.onmouseenter = () => point(i, screenX(i), screenY(i));
    item.onclick = () => { left = width / 2 - data.x[i] * scale; top_ = height / 2 - data.y[i] * scale;
      point(i, width / 2, height / 2); };
    return item;
  }));
  paint();
}

legend.replaceChildren(...data.clusters.map(cluster => {
  const tags = ["li", "button", "i", "span", "small"];
  const [item, button, dot, name, size] = tags.map(tag => document.createElement(tag));
  dot.style.background = colours[cluster.number - 1];
  name.textContent = cluster.name; size.textContent = cluster.size;
  button.setAttribute("aria-pressed", "false");
  button.append(dot, name, size);
  button.onclick = () => {
    only = only === cluster.number ? 0 : cluster.number;
    for (const other of legend.querySelectorAll("button"))
      other.setAttribute("aria-pressed", String(other === button && only > 0));
    look();
  };
  item.append(button);
  return item;
}));

let grabbed = null;
canvas.addEventListener("pointerdown", event => {
  grabbed = [event.offsetX - left, event.offsetY - top_];
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointerup", () => { grabbed = null; });
canvas.addEventListener("pointermove", event => {
  if (!grabbed) return point(nearest(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
  left = event.offsetX - grabbed[0]; top_ = event.offsetY - grabbed[1];
  point(-1);
});
canvas.addEventListener("pointerleave", () => point(-1));
function zoom(by, x, y) {
  const least = 0.3 * Math.min(width, height) / 65535;
  by = Math.max(least / scale, Math.min(by, 3 / scale));
  left = x - (x - left) * by; top_ = y - (y - top_) * by; scale *= by;
  point(-1);
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
}, { passive: false });
canvas.addEventListener("dblclick", seeAll);
canvas.addEventListener("keydown", event => {
  const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
  if (step) { left += step[0]; top_ += step[1]; paint(); }
  if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.3 : 1 / 1.3, width / 2, height / 2);
});
document.getElementById("search").addEventListener("input", look);
addEventListener("resize", () => { fit(); paint(); });
fit(); seeAll(); look();
"""
