// Elements, requests to the server, and the state of a view in the address.

// An element. Properties that begin with "on" are listeners, the others attributes; children may be strings.
function make(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// The same for drawings.
function shape(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child != null && child !== false));
  return element;
}

// Text of users, in its own direction, so that no character in it reorders what stands beside it.
const said = (text, properties = {}) => make("bdi", { dir: "auto", ...properties }, text);

// The server counts characters; JavaScript counts halves of some.
const characters = text => Array.from(text);
const part = (letters, [start, end]) => letters.slice(start, end).join("").trim();
const decimals = (value, n = 3) => (Math.abs(value) < 0.5 * 10 ** -n ? 0 : value).toFixed(n);
const short = (text, most = 80) => characters(text).length > most ? characters(text).slice(0, most - 1).join("") + "…" : text;
// Text for a drawing: on one line, without characters that reorder or cannot be shown.
const visible = text => text.replace(/\s+/g, " ").replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
const rightToLeft = text => {
  const count = form => (text.match(form) || []).length;
  return count(/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]|\p{Script=Adlam}/gu) > count(/\p{L}/gu) / 2;
};

function later(milliseconds, action) {  // the last call of a burst is carried out
  let timer;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => action(...given), milliseconds); };
}

// --- The server ----------------------------------------------------------------------------------------------------

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

// Asks; a further question of the same asker gives up the one before, whose promise then never ends.
function asker() {
  let running = null;
  return async (path, body) => {
    if (running) running.abort();
    const mine = running = new AbortController();
    try {
      const answer = await ask(path, body, mine.signal);
      return mine === running ? answer : new Promise(() => {});
    } catch (error) {
      return mine.signal.aborted ? new Promise(() => {}) : Promise.reject(error);
    }
  };
}

function say(text, bad = false) {
  const status = document.getElementById("status");
  status.textContent = text;
  status.classList.toggle("bad", bad);
}
const complain = error => say(error instanceof TypeError ? "The server cannot be reached." : error.message, true);

// --- Views, and their state in the address: #name?field=value ------------------------------------------------------

const views = {};  // name -> { title, needs, show(place, state) }
const chosen = new Set();  // sentences to draw as a graph
let current = "";

function address() {
  const [name, query] = location.hash.slice(1).split("?");
  return [name, Object.fromEntries(new URLSearchParams(query || ""))];
}

function link(name, state) {
  const query = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== "" && value != null));
  return `#${name}${query.size ? `?${query}` : ""}`;
}

let kept = 0;  // when the address last changed
// Write the state into the address. A change soon after another replaces it, so that Back does not step through letters.
function keep(name, state, step = false) {
  const to = link(name, state);
  if (to === location.hash) return;
  const now = performance.now(), again = !step && now - kept < 1500;
  history[again ? "replaceState" : "pushState"](null, "", to);
  kept = now;
}

function offered(name) {
  const { needs } = views[name];
  return !needs || (needs === "index" ? about.index : about.models.length > 1);
}

function show() {
  let [name, state] = address();
  if (!views[name] || !offered(name)) [name, state] = [Object.keys(views).find(offered), {}];
  current = name;
  kept = 0;
  for (const tab of document.querySelectorAll("nav a")) {
    if (tab.dataset.view === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  document.title = `${views[name].title} · Banyan`;
  say("");
  const place = document.getElementById("view");
  place.replaceChildren();
  views[name].show(place, state);
}
