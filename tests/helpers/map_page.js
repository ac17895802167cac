// Runs a map's own script on a page that is only pretended, and tells what it did.
"use strict";
const fs = require("fs"), vm = require("vm");
const page = fs.readFileSync(process.argv[2], "utf8");
const [data] = page.match(/(?<=id="data">)[^]*?(?=<\/script>)/);
const script = page.match(/<script>([^]*?)<\/script>/)[1];
let arcs = 0;
const listeners = {}, frames = [];
const context = new Proxy({}, { get: (_, name) => name === "arc" ? () => { arcs++; } : () => {}, set: () => true });
function element(name) {
  const made = {
    name, style: {}, children: [], textContent: "", value: "", clientWidth: 800, clientHeight: 600,
    offsetWidth: 100, offsetHeight: 50, on: {}, getContext: () => context, setAttribute() {}, setPointerCapture() {},
    addEventListener(kind, listener) { this.on[kind] = listener; },
    replaceChildren(...children) { this.children = children; }, append(...children) { this.children.push(...children); },
    querySelectorAll: () => [], getBoundingClientRect: () => ({ left: 320, top: 0 }),
  };
  return made;
}
const byId = {};
const document = {
  documentElement: {}, createElement: element,
  getElementById: id => byId[id] ||= Object.assign(element(id), id === "data" ? { textContent: data } : {}),
};
const world = { document, window: {}, innerWidth: 1200, innerHeight: 800, JSON, Math, Map, Set, String,
  getComputedStyle: () => ({ getPropertyValue: () => "#000" }), requestAnimationFrame: frame => frames.push(frame),
  addEventListener: (kind, listener) => { listeners[kind] = listener; } };
vm.runInNewContext(script, world);
const run = () => { while (frames.length) frames.shift()(); };
run();
const told = { arcs, all: byId.count.textContent };
const points = JSON.parse(data), scale = 0.92 * 600 / 65535;
const i = 5, x = points.x[i] * scale + (800 - 65535 * scale) / 2, y = points.y[i] * scale + (600 - 65535 * scale) / 2;
byId.map.on.pointermove({ offsetX: x, offsetY: y });
told.pointed = points.text[i];
told.tip = byId.tip.children[0];
byId.search.value = "Galaxy star";
byId.search.on.input();
told.galaxy = byId.count.textContent;
told.results = byId.results.children.length;
run();
console.log(JSON.stringify(told));
