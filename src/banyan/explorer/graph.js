// The entangled graph of sentences: a phrase that several of them share is drawn once.
{
  const EXAMPLES = ["The old bridge over the river was rebuilt.", "They crossed the old bridge over the river.", "The old bridge was rebuilt in stone."];
  const ROW = 62, GAP = 16, APART = 50, MARGIN = 30, TOOLS = 60;
  const LEGIBLE = 0.7;  // pixels per unit, of which letters have 14
  const STEP = 1.6;

  // A sentence is a block: the tree of the nodes that none before it has. Where it would repeat one stands a name, from which
  // an edge leads there. x of nodes and names is counted from the left of their block.
  function blocksOf(nodes, roots, widths, x) {
    const blocks = [];
    function spread(i, from, block) {  // returns the middle of a node, and where its subtree ends
      const { own, names, links } = block, middles = [], wide = widths[i] + GAP;
      let end = from;
      x[i] = 0;
      own.push(i);
      for (const child of nodes[i].children) {
        const to = end + widths[child] + GAP, name = child in x && { parent: i, child, x: (end + to) / 2 };
        if (name) names.push(name); else links.push([i, child]);
        const [middle, ends] = name ? [name.x, to] : spread(child, end, block);
        middles.push(middle); end = ends;
      }
      end = Math.max(end, from + wide);
      const mean = middles.length ? (middles[0] + middles.at(-1)) / 2 : 0;
      x[i] = Math.max(from + wide / 2, Math.min(mean, end - wide / 2));
      return [x[i], end];
    }
    for (const root of roots) {
      if (root === null || root in x) continue;
      const block = { own: [], names: [], links: [], mirrored: rightToLeft(nodes[root].text) };
      [, block.width] = spread(root, 0, block);
      const heights = [...block.own.map(i => nodes[i].height), ...block.names.map(({ parent }) => nodes[parent].height - 1)];
      block.lowest = Math.min(...heights);
      block.height = (Math.max(...heights) - block.lowest + 1) * ROW;
      blocks.push(block);
    }
    return blocks;
  }

  // Places of the nodes. The blocks fill lines, which together have the form of the stage, its width by its height.
  function laidOut(nodes, roots, widths, form) {
    const x = [], y = [], blocks = blocksOf(nodes, roots, widths, x);
    const area = blocks.reduce((sum, { width, height }) => sum + (width + APART) * (height + APART), 0);
    const most = Math.max(Math.sqrt(area * form), ...blocks.map(({ width }) => width));
    const lines = [];
    let left = Infinity, top = TOOLS, width = 0;
    for (const block of blocks) {
      if (left + block.width > most) { lines.push([]); left = 0; }
      lines.at(-1).push(block);
      block.left = left + MARGIN;
      width = Math.max(width, left + block.width);
      left += block.width + APART;
    }
    for (const line of lines) {
      const bottom = top + Math.max(...line.map(({ height }) => height));
      for (const block of line) {
        const across = at => block.left + (block.mirrored ? block.width - at : at);
        block.top = bottom - block.height;
        for (const i of block.own) { x[i] = across(x[i]); y[i] = bottom - (nodes[i].height - block.lowest + 0.5) * ROW; }
        for (const name of block.names) { name.x = across(name.x); name.y = y[name.parent] + ROW; }
      }
      top = bottom + APART;
    }
    return { x, y, blocks, width: width + 2 * MARGIN, height: top - APART + MARGIN };
  }

  // Moves and zooms a drawing with pointer, wheel and keys.
  function zoomable(stage, svg, width, height) {
    let scale = 1, left = 0, top = 0;  // pixels per unit; the corner
    const seen = () => [stage.clientWidth / scale, stage.clientHeight / scale];
    const fitting = (wide, high) => Math.min(1, stage.clientWidth / wide, stage.clientHeight / high);
    const put = () => svg.setAttribute("viewBox", [left, top, ...seen()].join(" "));
    const centred = (at, long, view) => at + (long - view) / 2;
    function fit() {
      scale = fitting(width, height);
      const [wide, high] = seen();
      left = centred(0, width, wide); top = centred(0, height, high);
      put();
    }
    // Show a part as large as it fits but legible, from where its text begins.
    function see(part) {
      scale = Math.max(LEGIBLE, fitting(part.width, part.height));
      const [wide, high] = seen(), begin = part.mirrored ? part.left + part.width + MARGIN - wide : part.left - MARGIN;
      const within = (at, long, view) => view > long ? centred(0, long, view) : Math.max(0, Math.min(at, long - view));
      left = within(part.width > wide ? begin : centred(part.left, part.width, wide), width, wide);
      top = within(centred(part.top, part.height, high), height, high);
      put();
    }
    function reveal(x, y, halfWidth) {
      const [wide, high] = seen();
      if (x - halfWidth >= left && x + halfWidth <= left + wide && y - 12 >= top && y + 12 <= top + high) return;
      left = x - wide / 2; top = y - high / 2;
      put();
      stage.scrollIntoView({ block: "nearest" });  // the browser may have looked for the node where it was
    }
    function zoom(by, px = stage.clientWidth / 2, py = stage.clientHeight / 2) {
      const to = Math.max(fitting(width, height) / 4, Math.min(scale * by, 6)), grown = 1 / scale - 1 / to;
      left += px * grown; top += py * grown; scale = to;
      put();
    }
    const move = (dx, dy) => { left -= dx / scale; top -= dy / scale; put(); };
    const down = new Map(), at = event => { const area = stage.getBoundingClientRect(); return [event.clientX - area.left, event.clientY - area.top]; };
    svg.addEventListener("pointerdown", event => down.set(event.pointerId, at(event)));
    svg.addEventListener("pointermove", event => {
      const from = down.get(event.pointerId), to = at(event);
      if (!from) return;
      if (down.size === 1) move(to[0] - from[0], to[1] - from[1]);
      else {
        const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
        zoom(Math.hypot(to[0] - other[0], to[1] - other[1]) / Math.max(1, Math.hypot(from[0] - other[0], from[1] - other[1])), ...other);
      }
      down.set(event.pointerId, to);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(end, event => down.delete(event.pointerId));
    svg.addEventListener("wheel", event => { event.preventDefault(); zoom(Math.exp(-event.deltaY * 0.0015), ...at(event)); }, { passive: false });
    svg.addEventListener("keydown", event => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (step) { event.preventDefault(); move(...step); }
      if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? STEP : 1 / STEP);
      if (event.key === "0") fit();
    });
    new ResizeObserver(put).observe(svg);
    const tools = make("div", { class: "tools" }, make("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(STEP) }, "+"),
      make("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / STEP) }, "−"), make("button", { type: "button", onclick: fit }, "Fit"));
    return { tools, see, reveal, begin: part => fitting(width, height) < LEGIBLE ? see(part) : fit() };
  }

  function drawn({ nodes, roots }, stage, point) {
    const label = node => node.height ? (node.of.length > 1 ? short(visible(node.text), 28) : "") : visible(node.text);
    const widths = nodes.map(node => Math.max(26, drawing.width(label(node)) + 18));
    const most = parseFloat(getComputedStyle(stage).maxHeight);
    const { x, y, blocks, width, height } = laidOut(nodes, roots, widths, stage.clientWidth / most);
    const names = blocks.flatMap(block => block.names), links = blocks.flatMap(block => block.links);
    const edge = (parent, [fromX, fromY], [toX, toY], kind = "edge") => {
      const bend = (toY < fromY ? -1 : 1) * ROW / 2, d = `M${fromX} ${fromY}C${fromX} ${fromY + bend} ${toX} ${toY - bend} ${toX} ${toY}`;
      return Object.assign(shape("path", { class: kind, d }), { parent });
    };
    const written = (i, atX, atY, shown, kind = null) =>
      shape("text", { class: kind, x: atX, y: atY + 5, "text-anchor": "middle", direction: rightToLeft(nodes[i].text) ? "rtl" : "ltr" }, shown);
    const edges = [
      ...names.map(name => edge(name.parent, [name.x, name.y], [x[name.child], y[name.child]], "edge far")),
      ...names.map(name => edge(name.parent, [x[name.parent], y[name.parent]], [name.x, name.y])),
      ...links.map(([i, child]) => edge(i, [x[i], y[i]], [x[child], y[child]])),
      ...names.map(name => Object.assign(written(name.child, name.x, name.y, label(nodes[name.child]), "name"), { parent: name.parent })),
    ];
    const elements = nodes.map((node, i) => {
      const told = `${short(visible(node.text), 160)}: in ${node.of.length} of ${amount(roots.length, "sentence")}${node.height ? `, cosine ${decimals(node.similarity, 2)}` : ""}`;
      const root = roots.indexOf(i);
      const pill = shape("rect", { class: "pill", x: x[i] - (widths[i] - 4) / 2, y: y[i] - 12, width: widths[i] - 4, height: 24, rx: 12 });
      pill.style.fill = node.of.length > 1 ? "color-mix(in srgb, var(--accent) 22%, var(--card))" : "var(--card)";
      return shape("g", { class: `node${node.of.length > 1 ? " shared" : ""}`, role: "img", "aria-label": told,
        onmouseenter: () => point(i), onmouseleave: () => point(-1), onfocus: () => { point(i); view.reveal(x[i], y[i], widths[i] / 2); }, onblur: () => point(-1) },
        shape("title", {}, told), pill, written(i, x[i], y[i], label(node) || (root >= 0 ? String(root + 1) : "")));
    });
    const svg = shape("svg", { class: "graph", tabindex: 0, role: "group", "aria-label": "Entangled graph of the sentences" }, ...edges, ...elements);
    const under = i => i < 0 ? [] : [i, ...nodes[i].children.flatMap(under)];
    function light(i) {
      const inside = new Set(under(i));
      svg.classList.toggle("some", i >= 0);
      elements.forEach((element, j) => { element.classList.toggle("lit", j === i); element.classList.toggle("under", inside.has(j)); });
      for (const edge of edges) edge.classList.toggle("under", inside.has(edge.parent));
    }
    function reach(i) {  // with the Tab key: the nodes of one sentence, of hundreds
      const inside = new Set(under(i));
      elements.forEach((element, j) => element.setAttribute("tabindex", inside.has(j) ? 0 : -1));
    }
    stage.style.height = `${height * Math.max(LEGIBLE, Math.min(1, stage.clientWidth / width))}px`;
    const view = zoomable(stage, svg, width, height), see = root => view.see(blocks.find(({ own }) => own.includes(root)));
    stage.replaceChildren(svg, view.tools);
    view.begin(blocks[0]);
    return { light, reach, see };
  }

  function showGraph(place, state) {
    const given = state.s ?? (chosen.size ? [...chosen] : examples(3) || EXAMPLES).join("\n");
    state = { s: given };
    beginWith("graph", state);
    const asking = asker(), soon = later(250, load);
    const text = make("textarea", { id: "sentences", rows: 4, dir: "auto", oninput: () => { state.s = text.value; keep("graph", state); soon(); } });
    text.value = state.s;
    const stage = make("div", { class: "stage fitted" }), list = make("ol", { class: "sentences" }), told = make("p", { class: "faint", "aria-live": "polite" });
    const add = chosen.size > 0 && make("button", { type: "button", onclick: () => {
      text.value = [...new Set([...text.value.split("\n").filter(line => line.trim()), ...chosen])].join("\n");
      state.s = text.value; keep("graph", state, true); load();
    } }, `Add the ${chosen.size} chosen`);
    place.append(make("label", { for: "sentences" }, "Sentences, one per line"), text, make("div", { class: "row" }, add, views.search.copyLink()),
      make("div", { class: "beside" }, stage, make("div", { class: "side" }, told, list)));
    const nothing = () => { for (const one of [stage, told, list]) one.replaceChildren(); };

    async function load() {
      const inputs = state.s.split("\n").map(line => line.trim()).filter(Boolean);
      if (!inputs.length) { asking.stop(); nothing(); return say("Type some sentences."); }
      try {
        const found = await asking("explore/graph", { inputs });
        const { nodes, roots } = found, shared = nodes.filter(node => node.of.length > 1).length;
        const all = nodes.reduce((sum, node) => sum + node.of.length, 0);
        say(`${amount(nodes.length, "node")} instead of ${all.toLocaleString("en")} in separate trees; ${shared} ${shared === 1 ? "is" : "are"} shared`);
        if (!nodes.length) return nothing();
        let pinned = -1;  // the sentence that was chosen
        const buttons = roots.map((root, i) => root === null ? make("span", {}, said(short(inputs[i], 200)))
          : make("button", { type: "button", "aria-pressed": "false", onmouseenter: () => point(root), onmouseleave: () => point(-1),
            onfocus: () => point(root), onblur: () => point(-1), onclick: () => choose(i) }, said(short(inputs[i], 200))));
        const items = buttons.map(button => make("li", {}, button));
        const graph = drawn(found, stage, point);
        function choose(number) {
          pinned = pinned === number ? -1 : number;
          buttons.forEach((button, i) => button.ariaPressed !== null && button.setAttribute("aria-pressed", String(i === pinned)));
          if (pinned < 0) return;
          graph.reach(roots[number]); graph.see(roots[number]); point(roots[number]);
          stage.scrollIntoView({ block: "nearest" });
        }
        function point(i) {
          const shown = i < 0 && pinned >= 0 ? roots[pinned] : i;
          graph.light(shown);
          items.forEach((item, number) => item.classList.toggle("lit", shown >= 0 && nodes[shown].of.includes(number)));
          told.replaceChildren(...(shown < 0 ? ["Point at a node to read its phrase. A number is a sentence; a blue edge, a phrase that several share. A phrase without ",
            "an edge is drawn where its line leads. Choose a sentence to see it. Drag to move, scroll or + and − to zoom."]
            : [said(short(nodes[shown].text, 200)), `, in ${nodes[shown].of.length} of ${amount(inputs.length, "sentence")}`]));
        }
        list.replaceChildren(...items);
        graph.reach(roots.find(root => root !== null));
        point(-1);
      } catch (error) { complain(error); }
    }
    return load();
  }
  views.graph = { title: "Graph", show: showGraph };
}
