// The tree of a text: drawing, merges in order, and the phrases of the collection that are near to one of it.

// An element of a drawing.
function shape(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

const drawing = (() => {
  const SIZE = 15, ROW = 34, NARROWEST = 30, MARGIN = 18, PILL = [34, 18];
  const ruler = document.createElement("canvas").getContext("2d");

  const width = text => { ruler.font = `${SIZE}px system-ui, "Noto Sans", sans-serif`; return ruler.measureText(text).width; };
  const leafCount = tree => (tree.nodes.length + 1) >> 1;

  // Labels of the leaves, and which of them continue a word.
  function leaves(tree) {
    const letters = characters(tree.text), n = leafCount(tree);
    let covered = 0;
    return tree.nodes.slice(0, n).map(node => {
      const [start, end] = [Math.max(node.span[0], covered), Math.max(node.span[1], covered)];
      const own = part(letters, [start, end]);
      const joined = start > 0 && start < end && /[\p{L}\p{M}\p{N}]/u.test(letters[start]) && /[\p{L}\p{M}\p{N}]/u.test(letters[start - 1]);
      covered = end;
      return { label: visible(own || node.piece.trim() || "▁"), joined, start, end };
    });
  }

  // Invisible joiners keep the shape that Arabic letters have inside a word.
  function shaped(all, i) {
    const arabic = text => /^[\u0620-\u06ff\u0750-\u077f]$/u.test(text);
    const before = all[i].joined && arabic(all[i].label[0]) && i && arabic(all[i - 1].label.at(-1));
    const after = all[i + 1]?.joined && arabic(all[i].label.at(-1)) && arabic(all[i + 1].label[0]);
    return (before ? "\u200d" : "") + all[i].label + (after ? "\u200d" : "");
  }

  function places(tree, words) {
    const n = words.length, mirrored = rightToLeft(tree.text), boxes = [];
    let x = MARGIN;
    for (const word of words) {
      if (boxes.length) x += word.joined ? 7 : 16;
      const wide = Math.max(width(word.label), NARROWEST);
      boxes.push([x, x + wide]);
      x += wide;
    }
    const total = x + MARGIN, middle = boxes.map(([a, b]) => mirrored ? total - (a + b) / 2 : (a + b) / 2);
    for (const node of tree.nodes.slice(n)) middle.push((middle[node.children[0]] + middle[node.children[1]]) / 2);
    const highest = Math.max(...tree.nodes.map(node => node.height), 0);
    const bottom = MARGIN + ROW * highest + PILL[1] / 2;
    return { x: middle, y: node => bottom - ROW * tree.nodes[node].height, total, bottom, boxes, mirrored };
  }

  // Draw a tree. point(node, chosen) is called for the node under the pointer or with the focus (-1: none); chosen: it
  // was clicked. Returns the element, and functions that light nodes and show the first merges only.
  function draw(tree, point = () => {}) {
    const words = leaves(tree), n = words.length, at = places(tree, words), edges = [], nodes = [];
    const svg = shape("svg", { width: at.total, height: at.bottom + 44, role: "group", "aria-label": `Tree of ${short(visible(tree.text), 200)}` });
    const parents = [];
    tree.nodes.forEach((node, i) => (node.children || []).forEach(child => { parents[child] = i; }));
    for (let i = n; i < tree.nodes.length; i++) edges.push(...tree.nodes[i].children.map(child => edge(at, i, child)));
    tree.nodes.forEach((node, i) => nodes.push(i < n ? leaf(i) : merge(i)));
    svg.append(...edges, ...nodes);

    function edge(at, parent, child) {
      const [x, y, top] = [at.x[child], at.y(child), at.y(parent)], to = at.x[parent], r = Math.min(7, Math.abs(to - x) / 2);
      const turn = Math.sign(to - x) || 1;
      const path = `M${x} ${y}V${top + r}q0 ${-r} ${turn * r} ${-r}H${to}`;
      return Object.assign(shape("path", { class: "edge", d: path }), { child, parent });
    }
    function events(i) {
      return { tabindex: 0, role: "button", onmouseenter: () => point(i, false), onmouseleave: () => point(-1, false),
        onfocus: () => point(i, false), onblur: () => point(-1, false), onclick: () => point(i, true),
        onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); point(i, true); } } };
    }
    function leaf(i) {
      const wide = at.boxes[i][1] - at.boxes[i][0], y = at.bottom + SIZE * 1.35;
      return shape("g", { class: "node leaf", "aria-label": words[i].label, ...events(i) },
        words[i].joined && shape("text", { class: "dot", x: at.x[i] + (at.mirrored ? 1 : -1) * (wide / 2 + 4), y, "text-anchor": "middle" }, "·"),
        shape("rect", { class: "pill", x: at.x[i] - wide / 2 - 2, y: at.bottom + 1, width: wide + 4, height: SIZE * 1.75, rx: 6 }),
        shape("text", { x: at.x[i], y, "text-anchor": "middle", direction: at.mirrored ? "rtl" : "ltr" }, shaped(words, i)));
    }
    function merge(i) {
      const { similarity, text } = tree.nodes[i], strength = Math.max(0, Math.min(1, similarity));
      const pill = shape("rect", { class: "pill", x: at.x[i] - PILL[0] / 2, y: at.y(i) - PILL[1] / 2, width: PILL[0], height: PILL[1], rx: 9 });
      const number = shape("text", { x: at.x[i], y: at.y(i) + 3.8, "text-anchor": "middle" }, decimals(similarity, 2));
      pill.style.fill = `color-mix(in srgb, var(--accent) ${Math.round(15 + 85 * strength)}%, var(--card))`;
      number.style.fill = strength > 0.4 ? "var(--on-accent)" : "var(--ink)";
      const label = `merge ${i - n + 1}: ${short(visible(text), 120)}, cosine ${decimals(similarity, 2)}`;
      return shape("g", { class: "node", "aria-label": label, ...events(i) }, shape("title", {}, label), pill, number);
    }
    const under = node => node < n ? [node] : [node, ...tree.nodes[node].children.flatMap(under)];
    function light(chosenNodes) {
      const inside = new Set(chosenNodes.flatMap(under));
      nodes.forEach((element, i) => {
        element.classList.toggle("lit", chosenNodes.includes(i));
        element.classList.toggle("under", inside.has(i));
      });
      for (const element of edges) element.classList.toggle("under", inside.has(element.parent));
    }
    function upTo(merges) {
      nodes.forEach((element, i) => { element.classList.toggle("later", i >= n + merges); element.setAttribute("tabindex", i >= n + merges ? -1 : 0); });
      for (const element of edges) element.classList.toggle("later", element.parent >= n + merges);
    }
    return { svg, light, upTo, words, under, n };
  }
  // Words and parts of words that no leaf covers, and a line that names them.
  function leftOut(tree) {
    const letters = characters(tree.text);
    for (const { start, end } of leaves(tree)) letters.fill(" ", start, end);
    return [...new Set(letters.join("").match(/[\p{L}\p{M}\p{N}]+/gu) || [])];
  }
  function repeats(tree) {
    const missing = leftOut(tree);
    return missing.length ? `Left out, because it is repeated: ${short(missing.join(", "), 200)}` : "";
  }
  return { draw, leaves, leftOut, repeats, width };
})();

