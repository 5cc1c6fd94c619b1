// The data of the page, and the values of nodes in the current selection.

const ROW = 19; // height of a row in CSS pixels
const THIN = 0.7; // frames narrower than this are drawn as a grey column
const INLINED = 1, RUNTIME = 2, OTHER = 4; // flags of frames, as in document.go
const MAX_OPTIONS = 300; // values of a label that are suggested

const byID = (id) => document.getElementById(id);
const data = JSON.parse(byID("data").textContent);
const strings = data.strings.map(shown);
const frames = data.frames;
const N = data.nodes.frame.length;
const frameOf = Int32Array.from(data.nodes.frame);
const depthOf = Int32Array.from(data.nodes.depth);
const parentOf = new Int32Array(N).fill(-1);
const endOf = new Int32Array(N); // the first node behind the subtree
const isDiff = data.rows.old !== undefined;
const rowCount = data.rows.node.length;

// Of the current selection: the values of nodes with and without their callees, now and before; the width and the position of a
// node, in the unit of the values.
let self, total, oldSelf, oldTotal, weight, position;

const state = { type: data.type, flame: false, zoom: 0, focus: 0, hover: -1, match: null, vanished: true, rows: 1 };
const filters = new Map(); // texts by index in data.labels.keys
let palette = {};

// shown makes invisible characters visible, and those that change the direction of text.
function shown(s) {
  return s.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\ufff9-\ufffc]/g,
    (c) => "\\u{" + c.charCodeAt(0).toString(16) + "}");
}

function linkNodes() {
  const path = [];
  for (let i = 0; i < N; i++) {
    while (path.length > depthOf[i]) endOf[path.pop()] = i;
    if (path.length) parentOf[i] = path[path.length - 1];
    path.push(i);
  }
  while (path.length) endOf[path.pop()] = N;
}

// selectedSets returns for each set of labels whether it matches the filters.
function selectedSets() {
  const sets = data.labels.sets;
  const selected = new Uint8Array(sets.length).fill(1);
  for (const [key, text] of filters) {
    if (text === "") continue;
    const matches = matcher(key, text);
    for (let s = 0; s < sets.length; s++) {
      let found = false, any = false;
      for (let i = 0; i < sets[s].length; i += 2) {
        if (sets[s][i] !== data.labels.keys[key]) continue;
        any = true;
        found = found || matches(strings[sets[s][i + 1]]);
      }
      if (!(any ? found : text === "(none)")) selected[s] = 0;
    }
  }
  return selected;
}

// matcher returns a predicate for values of a label: equal to the text if there is such a value, otherwise containing it.
function matcher(key, text) {
  for (const set of data.labels.sets) {
    for (let i = 0; i < set.length; i += 2) {
      if (set[i] === data.labels.keys[key] && strings[set[i + 1]] === text) return (v) => v === text;
    }
  }
  const lower = text.toLowerCase();
  return (v) => v.toLowerCase().includes(lower);
}

// compute adds up the values of the selected samples.
function compute() {
  self = new Float64Array(N);
  oldSelf = new Float64Array(N);
  const selected = selectedSets();
  const { node, set } = data.rows;
  const values = data.rows.values[state.type];
  const old = isDiff ? data.rows.old[state.type] : null;
  for (let r = 0; r < rowCount; r++) {
    if (!selected[set[r]]) continue;
    self[node[r]] += values[r];
    if (old) oldSelf[node[r]] += old[r];
  }
  total = self.slice();
  oldTotal = oldSelf.slice();
  for (let i = N - 1; i > 0; i--) {
    total[parentOf[i]] += total[i];
    oldTotal[parentOf[i]] += oldTotal[i];
  }
  // The width is the new value. Stacks that have vanished have their old one.
  weight = new Float64Array(N);
  for (let i = N - 1; i >= 0; i--) {
    weight[i] += total[i] > 0 || !state.vanished ? self[i] : oldSelf[i];
    if (i > 0) weight[parentOf[i]] += weight[i];
  }
  position = new Float64Array(N);
  const used = new Float64Array(N);
  for (let i = 1; i < N; i++) {
    const p = parentOf[i];
    position[i] = position[p] + used[p];
    used[p] += weight[i];
  }
  while (state.zoom > 0 && weight[state.zoom] <= 0) state.zoom = parentOf[state.zoom];
  while (state.focus > 0 && weight[state.focus] <= 0) state.focus = parentOf[state.focus];
  state.hover = -1;
}

// Numbers.

const TIMES = { nanoseconds: 1, microseconds: 1e3, milliseconds: 1e6, seconds: 1e9 };

function formatValue(v, type) {
  const unit = data.types[type][1];
  const sign = v < 0 ? "-" : "";
  v = Math.abs(v);
  if (TIMES[unit]) {
    const ns = v * TIMES[unit];
    for (const [size, name] of [[3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]]) {
      if (ns >= size) return sign + digits(ns / size) + " " + name;
    }
    return sign + digits(ns) + " ns";
  }
  if (unit === "bytes") {
    for (const [size, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
      if (v >= size) return sign + digits(v / size) + " " + name;
    }
    return sign + v + " B";
  }
  const number = v.toLocaleString("en-US");
  return sign + number + (unit === "count" || unit === "" ? "" : " " + shown(unit));
}

function digits(v) {
  return v >= 100 || Number.isInteger(v) ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
}

function formatShare(part, whole) {
  if (!(whole > 0)) return "0 %";
  const p = 100 * part / whole;
  const size = Math.abs(p);
  if (size === 0) return "0 %";
  if (size >= 99.95) return p.toFixed(0) + " %";
  if (size >= 10) return p.toFixed(1) + " %";
  if (size >= 0.01) return p.toFixed(2) + " %";
  return (p < 0 ? "above -" : "below ") + "0.01 %";
}

const signed = (text) => (text.startsWith("-") ? text : "+" + text);

// change describes the difference of a node to the old profile.
function change(i) {
  const now = total[i], before = oldTotal[i];
  if (before === 0) return now > 0 ? "new" : "";
  if (now === 0) return "gone";
  if (now === before) return "";
  return signed(formatShare(now - before, before));
}
