// Two texts: what each pair of pieces contributes to their cosine, and both trees.
{
  const EXAMPLES = ["The old railway bridge was rebuilt in stone.", "They built the bridge of the railway again."];
  const MOST_CELLS = 3600, SPACE = "▁";

  const paint = (element, value, most) => {
    const strength = most > 0 ? Math.min(1, Math.abs(value) / most) : 0;
    element.style.backgroundColor = `rgba(var(--${value < 0 ? "takes" : "adds"}), calc(var(--strongest) * ${strength.toFixed(3)}))`;
  };
  const sum = numbers => numbers.reduce((a, b) => a + b, 0);
  const largest = numbers => Math.max(...numbers.map(Math.abs), 1e-9);

  // A sentence as pieces, each over its characters.
  function sentence(tree, name, point) {
    const letters = characters(tree.text), words = drawing.leaves(tree);
    const line = make("p", { class: "text pieces", dir: "auto", role: "group", "aria-label": name });
    let done = 0;
    const pieces = words.map(({ start, end, label }, i) => {
      if (start > done) line.append(letters.slice(done, start).join(""));
      const own = letters.slice(start, end).join(""), lead = own.length - own.trimStart().length;
      if (lead) line.append(own.slice(0, lead));
      const piece = make("span", { class: "piece", tabindex: 0, onmouseenter: () => point(i, false), onmouseleave: () => point(-1, false),
        onfocus: () => point(i, false), onblur: () => point(-1, false), onclick: () => point(i, true) }, own.slice(lead));
      line.append(piece);
      done = Math.max(done, end);
      return piece;
    });
    line.append(letters.slice(done).join(""));
    return { line, pieces };
  }

  function table({ rows, columns, matrix }) {
    const most = largest(matrix.flat());
    const cell = (value, i, j) => {
      const made = make("td", { class: "number", title: `${rows[i]} × ${columns[j]}` }, decimals(100 * value, 1));
      paint(made, value, most);
      return made;
    };
    return make("table", { class: "heat" }, make("caption", { class: "faint" }, "Contribution of each pair of pieces to the cosine, × 100"),
      make("thead", {}, make("tr", {}, make("td"), ...columns.map(name => make("th", { scope: "col", dir: "auto", title: name }, short(name, 12))))),
      make("tbody", {}, ...matrix.map((row, i) => make("tr", {}, make("th", { scope: "row", dir: "auto", title: rows[i] }, short(rows[i], 20)), ...row.map((value, j) => cell(value, i, j))))));
  }

  function strongest({ rows, columns, matrix }) {
    const cells = matrix.flatMap((row, i) => row.map((value, j) => [value, i, j])).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 10);
    return make("ol", { class: "plain" }, ...cells.map(([value, i, j]) => make("li", {}, make("span", { class: "number faint" }, `${decimals(100 * value, 1)}  `), said(rows[i]), " × ", said(columns[j]))));
  }

  // What no character shows of the value: the mark of a space may have most of it.
  function ofSpaces({ rows, columns, matrix }) {
    const value = sum(matrix.map((row, i) => sum(row.filter((_, j) => [rows[i], columns[j]].includes(SPACE)))));
    return Math.abs(value) >= 0.005 && make("p", { class: "faint" }, `Pairs with ${SPACE}, the mark of a space, add `,
      make("span", { class: "number" }, decimals(value)), " to the cosine. No character shows it.");
  }

  function present(place, found) {
    const { matrix } = found, sides = ["a", "b"], trees = [found.a, found.b];
    const cells = [matrix, matrix[0].map((_, j) => matrix.map(row => row[j]))];  // rows: pieces of that side
    const whole = cells.map(side => side.slice(0, -1).map(sum));
    const lines = [], drawn = [];
    let pinned = null;

    function colour(side, values) {
      const most = largest(values);
      lines[side].pieces.forEach((piece, i) => paint(piece, values[i], most));
    }
    function point(side, node, clicked) {
      if (clicked) pinned = pinned && pinned[1] === node && pinned[0] === side ? null : [side, node];
      const [s, shown] = node < 0 ? pinned || [side, -1] : [side, node], other = 1 - s;
      if (shown < 0) {
        colour(0, whole[0]); colour(1, whole[1]);
        drawn.forEach(each => each.light([]));
        note.textContent = "Point at a piece or at a phrase: the other sentence then shows what goes with it.";
        return;
      }
      const under = drawn[s].under(shown).filter(i => i < drawn[s].n);
      const [match, cosine] = trees[s].matches[shown];
      const onto = whole[other].map((_, j) => sum(under.map(i => cells[s][i][j])));
      colour(other, onto);
      lines[s].pieces.forEach((piece, i) => { paint(piece, under.includes(i) ? 1 : 0, 1); });
      drawn[s].light([shown]); drawn[other].light([match]);
      const adds = sum(under.map(i => sum(cells[s][i])));
      note.replaceChildren(said(`“${short(trees[s].nodes[shown].text, 60)}”`), ` adds ${decimals(adds)} to the cosine; nearest phrase `,
        said(`“${short(trees[other].nodes[match].text, 60)}”`), `, cosine ${decimals(cosine, 2)}`);
    }
    sides.forEach((name, side) => {
      lines.push(sentence(trees[side], `Text ${name}`, (node, clicked) => point(side, node, clicked)));
      drawn.push(drawing.draw(trees[side], (node, clicked) => point(side, node, clicked)));
    });
    const repeated = tree => drawing.repeats(tree) && make("p", { class: "faint" }, drawing.repeats(tree));
    const note = make("p", { class: "faint", "aria-live": "polite" });
    const full = matrix.length * matrix[0].length <= MOST_CELLS && make("details", {}, make("summary", {}, "All numbers"), make("div", { class: "scroll" }, table(found)));
    place.replaceChildren();
    fill(place, {}, [
      make("p", {}, "Cosine ", make("span", { class: "big number" }, decimals(found.similarity)), make("span", { class: "faint" },
        "  Blue adds to it, orange takes from it. The numbers of all pairs of pieces sum to it exactly.")),
      make("div", { class: "two" }, ...lines.map(({ line }, side) => make("div", { class: "card" }, line, repeated(trees[side])))), ofSpaces(found), note,
      make("div", { class: "two" }, ...drawn.map(each => make("div", { class: "card scroll" }, each.svg))),
      make("h2", {}, "Strongest pairs (× 100)"), strongest(found), full]);
    drawn.forEach(({ svg }, side) => toStart(svg.parentElement, trees[side].text));
    point(0, -1, false);
  }

  function showCompare(place, state) {
    const [a, b] = examples(2) || EXAMPLES;
    state = { a: state.a ?? a, b: state.b ?? b };
    beginWith("compare", state);
    const asking = asker(), result = make("div"), soon = later(200, load);
    const field = name => {
      const text = make("textarea", { id: name, rows: 2, dir: "auto", oninput: () => { state[name] = text.value; keep("compare", state); soon(); } });
      text.value = state[name];
      return make("div", {}, make("label", { for: name }, name === "a" ? "First text" : "Second text"), text);
    };
    place.append(make("div", { class: "two" }, field("a"), field("b")), make("div", { class: "row" }, views.search.copyLink()), result);
    async function load() {
      if (!state.a.trim() || !state.b.trim()) { asking.stop(); result.replaceChildren(); return say("Type two texts."); }
      try {
        const found = await asking("explain", { ...state, trees: true });
        say("");
        if (found.a.nodes.length && found.b.nodes.length) present(result, found); else result.replaceChildren("A text has no tokens.");
      } catch (error) { complain(error); }
    }
    return load();
  }
  views.compare = { title: "Compare", show: showCompare };
}
