// The same query in two models, side by side.
{
  const SHOWN = 10, DEEP = 100;
  const row = hit => `${hit.source}:${hit.row}`;

  function showModels(place, state) {
    state = { q: state.q || "", by: state.by === "both" ? "both" : "vectors" };
    const asking = about.models.map(() => [asker(), asker()]), soon = later(150, load);
    const query = make("input", { type: "search", id: "query", dir: "auto", autocomplete: "off", spellcheck: "false", value: state.q,
      oninput: () => { state.q = query.value; changed(); } });
    const both = make("input", { type: "checkbox", checked: state.by === "both", onchange: () => { state.by = both.checked ? "both" : "vectors"; changed(true); } });
    const columns = about.models.map(name => {
      const list = make("ol", { class: "hits" });
      return { list, all: make("section", {}, make("h2", {}, said(name)), list) };
    });
    place.append(make("form", { role: "search", onsubmit: event => { event.preventDefault(); changed(true); } },
      make("label", { for: "query" }, "Search with both models"), query,
      make("div", { class: "row" }, make("label", {}, both, " words, too"), views.search.copyLink())),
      make("div", { class: "two" }, ...columns.map(({ all }) => all)));
    function changed(step = false) { keep("models", filled({ ...state, by: state.by === "both" && "both" }), step); soon(); }

    async function load() {
      if (!state.q.trim()) {
        for (const one of asking.flat()) one.stop();
        columns.forEach(({ list }) => list.replaceChildren());
        return say("Type to search.");
      }
      const asked = state.q, body = { query: asked, by: state.by };
      try {
        const found = await Promise.all(about.models.map((model, i) => Promise.all([
          asking[i][0]("search", { ...body, model, k: SHOWN }), asking[i][1]("search", { ...body, model, k: DEEP, explain: false })])));
        const ranks = found.map(([, deep]) => new Map(deep.hits.map((hit, i) => [row(hit), i + 1])));
        found.forEach(([{ hits }], i) => columns[i].list.replaceChildren(...hits.map((hit, number) => {
          const other = ranks[1 - i].get(row(hit)), moved = other ? `number ${other} in the other` : `not among the first ${DEEP} of the other`;
          return views.search.item(asked, hit, make("span", { class: other === number + 1 ? "" : "moved" }, moved));
        })));
        const shared = found[0][0].hits.filter(hit => found[1][0].hits.some(other => row(other) === row(hit))).length;
        say(`The first ${SHOWN} of both models have ${shared} in common.`);
      } catch (error) { complain(error); }
    }
    if (!state.q) query.focus();
    return load();
  }
  views.models = { title: "Models", needs: "models", show: showModels };
}
