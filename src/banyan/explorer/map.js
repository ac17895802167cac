// The map of the collection, which the server lays out when it is first asked for.
views.map = { title: "Map", needs: "index", show: async (place, state) => {
  const wait = make("p", { role: "status" });
  place.append(wait);
  try {
    let found = await ask("explore/map", {});
    while (!found.ready) {
      if (!wait.isConnected) return;
      const rows = about.index.rows, time = rows > 30000 ? "a few minutes" : rows > 5000 ? "up to a minute" : "some seconds";
      wait.textContent = `The texts are being placed, once: ${Math.round(found.seconds)} s. For ${rows.toLocaleString("en")} rows it takes ${time}.`;
      await new Promise(resolve => setTimeout(resolve, 700));
      found = await ask("explore/map", {});
    }
    if (!wait.isConnected) return;
    wait.remove();
    const asking = asker();
    const source = { ...found, nearest: true, columns: Object.keys(about.index.columns).filter(name => name !== "row"), texts: points => ask("explore/texts", { points }),
      values: column => ask("explore/values", { column }), find: query => asking("explore/find", { query }) };
    mapPanel(place, source, { q: state.q || "", colour: state.colour || "" }, (now, step) => keep("map", filled(now), step), views.search.copyLink());
  } catch (error) { complain(error); }
} };
