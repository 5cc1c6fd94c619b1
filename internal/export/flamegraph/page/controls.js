// Details of a frame, the controls, and what they do.

function describe(i) {
  const f = frameOf[i];
  const type = shown(data.types[state.type][0]);
  const value = (v) => formatValue(v, state.type);
  byID("name").textContent = nameOf(i);
  const parts = [];
  if (isDiff) {
    const difference = total[i] - oldTotal[i];
    parts.push(`${type}: ${value(total[i])} (${formatShare(total[i], total[0])} of total)`,
      `before: ${value(oldTotal[i])} (${formatShare(oldTotal[i], oldTotal[0])} of total)`,
      `change: ${difference > 0 ? "+" : ""}${value(difference)}${change(i) === "" ? "" : " (" + change(i) + ")"}`);
  } else {
    parts.push(`${type}: ${value(total[i])}`, `${formatShare(total[i], total[0])} of total`);
  }
  if (i > 0 && !vanished(i)) parts.push(`${formatShare(total[i], total[parentOf[i]])} of its caller`);
  if (!vanished(i)) parts.push(`itself: ${value(self[i])}`);
  byID("numbers").textContent = parts.join(" \u00b7 ");
  const where = [];
  if (frames.flags[f] & INLINED) where.push("inlined into its caller");
  if (strings[frames.pkg[f]]) where.push("package " + strings[frames.pkg[f]]);
  if (strings[frames.file[f]]) where.push(strings[frames.file[f]]);
  byID("place").textContent = where.join(" \u00b7 ");
}

// Actions.

function refresh() {
  compute();
  showSearch();
  showLegend();
  showSelected();
  layout();
  describe(state.focus);
}

function zoomTo(i) {
  state.zoom = i;
  state.focus = i;
  state.hover = -1;
  byID("reset").disabled = i === 0;
  showSearch();
  layout();
  reveal(i);
  describe(i);
}

function focusOn(i) {
  state.focus = i;
  state.hover = -1;
  const rect = rectOf(i);
  if (!rect || rect.w < THIN) {
    zoomTo(i);
    return;
  }
  reveal(i);
  draw();
  describe(i);
}

// reveal scrolls a frame into view.
function reveal(i) {
  const y = rowTop(depthOf[i]);
  if (y < view.scrollTop) view.scrollTop = y;
  else if (y + ROW > view.scrollTop + height) view.scrollTop = y + ROW - height;
}

// sibling returns the next or the previous frame with the same caller that is wide enough to be seen, or i.
function sibling(i, forward) {
  const parent = parentOf[i];
  if (parent < 0 || depthOf[i] <= depthOf[state.zoom]) return i;
  const wide = (n) => (rectOf(n)?.w ?? 0) >= THIN;
  let previous = i;
  for (let n = parent + 1; n < endOf[parent]; n = endOf[n]) {
    if (!forward && n === i) return previous;
    if (forward && n > i && wide(n)) return n;
    if (n < i && wide(n)) previous = n;
  }
  return i;
}

// widestChild returns the widest callee, or i.
function widestChild(i) {
  let best = i;
  for (let n = i + 1; n < endOf[i]; n = endOf[n]) {
    if (weight[n] > 0 && (best === i || weight[n] > weight[best])) best = n;
  }
  return best;
}

function showSearch() {
  const text = byID("search").value;
  const found = byID("found");
  state.match = null;
  found.textContent = "";
  if (text === "") return;
  let matches;
  if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
    try {
      const expression = new RegExp(text.slice(1, -1), "i");
      matches = (s) => expression.test(s);
    } catch {
      found.textContent = "invalid regular expression";
      return;
    }
  } else {
    const lower = text.toLowerCase();
    matches = (s) => s.toLowerCase().includes(lower);
  }
  state.match = Uint8Array.from(frames.name, (name) => (matches(strings[name]) ? 1 : 0));
  const names = new Set();
  let sum = 0;
  for (let i = state.zoom; i < endOf[state.zoom];) {
    if (state.match[frameOf[i]] && weight[i] > 0) {
      sum += total[i];
      names.add(frames.name[frameOf[i]]);
      for (let n = i + 1; n < endOf[i]; n++) {
        if (state.match[frameOf[n]] && weight[n] > 0) names.add(frames.name[frameOf[n]]);
      }
      i = endOf[i];
    } else {
      i++;
    }
  }
  const whole = state.zoom === 0 ? "of total" : "of the zoomed frame";
  found.textContent = `${names.size} ${names.size === 1 ? "function" : "functions"}: ${formatShare(sum, total[state.zoom])} ${whole}`;
}

