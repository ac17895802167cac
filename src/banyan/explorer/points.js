// A map of many points on a canvas, with its panel: search, clusters, colours, a lasso, a list. The points are painted
// pixel by pixel, which takes a few milliseconds for 100,000 of them, with or without a graphics card. What follows the
// pointer is not on the canvas, so that they are painted only when they move; while they do, in fewer pixels if they are many.

const EDGE = 65536, LISTED = 200, MANY = 20000, TOOLS = 44;

function plot(stage, { x, y }, told) {
  const n = x.length, canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": "Map of texts; similar texts are close together. Arrows move, + and − zoom, 0 shows all." });
  const tip = make("div", { class: "tip", hidden: true }), ring = make("div", { class: "ring", hidden: true }), lassoed = make("div", { class: "lassoed", hidden: true }), draw = canvas.getContext("2d");
  let width = 1, height = 1, ratio = 1, scale = 1, left = 0, top = 0, waiting = false, image = null, pixels = null, moved = 0;
  let groups = new Int32Array(n), palette = [[120, 120, 120]], bright = null, labels = [], pointed = -1, lasso = null, drawing = false;
  stage.append(canvas, lassoed, ring, tip);

  const CELLS = 128, cell = value => Math.max(0, Math.min(CELLS - 1, value >> 9));
  const begins = new Int32Array(CELLS * CELLS + 1), order = new Int32Array(n);  // a grid finds the points near the pointer
  for (let i = 0; i < n; i++) begins[cell(x[i]) * CELLS + cell(y[i]) + 1]++;
  for (let i = 0; i < CELLS * CELLS; i++) begins[i + 1] += begins[i];
  const next = begins.slice();
  for (let i = 0; i < n; i++) order[next[cell(x[i]) * CELLS + cell(y[i])]++] = i;

  const edges = values => {  // without the few points that lie far from all others
    const sorted = Int32Array.from(values).sort(), few = Math.floor(n / 200), from = sorted[few], to = sorted[n - 1 - few];
    return to - from > EDGE / 100 ? [from, to] : [from - EDGE / 200, from + EDGE / 200];
  };
  const ends = [...edges(x), ...edges(y)];

  const sharp = () => moved && n > MANY ? 1 : Math.min(window.devicePixelRatio || 1, 2);
  function fit() {
    ratio = sharp();
    width = Math.max(1, canvas.clientWidth); height = Math.max(1, canvas.clientHeight);
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    image = draw.createImageData(canvas.width, canvas.height);
    pixels = new Uint32Array(image.data.buffer);
  }
  function seeAll() {
    scale = 0.88 * Math.min(width / (ends[1] - ends[0]), Math.max(height - TOOLS, 1) / (ends[3] - ends[2]));
    left = (width - (ends[0] + ends[1]) * scale) / 2; top = (height + TOOLS - (ends[2] + ends[3]) * scale) / 2;  // below the buttons
    paint();
  }
  function paint() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paintNow(); });
  }
  function move() {
    clearTimeout(moved);
    moved = setTimeout(() => { moved = 0; paint(); }, 200);
    paint();
  }

  const colour = name => getComputedStyle(stage).getPropertyValue(name).trim();
  const rgb = text => text.match(/[0-9a-f]{2}/gi).map(part => parseInt(part, 16));
  const hex = text => rgb(text.length === 4 ? text.replace(/[0-9a-f]/gi, "$&$&") : text);

  function disc(radius) {  // offsets of the pixels of a point
    const found = [], r = Math.ceil(radius);
    for (let dy = -r; dy <= r; dy++) for (let dx = -r; dx <= r; dx++) if (dx * dx + dy * dy <= radius * radius + 0.3) found.push([dx, dy]);
    return { found, r };
  }

  // Colours are 0xaabbggrr: red and blue are mixed in one multiplication, green in another.
  const RED_BLUE = 0xff00ff, GREEN = 0xff00;
  const packed = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;

  function paintNow() {
    if (!canvas.isConnected) return;  // another view is shown
    if (ratio !== sharp()) fit();
    const wide = canvas.width, high = canvas.height;
    pixels.fill(packed(hex(colour("--card"))));
    const zoomed = Math.max(1, scale * EDGE / Math.min(width, height));
    const size = ratio * Math.max(1.1, Math.min(5, 150 / Math.sqrt(n) * Math.sqrt(zoomed)));
    const some = bright !== null, shapes = [disc(Math.max(0.8, size * (some ? 0.7 : 1))), disc(some ? Math.max(size, 2 * ratio) : size)];
    for (const lit of some ? [0, 1] : [1]) {
      const { found, r } = shapes[lit], alpha = lit ? 204 : 128, rest = 256 - alpha, offsets = Int32Array.from(found, ([dx, dy]) => dy * wide + dx);
      const colours = (lit ? palette : [hex(colour("--quiet"))]).map(packed);
      const redBlue = Int32Array.from(colours, one => Math.imul(one & RED_BLUE, alpha)), green = Int32Array.from(colours, one => (one & GREEN) * alpha);
      for (let i = 0; i < n; i++) {
        if (some && bright[i] !== lit) continue;
        const px = Math.round((x[i] * scale + left) * ratio), py = Math.round((y[i] * scale + top) * ratio);
        if (px < r || py < r || px >= wide - r || py >= high - r) continue;
        const of = lit ? groups[i] : 0, own = redBlue[of], ownGreen = green[of], middle = py * wide + px;
        for (let k = 0; k < offsets.length; k++) {
          const at = middle + offsets[k], there = pixels[at];
          pixels[at] = 0xff000000 | (Math.imul(there & RED_BLUE, rest) + own) >>> 8 & RED_BLUE | (there & GREEN) * rest + ownGreen >>> 8 & GREEN;
        }
      }
    }
    draw.putImageData(image, 0, 0);
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    paintLabels();
    draw.setTransform(1, 0, 0, 1, 0, 0);
    mark();
  }

  function paintLabels() {  // larger clusters first; one that would cover another is left out
    const taken = [], ink = colour("--ink"), back = colour("--card");
    draw.font = "600 13px system-ui, 'Noto Sans', sans-serif";
    draw.textAlign = "center"; draw.textBaseline = "middle"; draw.lineJoin = "round"; draw.lineWidth = 4;
    for (const label of labels) {
      const at = [label.x * scale + left, label.y * scale + top - 10], half = draw.measureText(label.text).width / 2 + 6;
      if (at[0] < half || at[1] < 12 || at[0] > width - half || at[1] > height - 12) continue;
      if (taken.some(([tx, ty, other]) => Math.abs(tx - at[0]) < half + other && Math.abs(ty - at[1]) < 20)) continue;
      taken.push([...at, half]);
      draw.strokeStyle = back; draw.strokeText(label.text, ...at);
      draw.fillStyle = ink; draw.fillText(label.text, ...at);
    }
    canvas.dataset.labels = taken.length;
  }
  function mark() {  // the point under the pointer, and the lasso
    ring.hidden = pointed < 0;
    if (pointed >= 0) ring.style.translate = `${x[pointed] * scale + left}px ${y[pointed] * scale + top}px`;
    lassoed.hidden = !lasso;
    if (lasso) lassoed.style.clipPath = `polygon(${lasso.map(([lx, ly]) => `${lx * scale + left}px ${ly * scale + top}px`)})`;
  }

  function nearest(px, py) {
    const reach = 12 / scale, atX = (px - left) / scale, atY = (py - top) / scale;
    let best = -1, distance = reach * reach;
    for (let a = cell(atX - reach); a <= cell(atX + reach); a++)
      for (let b = cell(atY - reach); b <= cell(atY + reach); b++)
        for (let place = begins[a * CELLS + b]; place < begins[a * CELLS + b + 1]; place++) {
          const i = order[place], far = (x[i] - atX) ** 2 + (y[i] - atY) ** 2;
          if (far < distance && (!bright || bright[i])) { best = i; distance = far; }
        }
    return best;
  }
  function inside(path) {  // the points within a path
    const found = [];
    for (let i = 0; i < n; i++) {
      if (bright && !bright[i]) continue;
      let odd = false;
      for (let a = 0, b = path.length - 1; a < path.length; b = a++) {
        const [ax, ay] = path[a], [bx, by] = path[b];
        if ((ay > y[i]) !== (by > y[i]) && x[i] < (bx - ax) * (y[i] - ay) / (by - ay) + ax) odd = !odd;
      }
      if (odd) found.push(i);
    }
    return found;
  }

  function show(i) {
    if (i === pointed) return;
    pointed = i;
    tip.hidden = true;
    mark();
    if (i >= 0) told.text(i).then(({ text, place }) => {
      if (pointed !== i) return;
      tip.replaceChildren(said(text), make("small", {}, said(place)));
      tip.hidden = false;
      const px = x[i] * scale + left, py = y[i] * scale + top;
      tip.style.left = `${Math.max(4, Math.min(px + 14, width - tip.offsetWidth - 6))}px`;
      tip.style.top = `${Math.max(4, Math.min(py + 14, height - tip.offsetHeight - 6))}px`;
    }).catch(complain);
  }
  function zoom(by, px = width / 2, py = height / 2) {
    by = Math.max(0.3 * Math.min(width, height) / EDGE / scale, Math.min(by, 3 / scale));
    left = px - (px - left) * by; top = py - (py - top) * by; scale *= by;
    show(-1); move();
  }
  function centre(i) {
    left = width / 2 - x[i] * scale; top = height / 2 - y[i] * scale;
    pointed = -1; show(i); paint();
  }

  const down = new Map(), at = event => [event.offsetX, event.offsetY], there = ([px, py]) => [(px - left) / scale, (py - top) / scale];
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    lasso = down.size === 1 && (drawing || event.shiftKey) ? [there(at(event))] : null;
    show(-1);
  });
  canvas.addEventListener("pointermove", event => {
    const from = down.get(event.pointerId), to = at(event);
    if (!from) return event.pointerType === "mouse" && show(nearest(...to));
    if (lasso) { lasso.push(there(to)); return mark(); }
    if (down.size === 1) { left += to[0] - from[0]; top += to[1] - from[1]; move(); }
    else {
      const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      zoom(Math.hypot(to[0] - other[0], to[1] - other[1]) / Math.max(1, Math.hypot(from[0] - other[0], from[1] - other[1])), ...other);
    }
    down.set(event.pointerId, to);
  });
  canvas.addEventListener("pointerup", event => {
    down.delete(event.pointerId);
    if (lasso?.length > 2) told.lassoed(inside(lasso));
    else if (event.pointerType !== "mouse") show(nearest(...at(event)));
    lasso = null;
    mark();
  });
  canvas.addEventListener("pointercancel", event => { down.delete(event.pointerId); lasso = null; mark(); });
  canvas.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") show(-1); });
  canvas.addEventListener("wheel", event => { event.preventDefault(); zoom(Math.exp(-event.deltaY * 0.0015), ...at(event)); }, { passive: false });
  canvas.addEventListener("dblclick", seeAll);
  canvas.addEventListener("keydown", event => {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (step) { event.preventDefault(); left += step[0]; top += step[1]; move(); }
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.3 : 1 / 1.3);
    if (event.key === "0") seeAll();
  });
  new ResizeObserver(() => { fit(); seeAll(); }).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  fit(); seeAll();
  return {
    zoom, seeAll, centre, show,
    colour(to, colours) { groups = to; palette = colours; paint(); },
    light(to) { bright = to; paint(); },
    label(to) { labels = to; paint(); },
    lasso(on) { drawing = on; canvas.classList.toggle("lasso", on); },
  };
}

