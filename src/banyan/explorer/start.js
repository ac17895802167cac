// Ask the server what it has, and show the view of the address.
async function start() {
  try {
    about = await ask("explore/about", {});
  } catch (error) {
    return complain(error);
  }
  document.getElementById("lock").hidden = true;
  const rows = about.index ? ` · ${about.index.rows.toLocaleString("en")} rows` : "";
  document.getElementById("about").textContent = about.models[0] + rows;
  const tabs = Object.keys(views).filter(offered).map(name =>
    make("a", { href: `#${name}`, "data-view": name }, views[name].title));
  document.getElementById("nav").replaceChildren(...tabs);
  addEventListener("popstate", show);
  show();
}
document.getElementById("lock").addEventListener("submit", event => {
  event.preventDefault();
  key = document.getElementById("key").value;
  try { sessionStorage.setItem("banyan-key", key); } catch { /* kept for this page only */ }
  start();
});
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();
  document.getElementById("view").focus();
});
start();
