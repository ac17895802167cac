// Elements and text.

// An element. Properties that begin with "on" are listeners, the others attributes; children may be strings.
function make(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
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
const amount = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
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

function say(text, bad = false) {
  const status = document.getElementById("status");
  status.textContent = text;
  status.classList.toggle("bad", bad);
}
const complain = error => say(error instanceof TypeError ? "The server cannot be reached." : error.message, true);