// nextMatch moves the focus to the next or the previous match.
function nextMatch(forward) {
  if (!state.match) return;
  for (let k = 1; k <= N; k++) {
    const i = (state.focus + (forward ? k : N - k % N)) % N;
    if (!state.match[frameOf[i]] || weight[i] <= 0) continue;
    if (!rectOf(i)) zoomTo(0);
    focusOn(i);
    return;
  }
}

function legendItem(text, background, style) {
  const item = document.createElement("span");
  if (background) {
    const swatch = document.createElement("i");
    swatch.style.background = background;
    if (style) swatch.style.border = style;
    item.append(swatch);
  }
  item.append(text);
  return item;
}

function showLegend() {
  const legend = byID("legend");
  if (isDiff) {
    legend.replaceChildren(legendItem("grew", diffColor(1)), legendItem("unchanged", diffColor(0)), legendItem("shrank", diffColor(-1)),
      legendItem("vanished: as wide as its old value", diffColor(-1), "1px dashed " + palette.text));
  } else {
    const sums = new Map();
    let runtime = false;
    for (let i = 0; i < N; i++) {
      const f = frameOf[i];
      if (frames.flags[f] & RUNTIME && weight[i] > 0) runtime = true;
      if (frames.flags[f] & (RUNTIME | OTHER) || weight[i] <= 0) continue;
      const parent = parentOf[i];
      if (parent >= 0 && frames.pkg[frameOf[parent]] === frames.pkg[f]) continue; // counted with its caller
      sums.set(frames.pkg[f], (sums.get(frames.pkg[f]) || 0) + weight[i]);
    }
    const largest = Array.from(sums).sort((a, b) => b[1] - a[1]).slice(0, 8);
    legend.replaceChildren(...largest.map(([pkg]) => legendItem(strings[pkg].slice(0, 80), packageColor(strings[pkg], 0))));
    if (runtime) legend.append(legendItem("Go runtime", packageColor("", RUNTIME)));
  }
  if (frames.flags.some((f) => f & INLINED)) {
    const item = document.createElement("em");
    item.textContent = "inlined call";
    legend.append(item);
  }
}

function showSelected() {
  const active = Array.from(filters.values()).some((text) => text !== "");
  let all = 0;
  for (const v of data.rows.values[state.type]) all += v;
  byID("selected").textContent = active ? `selected: ${formatValue(total[0], state.type)} of ${formatValue(all, state.type)} (${formatShare(total[0], all)})` : "";
}

// Controls.

function fillHeader() {
  document.title = shown(data.title);
  byID("title").textContent = shown(data.title);
  canvas.setAttribute("aria-label", "Flame graph: " + shown(data.title));
  for (const [name, text] of data.facts) {
    const line = document.createElement("div"), term = document.createElement("dt"), value = document.createElement("dd");
    term.textContent = name;
    value.textContent = shown(text);
    line.append(term, value);
    byID("facts").append(line);
  }
  for (const text of data.notes || []) {
    const item = document.createElement("li");
    item.textContent = shown(text);
    byID("notes").append(item);
    byID("notes").hidden = false;
  }
  data.types.forEach(([name, unit], i) => {
    const option = new Option(unit === "" || unit === "count" ? shown(name) : `${shown(name)} (${shown(unit)})`, i);
    option.selected = i === state.type;
    byID("type").append(option);
  });
  byID("vanishedlabel").hidden = !isDiff;
}