// Scroll a box to where the text of its drawing begins.
const toStart = (box, text) => { if (rightToLeft(text)) box.scrollLeft = box.scrollWidth; };

{
  const EXAMPLE = "The old railway bridge over the river was rebuilt in stone.";

  function nearest(place, text, node, asking) {
    return asking("explore/nearest", { inputs: text, node }).then(({ phrase, phrases, rows }) => {
      const phraseItem = found => make("li", {}, make("span", { class: "number faint" }, `${decimals(found.cosine, 2)} `),
        said(found.phrase), " ", make("a", { class: "faint", href: link("tree", { text: found.text }), title: found.text }, "in its text"));
      const rowItem = hit => make("li", {}, make("span", { class: "number faint" }, `${decimals(hit.cosine, 2)} `), said(short(hit.text, 200)));
      place.replaceChildren(make("h2", {}, "Nearest to ", said(`“${short(phrase, 80)}”`)),
        make("div", { class: "two" },
          make("div", {}, make("h3", { class: "faint" }, "Phrases of the collection"), make("ul", { class: "plain" }, ...phrases.map(phraseItem))),
          make("div", {}, make("h3", { class: "faint" }, "Rows of the collection"), make("ul", { class: "plain" }, ...rows.map(rowItem)))));
    }).catch(complain);
  }

  function showTree(place, state) {
    state = { text: state.text ?? examples(1)?.[0] ?? EXAMPLE };
    beginWith("tree", state);
    const asking = asker(), near = asker();
    const text = make("textarea", { id: "text", rows: 2, dir: "auto", oninput: () => { state.text = text.value; keep("tree", state); soon(); } });
    text.value = state.text;
    const picture = make("div", { class: "scroll card" }), steps = make("div", { class: "row" });
    const merges = make("ol", { class: "merges" }), phrase = make("p", { class: "text", dir: "auto" }), found = make("div", { "aria-live": "polite" });
    place.append(make("label", { for: "text" }, "Text"), text, steps, picture, make("div", { class: "two" },
      make("div", {}, make("h2", {}, "Merges in order"), merges),
      make("div", {}, make("h2", {}, "Phrase"), phrase, found)));
    let explored = null;
    const soon = later(200, load), look = later(250, (tree, node) => tree === explored && nearest(found, tree.text, node, near));

    function nothing() {
      explored = null;
      for (const asked of [asking, near]) asked.stop();
      for (const one of [picture, steps, merges, phrase, found]) one.replaceChildren();
    }

    async function load() {
      if (!state.text.trim()) { nothing(); return say("Type a text."); }
      try {
        const [tree] = await asking("parse", { inputs: state.text });
        const leaves = amount(tree.nodes.length ? (tree.nodes.length + 1) / 2 : 0, "leaf", "leaves");
        say([leaves, drawing.repeats(tree)].filter(Boolean).join(". "));
        nothing();
        if (tree.nodes.length) explore(tree); else picture.append("No tokens.");
      } catch (error) { complain(error); }
    }

    function explore(tree) {
      let pinned = -1;
      explored = tree;
      const drawn = drawing.draw(tree, (node, clicked) => {
        if (clicked) pinned = pinned === node ? -1 : node;
        const shown = node < 0 ? pinned : node;
        drawn.light(shown < 0 ? [] : [shown]);
        if (shown < 0) return;
        phrase.textContent = tree.nodes[shown].text;
        if (about.index && (clicked || pinned < 0)) look(tree, shown);
      });
      picture.append(drawn.svg);
      toStart(picture, tree.text);
      const { n } = drawn, all = tree.nodes.length - n, letters = tree.nodes.map(node => node.text);
      const items = tree.nodes.slice(n).map((node, i) => make("li", {}, make("button", { type: "button", onclick: () => step(i + 1) },
        said(short(letters[node.children[0]], 40)), " + ", said(short(letters[node.children[1]], 40)),
        make("span", { class: "number faint" }, `  ${decimals(node.similarity, 2)}`))));
      merges.append(...items);
      const slider = make("input", { type: "range", min: 0, max: all, value: all, "aria-label": "Number of merges", oninput: () => step(+slider.value) });
      const count = make("span", { class: "number" });
      const button = (told, move) => make("button", { type: "button", onclick: () => step(Math.max(0, Math.min(all, +slider.value + move))) }, told);
      steps.append(...(all ? [button("Step back", -1), button("Step", 1), slider, count] : []), views.search.copyLink());
      function step(to) {
        slider.value = to;
        drawn.upTo(to);
        drawn.light(to ? [n + to - 1] : []);
        items.forEach((item, i) => item.classList.toggle("now", i === to - 1));
        const list = items[to - 1];
        if (list) merges.scrollTop = list.offsetTop - merges.offsetTop - merges.clientHeight / 2;
        count.textContent = `merge ${to} of ${all}`;
        phrase.textContent = to || !all ? tree.nodes[n + to - 1].text : "";
      }
      step(all);
      drawn.light([]);
    }
    return load();
  }
  views.tree = { title: "Tree", show: showTree };
}