// The golden angle separates the colours of neighbours in a list.
function wheel(i) {
  const hue = (i * 137.508) % 360, light = i % 2 ? 0.46 : 0.56, range = 0.62 * Math.min(light, 1 - light);
  const channel = shift => { const k = (shift + hue / 30) % 12; return Math.round(255 * (light - range * Math.max(-1, Math.min(k - 3, 9 - k, 1)))); };
  return [channel(0), channel(8), channel(4)];
}
const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

// Numbers with as few digits as tell them apart.
function rounded(numbers) {
  const digits = [6, 9, 12, 15].find(some => new Set(numbers.map(number => number.toPrecision(some))).size === numbers.length);
  return numbers.map(number => String(Number.isInteger(number) || !digits ? number : +number.toPrecision(digits)));
}

// The groups of a column: numbers in ten steps, or the most frequent values and the others.
function grouped(values) {
  const known = values.filter(value => value !== null), numbers = known.every(value => typeof value === "number");
  const distinct = new Map();
  for (const value of known) distinct.set(value, (distinct.get(value) || 0) + 1);
  if (numbers && distinct.size > 12) {
    const sorted = Float64Array.from(known).sort(), edges = [...new Set(Array.from({ length: 9 }, (_, i) => sorted[Math.floor((i + 1) * sorted.length / 10)]))];
    const group = value => value === null ? edges.length + 1 : edges.filter(edge => value >= edge).length;
    const told = rounded(edges), names = [...told.map((edge, i) => i ? `${told[i - 1]} to ${edge}` : `below ${edge}`), `${told.at(-1)} and above`, "no value"];
    const ramp = names.map((_, i) => { const t = i / edges.length; return [Math.round(40 + 200 * t), Math.round(80 + 60 * t), Math.round(190 - 150 * t)]; });
    ramp[ramp.length - 1] = [140, 140, 140];
    return counted(Int32Array.from(values, group), names, ramp);
  }
  const named = [...distinct].sort((a, b) => b[1] - a[1]).slice(0, 30).map(([value]) => value), places = new Map(named.map((value, i) => [value, i]));
  const colours = [...named.map((_, i) => wheel(i + 1)), [140, 140, 140]];
  return counted(Int32Array.from(values, value => places.get(value) ?? named.length), [...named.map(value => String(value).trim() || "empty"), "others, or no value"], colours);
}
function counted(groups, names, colours) {
  const sizes = names.map(() => 0);
  for (const group of groups) sizes[group]++;
  return { groups, names, colours, sizes };
}