function fillLabels() {
  const sums = data.labels.keys.map(() => new Map());
  const keys = new Map(data.labels.keys.map((key, i) => [key, i]));
  for (let r = 0; r < rowCount; r++) {
    const set = data.labels.sets[data.rows.set[r]];
    for (let i = 0; i < set.length; i += 2) {
      const values = sums[keys.get(set[i])];
      values.set(set[i + 1], (values.get(set[i + 1]) || 0) + data.rows.values[data.type][r] + (isDiff ? data.rows.old[data.type][r] : 0));
    }
  }
  data.labels.keys.forEach((key, k) => {
    const line = document.createElement("label"), input = document.createElement("input"), list = document.createElement("datalist");
    list.id = "values" + k;
    const values = Array.from(sums[k]).sort((a, b) => b[1] - a[1]);
    for (const [value] of values.slice(0, MAX_OPTIONS)) list.append(new Option("", strings[value]));
    list.append(new Option("", "(none)"));
    input.type = "search";
    input.setAttribute("list", list.id);
    input.placeholder = values.length === 1 ? "1 value" : values.length + " values";
    input.title = "a value, or a part of values; (none) selects samples without this label";
    input.addEventListener("input", () => {
      filters.set(k, input.value);
      refresh();
    });
    line.append(strings[key].slice(0, 40), input, list);
    byID("labels").append(line);
  });
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const i = state.focus;
  const inward = state.flame ? "ArrowUp" : "ArrowDown", outward = state.flame ? "ArrowDown" : "ArrowUp";
  switch (event.key) {
    case inward: focusOn(widestChild(i)); break;
    case outward: if (i > 0) focusOn(parentOf[i]); break;
    case "ArrowLeft": focusOn(sibling(i, false)); break;
    case "ArrowRight": focusOn(sibling(i, true)); break;
    case "Home": zoomTo(0); break;
    case "Enter": case " ": zoomTo(i); break;
    default: return;
  }
  event.preventDefault();
}

// onShortcut handles the keys that work everywhere but in a field.
function onShortcut(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  if (event.target instanceof HTMLInputElement && event.target.type === "search" || event.target instanceof HTMLSelectElement) {
    if (event.key === "Escape") canvas.focus();
    return;
  }
  switch (event.key) {
    case "/": byID("search").focus(); break;
    case "n": nextMatch(true); break;
    case "N": nextMatch(false); break;
    case "i": byID("orientation").value = state.flame ? "icicle" : "flame"; orient(); break;
    case "Escape": zoomTo(state.zoom > 0 ? parentOf[state.zoom] : 0); break;
    default: return;
  }
  event.preventDefault();
}

function orient() {
  state.flame = byID("orientation").value === "flame";
  layout();
  view.scrollTop = state.flame ? view.scrollHeight : 0;
  draw();
}

function listen() {
  byID("type").addEventListener("change", (event) => {
    state.type = Number(event.target.value);
    refresh();
  });
  byID("orientation").addEventListener("change", orient);
  byID("vanished").addEventListener("change", (event) => {
    state.vanished = event.target.checked;
    refresh();
  });
  byID("search").addEventListener("input", () => {
    showSearch();
    draw();
  });
  byID("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      canvas.focus();
      nextMatch(true);
    }
  });
  byID("reset").addEventListener("click", () => zoomTo(0));
  canvas.addEventListener("mousemove", (event) => {
    const i = nodeAt(event.offsetX, event.offsetY);
    if (i === state.hover) return;
    state.hover = i;
    canvas.style.cursor = i >= 0 ? "pointer" : "default";
    draw();
    describe(i >= 0 ? i : state.focus);
  });
  canvas.addEventListener("mouseleave", () => {
    state.hover = -1;
    draw();
    describe(state.focus);
  });
  canvas.addEventListener("click", (event) => {
    const i = nodeAt(event.offsetX, event.offsetY);
    if (i >= 0) zoomTo(i);
  });
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("focus", draw);
  canvas.addEventListener("blur", draw);
  document.addEventListener("keydown", onShortcut);
  view.addEventListener("scroll", draw);
  new ResizeObserver(() => {
    if (view.clientWidth !== width || view.clientHeight !== height) layout();
  }).observe(view);
  dark.addEventListener("change", () => {
    readPalette();
    showLegend();
    draw();
  });
}

linkNodes();
readPalette();
fillHeader();
fillLabels();
refresh();
listen();
