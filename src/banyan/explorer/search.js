// Search as one types.
{
  const BY = { both: "words and meaning", vectors: "meaning", words: "words" };
  const PAGE = 10, CHIP = 60;
  const PAGES = 100;  // the server shows so many

  // A text cut at the edges of all spans: each piece knows which spans cover it.
  function segments(text, spans) {
    const letters = characters(text);
    const edges = [...new Set([0, letters.length, ...spans.flatMap(span => [span[0], span[1]])])].sort((a, b) => a - b);
    return edges.slice(1).map((end, i) => ({
      text: letters.slice(edges[i], end).join(""),
      of: spans.flatMap((span, number) => span[0] <= edges[i] && end <= span[1] ? [number] : []),
    }));
  }

  // The text of a hit: words that made it similar are marked, and phrases can be lit.
  function marked(hit) {
    const words = hit.highlights || [], phrases = (hit.phrases || []).map(phrase => trimmed(hit.text, phrase.text));
    const most = Math.max(...words.map(word => word[2]), 1e-9);
    const text = make("span", { class: "text", dir: "auto" });
    for (const { text: letters, of } of segments(hit.text, [...words, ...phrases])) {
      const word = words[of.find(number => number < words.length)];
      const piece = word ? make("mark", { title: `adds ${decimals(word[2])} to the cosine` }, letters) : make("span", {}, letters);
      if (word) piece.style.setProperty("--weight", Math.max(word[2], 0) / most);
      piece.phrases = of.filter(number => number >= words.length).map(number => number - words.length);
      text.append(piece);
    }
    return text;
  }

  function trimmed(text, [start, end]) {
    const letters = characters(text);
    while (start < end && /\s/.test(letters[start])) start++;
    while (end > start && /\s/.test(letters[end - 1])) end--;
    return [start, end];
  }

  function reasons(query, hit, text) {
    const list = make("ul", { class: "why", "aria-label": "Why it was found" });
    const letters = characters(hit.text), asked = characters(query);
    if (hit.bm25 != null) list.append(make("li", {}, `words, BM25 ${decimals(hit.bm25, 1)}`));
    (hit.phrases || []).forEach((phrase, number) => {
      const light = on => () => { for (const piece of text.children) piece.classList.toggle("lit", on && piece.phrases.includes(number)); };
      const chip = make("button", { type: "button", class: "chip", onmouseenter: light(true), onmouseleave: light(false),
        onfocus: light(true), onblur: light(false), title: "the phrase of the query, and the one of this text that is like it" },
        said(short(part(asked, phrase.query), CHIP)), " ~ ", said(short(part(letters, phrase.text), CHIP)), make("span", { class: "number" }, ` ${decimals(phrase.cosine, 2)}`));
      list.append(make("li", { class: "bare" }, chip));
    });
    return list.children.length ? list : null;
  }

  function choose(text) {
    const button = make("button", { type: "button", "aria-pressed": String(chosen.has(text)), onclick: () => {
      chosen.delete(text) || chosen.add(text);
      button.setAttribute("aria-pressed", String(chosen.has(text)));
      say(`${chosen.size} chosen for the graph`);
    } }, "Graph");
    return button;
  }

  // One hit, as an item of a list. It is also used by other views.
  function item(query, hit, note) {
    const text = marked(hit);
    const columns = Object.entries(hit.columns || {}).map(([name, value]) => said(`${name}: ${short(String(value), 60)}`));
    const meta = make("div", { class: "faint meta" }, said(`${hit.source.split("/").pop()}:${hit.row}`),
      make("span", { class: "number" }, `cosine ${decimals(hit.cosine)}`), ...columns, note);
    const actions = make("div", { class: "actions" },
      make("a", { class: "button", href: link("compare", { a: query, b: hit.text }) }, "Compare"),
      make("a", { class: "button", href: link("tree", { text: hit.text }) }, "Tree"), choose(hit.text));
    return make("li", {}, text, reasons(query, hit, text), meta, actions);
  }

  // The filter: an SQL condition, and a row of fields that adds to it.
  function filter(state, changed) {
    const where = make("input", { type: "text", id: "where", dir: "auto", maxlength: 1000, spellcheck: "false", autocomplete: "off",
      value: state.where || "", placeholder: "year >= 1900", oninput: () => { state.where = where.value; changed(); } });
    const names = Object.keys(about.index.columns);
    const column = make("select", { "aria-label": "Column" }, ...names.map(name => make("option", { value: name }, name)));
    const sign = make("select", { "aria-label": "Comparison" }, ...["=", "!=", "<", "<=", ">", ">=", "contains"].map(name => make("option", {}, name)));
    const value = make("input", { type: "text", dir: "auto", "aria-label": "Value", oninput: () => { add.disabled = !value.value.trim(); },
      onkeydown: event => { if (event.key === "Enter") { event.preventDefault(); add.click(); } } });
    const add = make("button", { type: "button", disabled: true, onclick: () => {
      const next = condition(column.value, sign.value, value.value);
      where.value = where.value.trim() ? `(${where.value}) AND ${next}` : next;
      state.where = where.value;
      value.value = ""; value.focus(); add.disabled = true;
      changed(true);
    } }, "Add");
    return make("details", { open: Boolean(state.where) }, make("summary", {}, "Filter"),
      make("div", { class: "row" }, make("label", { for: "where" }, "Only rows that match this SQL condition"), where),
      make("div", { class: "row" }, column, sign, value, add));
  }

  function condition(column, sign, value) {
    const name = /^[a-z_][a-z0-9_]*$/.test(column) ? column : `\`${column.replaceAll("`", "``")}\``;
    const number = !["string", "source"].includes(about.index.columns[column]) && value.trim() !== "" && !isNaN(value);
    const quoted = text => `'${text.replaceAll("'", "''")}'`;
    if (sign === "contains") return `${name} LIKE ${quoted(`%${value}%`)}`;
    return `${name} ${sign} ${number ? value : quoted(value)}`;
  }

  function showSearch(place, state) {
    const asking = asker(), by = BY[state.by] ? state.by : "both";
    state = { q: state.q || "", by, where: state.where || "", page: Math.max(1, parseInt(state.page) || 1) };
    const query = make("input", { type: "search", id: "query", dir: "auto", autocomplete: "off", spellcheck: "false", value: state.q,
      placeholder: "a question, a sentence, some words", oninput: () => { state.q = query.value; changed(); } });
    const kinds = Object.entries(BY).map(([name, told]) => make("label", {}, make("input", { type: "radio", name: "by", value: name,
      checked: name === by, onchange: () => { state.by = name; changed(true); } }), ` ${told}`));
    const results = make("ol", { class: "hits" }), pages = make("div", { class: "row" });
    const form = make("form", { role: "search", onsubmit: event => { event.preventDefault(); changed(true); } },
      make("label", { for: "query" }, "Search the collection"), query,
      make("div", { class: "row" }, make("fieldset", {}, make("legend", {}, "by"), ...kinds)), filter(state, changed));
    place.append(form, results, pages);
    const soon = later(120, load);

    function write(step) {
      keep("search", filled({ ...state, by: state.by !== "both" && state.by, page: state.page > 1 && state.page }), step);
    }

    function changed(step = false) {
      state.page = 1;
      write(step);
      soon();
    }

    function turn(to) {
      state.page = to;
      write(true);
      load().then(() => { results.querySelector("a")?.focus(); scrollTo(0, 0); });
    }

    async function load() {
      if (!state.q.trim()) { asking.stop(); results.replaceChildren(); pages.replaceChildren(); return say("Type to search."); }
      const started = performance.now(), offset = (state.page - 1) * PAGE, asked = state.q;
      try {
        const { hits, more } = state.page > PAGES ? { hits: [], more: false }
          : await asking("search", { query: asked, k: PAGE, offset, by: state.by, where: state.where });
        results.replaceChildren(...hits.map(hit => item(asked, hit)));
        const beyond = !hits.length && state.page > 1;  // an address by hand, or of a collection that has changed
        const from = hits.length ? `Hits ${offset + 1} to ${offset + hits.length}` : beyond ? `There is no page ${state.page}` : "No hits";
        say(`${from}, ${Math.round(performance.now() - started)} ms`);
        const back = make("button", { type: "button", disabled: state.page < 2, onclick: () => turn(beyond ? 1 : state.page - 1) }, beyond ? "First page" : "Previous");
        pages.replaceChildren(back,
          make("span", { class: "faint" }, `page ${state.page}`),
          make("button", { type: "button", disabled: !more, onclick: () => turn(state.page + 1) }, "Next"), copyLink());
      } catch (error) { complain(error); }
    }
    if (!state.q) query.focus();
    return load();
  }

  function copyLink() {
    return make("button", { type: "button", onclick: async () => {
      try { await navigator.clipboard.writeText(location.href); say("The link is copied."); } catch { say(location.href); }
    } }, "Copy link");
  }

  views.search = { title: "Search", needs: "index", show: showSearch, item, copyLink };
}
