// The script of a map in one file: all texts are in it.
{
  const data = JSON.parse(document.getElementById("data").textContent), lower = data.text.map(text => text.toLowerCase());
  const source = {
    ...data, columns: Object.keys(data.columns),
    texts: async points => points.map(i => ({ text: data.text[i], place: data.place[i] })),
    values: async column => data.columns[column],
    find: async query => {
      const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
      return lower.flatMap((text, i) => wanted.every(word => text.includes(word)) ? [i] : []);
    },
  };
  mapPanel(document.getElementById("view"), source, {}, () => {});
}