// The map and its panel. share: a button that copies the address. source: the points, and promises of their texts, of the values of columns and of what a query finds.
function mapPanel(place, source, state, changed, share = null) {
  const n = source.x.length, stage = make("div", { class: "stage" }), list = make("ol", { class: "plain" });
  const count = make("p", { class: "faint", role: "status" }), legend = make("ul", { class: "legend" });
  const groups = make("details", { open: true }, make("summary", {}, "Groups"), legend);
  let kinds = null, only = null, hits = null, lassoed = null;  // only: a group; hits and lassoed: points
  const map = plot(stage, source, { text: i => source.texts([i]).then(([found]) => found), lassoed: found => { lassoed = found; shown(); } });
  const lasso = make("button", { type: "button", "aria-pressed": "false", title: "draw around points to list them (or hold Shift)", onclick: () => {
    const on = lasso.getAttribute("aria-pressed") === "false";
    lasso.setAttribute("aria-pressed", String(on));
    map.lasso(on);
  } }, "Lasso");
  stage.append(make("div", { class: "tools" }, lasso, make("button", { type: "button", "aria-label": "Zoom in", onclick: () => map.zoom(1.3) }, "+"),
    make("button", { type: "button", "aria-label": "Zoom out", onclick: () => map.zoom(1 / 1.3) }, "−"), make("button", { type: "button", onclick: map.seeAll }, "All")));
  const query = make("input", { type: "search", id: "find", dir: "auto", autocomplete: "off", value: state.q || "", placeholder: "Find on the map",
    oninput: () => { state.q = query.value; lassoed = null; changed(state); look(); } });
  const colours = make("select", { id: "colour", onchange: () => { state.colour = colours.value; only = null; changed(state, true); paint(); } },
    make("option", { value: "" }, "cluster"), ...source.columns.map(name => make("option", { value: name, selected: state.colour === name }, name)));
  const clear = make("button", { type: "button", hidden: true, onclick: () => { query.value = state.q = ""; lassoed = hits = only = null; changed(state, true); listLegend(); shown(); } }, "Show all");
  place.append(make("div", { class: "beside" }, stage, make("div", { class: "side" },
    make("label", { for: "find" }, "Find"), query, make("div", { class: "row" }, make("label", { for: "colour" }, "Colour by"), colours, clear, share), count, groups, list)));

  async function paint() {
    try {
      kinds = state.colour && source.columns.includes(state.colour) ? grouped(await source.values(state.colour)) : counted(Int32Array.from(source.cluster, number => number - 1),
        source.clusters.map(({ name }) => name), source.clusters.map(({ number }) => wheel(number)));
      map.colour(kinds.groups, kinds.colours);
      listLegend(); shown();
    } catch (error) { complain(error); }
  }
  function listLegend() {
    legend.replaceChildren(...kinds.names.flatMap((name, group) => {
      if (!kinds.sizes[group]) return [];
      const dot = make("i");
      dot.style.background = css(kinds.colours[group]);
      return [make("li", {}, make("button", { type: "button", "aria-pressed": String(only === group), onclick: () => { only = only === group ? null : group; listLegend(); shown(); } },
        dot, said(name), make("small", { class: "number" }, kinds.sizes[group].toLocaleString("en"))))];
    }));
  }
  const find = later(200, async () => {
    const asked = state.q;
    try {
      const found = asked.trim() ? await source.find(asked) : null;
      if (asked === state.q) { hits = found; shown(); }
    } catch (error) { complain(error); }
  });
  const look = () => find();
  async function shown() {
    const ranked = lassoed || hits, some = ranked !== null || only !== null, kept = i => only === null || kinds.groups[i] === only;
    const bright = some ? new Uint8Array(n) : null;
    const chosenPoints = ranked ? ranked.filter(kept) : some ? Array.from({ length: n }, (_, i) => i).filter(kept) : [];
    for (const i of chosenPoints) bright[i] = 1;
    map.light(bright);
    if (clear.hidden === some) groups.open = !some;  // the list is below
    clear.hidden = !some;
    const number = value => value.toLocaleString("en");
    const all = amount(n, "text"), nearest = source.nearest && ranked && ranked === hits;
    const which = nearest ? only === null ? `the ${number(hits.length)} nearest of ${all}` : `${number(chosenPoints.length)} of the ${amount(hits.length, "nearest text")}`
      : `${number(chosenPoints.length)} of ${all}`;
    count.textContent = some ? `${which}${chosenPoints.length > LISTED ? `; the first ${LISTED} are listed` : ""}`
      : `${all}${source.rows > n ? `, a sample of ${number(source.rows)}` : ""}, ${amount(source.clusters.length, "cluster")}`;
    const listed = chosenPoints.slice(0, LISTED), found = listed.length ? await source.texts(listed).catch(error => (complain(error), [])) : [];
    list.replaceChildren(...found.map(({ text, place: where }, i) => make("li", { onmouseenter: () => map.show(listed[i]), onmouseleave: () => map.show(-1) },
      make("button", { type: "button", class: "chip", onclick: () => map.centre(listed[i]) }, said(text)), make("div", { class: "faint" }, said(where)))));
  }
  map.label(source.clusters.map(({ name, x, y }) => ({ text: name.split(", ").slice(0, 2).join(", "), x, y })));
  paint();
  if (state.q) look();
}
