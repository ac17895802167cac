// Requests to the server, and views with their state in the address.

let about = null;  // what the server has: its models, its index
let key = "";
try { key = sessionStorage.getItem("banyan-key") || ""; } catch { /* no storage: the key is asked for again */ }

async function ask(path, body, signal) {
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (answer.ok) return answer.json();
  if (answer.status === 401) document.getElementById("lock").hidden = false;
  const told = await answer.json().catch(() => ({}));
  throw new Error(told.error || `the server answered with status ${answer.status}`);
}

let leaving = new AbortController();  // aborted when another view is shown

// Asks. A further question of the same asker, or another view, gives up the one before, whose promise then never ends.
function asker() {
  const left = leaving.signal;
  let running = null;
  const asking = async (path, body) => {
    running?.abort();
    const mine = running = new AbortController();
    if (left.aborted) mine.abort();
    try {
      const answer = await ask(path, body, mine.signal);
      if (!mine.signal.aborted) return answer;
    } catch (error) {
      if (!mine.signal.aborted) throw error;
    }
    return new Promise(() => {});
  };
  asking.stop = () => running?.abort();
  left.addEventListener("abort", asking.stop);
  return asking;
}

// --- Views, and their state in the address: #name?field=value ------------------------------------------------------

const views = {};  // name -> { title, needs, show(place, state) }
const chosen = new Set();  // sentences to draw as a graph
let current = "";

function address() {
  const [name, query] = location.hash.slice(1).split("?");
  return [name, Object.fromEntries(new URLSearchParams(query || ""))];
}

function link(name, state) {
  const query = new URLSearchParams(Object.entries(state).filter(([, value]) => value != null));
  return `#${name}${query.size ? `?${query}` : ""}`;
}

// A state without the fields that are empty, for views where these are as the view begins.
const filled = state => Object.fromEntries(Object.entries(state).filter(([, value]) => value));

let kept = 0;  // when the address last changed
// Write the state into the address. A change soon after another replaces it, so that Back does not step through letters.
function keep(name, state, step = false) {
  const to = link(name, state);
  if (to === location.hash) return;
  const now = performance.now(), again = !step && now - kept < 1500;
  history[again ? "replaceState" : "pushState"](null, "", to);
  kept = now;
}

// Write what a view begins with into the address: the link that is copied shows it to others, too.
const beginWith = (name, state) => history.replaceState(history.state, "", link(name, state));

function offered(name) {
  const { needs } = views[name];
  return !needs || (needs === "index" ? about.index : about.models.length > 1);
}

// Texts of the collection to begin with, or null.
function examples(number) {
  const found = about.index?.examples || [];
  return found.length < number ? null : found.slice(0, number);
}

async function show() {
  let [name, state] = address();
  const before = current, scrolled = history.state?.scrolled || 0;
  if (!views[name] || !offered(name)) [name, state] = [Object.keys(views).find(offered), {}];
  current = name;
  kept = 0;
  leaving.abort();
  leaving = new AbortController();
  const nav = document.getElementById("nav");
  for (const tab of nav.children) {
    if (tab.dataset.view !== name) { tab.removeAttribute("aria-current"); continue; }
    tab.setAttribute("aria-current", "page");
    nav.scrollLeft = tab.offsetLeft - nav.offsetLeft - (nav.clientWidth - tab.offsetWidth) / 2;
  }
  document.title = `${views[name].title} · Banyan`;
  say("");
  const place = document.getElementById("view");
  place.replaceChildren();
  const shown = views[name].show(place, state), first = place.firstChild;
  if (before && document.activeElement === document.body) place.focus({ preventScroll: true });  // what had the focus is gone
  await shown;
  if (scrolled && first.isConnected) scrollTo(0, scrolled);
}

// Where the page was is kept with its address, so that Back returns there.
history.scrollRestoration = "manual";
addEventListener("scroll", later(150, () => history.replaceState({ scrolled: scrollY }, "")));
