// The entangled graph of sentences: a phrase that several of them share is drawn once.
{
  const EXAMPLES = ["The old bridge over the river was rebuilt.", "They crossed the old bridge over the river.", "The old bridge was rebuilt in stone."];
  const ROW = 62, GAP = 16;

  // Places of the nodes: rows by height; within a row, near the mean of children and parents, without overlaps.
  function laidOut(nodes, widths) {
    const rows = [], parents = nodes.map(() => []);
    nodes.forEach((node, i) => { (rows[node.height] ||= []).push(i); node.children.forEach(child => parents[child].push(i)); });
    const x = nodes.map(() => 0), mean = places => places.reduce((sum, i) => sum + x[i], 0) / places.length;
    const apart = row => {
      row.sort((a, b) => x[a] - x[b] || a - b);
      const wanted = row.reduce((sum, i) => sum + x[i], 0);
      for (let i = 1; i < row.length; i++) {
        const least = x[row[i - 1]] + (widths[row[i - 1]] + widths[row[i]]) / 2 + GAP;
        if (x[row[i]] < least) x[row[i]] = least;
      }
      const shift = (wanted - row.reduce((sum, i) => sum + x[i], 0)) / row.length;  // the row stays where it was
      for (const i of row) x[i] += shift;
    };
    let end = 0;
    for (const i of rows[0]) { x[i] = end + widths[i] / 2; end += widths[i] + GAP; }
    for (let round = 0; round < 24; round++) {
      for (const row of rows.slice(1)) { for (const i of row) x[i] = mean(nodes[i].children); apart(row); }
      if (round === 23) break;
      for (const row of rows.slice(0, -1).reverse()) {
        for (const i of row) if (parents[i].length) x[i] = (x[i] + mean(parents[i])) / 2;
        apart(row);
      }
    }
    const left = Math.min(...x.map((each, i) => each - widths[i] / 2)), right = Math.max(...x.map((each, i) => each + widths[i] / 2));
    const mirrored = rightToLeft(nodes.map(node => node.height ? "" : node.text).join(" "));
    return { x: x.map(each => mirrored ? right - each + 30 : each - left + 30), width: right - left + 60, height: rows.length * ROW + 30, parents,
      y: i => (rows.length - nodes[i].height) * ROW - 12 };
  }

  // Moves and zooms a drawing with pointer, wheel and keys.
  function zoomable(svg, width, height) {
    let box = [0, 0, width, height];
    const put = () => svg.setAttribute("viewBox", box.join(" "));
    const fit = () => { box = [0, 0, width, height]; put(); };
    function zoom(by, px = 0.5, py = 0.5) {
      const wide = Math.max(120, Math.min(4 * width, box[2] / by)), scale = wide / box[2];
      box = [box[0] + box[2] * (1 - scale) * px, box[1] + box[3] * (1 - scale) * py, wide, box[3] * scale];
      put();
    }
    const move = (dx, dy) => { const scale = Math.max(box[2] / svg.clientWidth, box[3] / svg.clientHeight); box[0] -= dx * scale; box[1] -= dy * scale; put(); };
    const down = new Map();
    svg.addEventListener("pointerdown", event => down.set(event.pointerId, [event.clientX, event.clientY]));
    svg.addEventListener("pointermove", event => {
      const from = down.get(event.pointerId);
      if (!from) return;
      const to = [event.clientX, event.clientY];
      if (down.size === 1) move(to[0] - from[0], to[1] - from[1]);
      else if (down.size === 2) {
        const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
        zoom(Math.hypot(to[0] - other[0], to[1] - other[1]) / Math.max(1, Math.hypot(from[0] - other[0], from[1] - other[1])));
      }
      down.set(event.pointerId, to);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(end, event => down.delete(event.pointerId));
    svg.addEventListener("wheel", event => {
      event.preventDefault();
      const area = svg.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY * 0.0015), (event.clientX - area.left) / area.width, (event.clientY - area.top) / area.height);
    }, { passive: false });
    svg.addEventListener("keydown", event => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (step) { event.preventDefault(); move(...step); }
      if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.3 : 1 / 1.3);
      if (event.key === "0") fit();
    });
    fit();
    return make("div", { class: "tools" }, make("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(1.3) }, "+"),
      make("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 1.3) }, "−"), make("button", { type: "button", onclick: fit }, "Fit"));
  }

  function drawn({ nodes, roots }, point) {
    const label = node => node.height ? (node.of.length > 1 ? short(visible(node.text), 28) : "") : visible(node.text);
    const widths = nodes.map(node => Math.max(26, label(node).length * 7.6 + 18)), at = laidOut(nodes, widths);
    const edges = nodes.flatMap((node, i) => node.children.map(child => Object.assign(shape("path", { class: "edge",
      d: `M${at.x[i]} ${at.y(i)}C${at.x[i]} ${at.y(i) + ROW / 2} ${at.x[child]} ${at.y(child) - ROW / 2} ${at.x[child]} ${at.y(child)}` }), { parent: i })));
    const elements = nodes.map((node, i) => {
      const told = `${short(visible(node.text), 160)}: in ${node.of.length} of ${roots.length} sentences${node.height ? `, cosine ${decimals(node.similarity, 2)}` : ""}`;
      const shown = label(node), root = roots.indexOf(i);
      const pill = shape("rect", { class: "pill", x: at.x[i] - (widths[i] - 4) / 2, y: at.y(i) - 12, width: widths[i] - 4, height: 24, rx: 12 });
      pill.style.fill = node.of.length > 1 ? "color-mix(in srgb, var(--accent) 22%, var(--card))" : "var(--card)";
      return shape("g", { class: `node${node.of.length > 1 ? " shared" : ""}`, tabindex: 0, role: "img", "aria-label": told,
        onmouseenter: () => point(i), onmouseleave: () => point(-1), onfocus: () => point(i), onblur: () => point(-1) },
        shape("title", {}, told), pill, shape("text", { x: at.x[i], y: at.y(i) + 5, "text-anchor": "middle", direction: rightToLeft(node.text) ? "rtl" : "ltr" },
          shown || (root >= 0 ? String(root + 1) : "")));
    });
    const svg = shape("svg", { class: "graph", tabindex: 0, role: "group", "aria-label": "Entangled graph of the sentences" }, ...edges, ...elements);
    const under = i => [i, ...nodes[i].children.flatMap(under)];
    function light(i) {
      const inside = new Set(i < 0 ? [] : under(i));
      elements.forEach((element, j) => { element.classList.toggle("lit", j === i); element.classList.toggle("under", inside.has(j)); });
      for (const edge of edges) edge.classList.toggle("under", inside.has(edge.parent));
    }
    return { svg, light, tools: zoomable(svg, at.width, at.height), form: `${at.width} / ${at.height}` };
  }

  function showGraph(place, state) {
    const given = state.s ?? (chosen.size ? [...chosen] : examples(3) || EXAMPLES).join("\n");
    state = { s: given };
    const asking = asker(), soon = later(250, load);
    const text = make("textarea", { id: "sentences", rows: 4, dir: "auto", oninput: () => { state.s = text.value; keep("graph", state); soon(); } });
    text.value = state.s;
    const stage = make("div", { class: "stage fitted" }), list = make("ol", {}), told = make("p", { class: "faint", "aria-live": "polite" });
    const add = chosen.size > 0 && make("button", { type: "button", onclick: () => {
      text.value = [...new Set([...text.value.split("\n").filter(line => line.trim()), ...chosen])].join("\n");
      state.s = text.value; keep("graph", state, true); load();
    } }, `Add the ${chosen.size} chosen`);
    place.append(make("label", { for: "sentences" }, "Sentences, one per line"), text, make("div", { class: "row" }, add, views.search.copyLink()), stage, told, list);

    async function load() {
      const inputs = state.s.split("\n").map(line => line.trim()).filter(Boolean);
      if (!inputs.length) { stage.replaceChildren(); list.replaceChildren(); return say("Type some sentences."); }
      try {
        const found = await asking("explore/graph", { inputs });
        const { nodes } = found, shared = nodes.filter(node => node.of.length > 1).length;
        const all = nodes.reduce((sum, node) => sum + node.of.length, 0);
        say(`${nodes.length} nodes instead of ${all} in separate trees; ${shared} are shared`);
        if (!nodes.length) return stage.replaceChildren();
        const items = inputs.map((line, i) => make("li", { tabindex: 0, onmouseenter: () => point(found.roots[i] ?? -1), onmouseleave: () => point(-1),
          onfocus: () => point(found.roots[i] ?? -1), onblur: () => point(-1) }, said(line)));
        const graph = drawn(found, point);
        function point(i) {
          graph.light(i);
          items.forEach((item, number) => item.classList.toggle("lit", i >= 0 && nodes[i].of.includes(number)));
          told.replaceChildren(...(i < 0 ? ["Point at a node to read its phrase. A number is a sentence; a blue edge, a phrase that several share. Drag to move, scroll or + and − to zoom."]
            : [said(short(nodes[i].text, 200)), `, in ${nodes[i].of.length} of ${inputs.length} sentences`]));
        }
        stage.style.aspectRatio = graph.form;
        stage.replaceChildren(graph.svg, graph.tools);
        list.replaceChildren(...items);
        point(-1);
      } catch (error) { complain(error); }
    }
    return load();
  }
  views.graph = { title: "Graph", show: showGraph };
}
