// Colours, layout and drawing.

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function readPalette() {
  const css = getComputedStyle(document.documentElement);
  palette = {};
  for (const name of ["page", "panel", "text", "muted", "match", "matchtext", "focus", "tiny", "line"]) {
    palette[name] = css.getPropertyValue("--" + name).trim();
  }
  palette.packages = new Map();
}

function packageColor(pkg, flags) {
  if (flags & (RUNTIME | OTHER)) return dark.matches ? "#343a41" : "#dfe2e6";
  let color = palette.packages.get(pkg);
  if (color === undefined) {
    let hash = 2166136261;
    for (let i = 0; i < pkg.length; i++) hash = Math.imul(hash ^ pkg.charCodeAt(i), 16777619) >>> 0;
    hash ^= hash >>> 15;
    const hue = (hash >>> 0) % 24 * 15, shade = (hash >>> 5) % 3;
    color = dark.matches ? `hsl(${hue} 42% ${24 + 3 * shade}%)` : `hsl(${hue} 65% ${76 + 4 * shade}%)`;
    palette.packages.set(pkg, color);
  }
  return color;
}

// diffColor returns red for growth and blue for shrinkage, from -1 to 1.
function diffColor(ratio) {
  const strength = Math.sqrt(Math.abs(ratio));
  if (strength < 0.03) return dark.matches ? "#3a4047" : "#e4e6ea";
  const hue = ratio > 0 ? 4 : 215;
  return dark.matches ? `hsl(${hue} ${20 + 45 * strength}% ${24 + 14 * strength}%)` : `hsl(${hue} ${30 + 55 * strength}% ${93 - 21 * strength}%)`;
}

function color(i) {
  const f = frameOf[i];
  if (isDiff) return diffColor((total[i] - oldTotal[i]) / Math.max(total[i], oldTotal[i], 1e-300));
  return packageColor(strings[frames.pkg[f]], frames.flags[f]);
}

const nameOf = (i) => strings[frames.name[frameOf[i]]] || "(unnamed)";

// shortName is the name without the directories of the package's import path.
function shortName(i) {
  const f = frameOf[i];
  const pkg = strings[frames.pkg[f]];
  return nameOf(i).slice(pkg.lastIndexOf("/") + 1);
}

const vanished = (i) => isDiff && total[i] === 0;

// Layout and drawing.

const view = byID("view"), spacer = byID("spacer"), canvas = byID("graph");
const context = canvas.getContext("2d");
let width = 0, height = 0, charWidth = 7;

// walk calls visit with the visible nodes below the zoomed one: the node, its left edge and its width. If the width is below THIN, or
// visit returns false, the subtree is skipped.
function walk(visit) {
  const root = state.zoom;
  const scale = width / (weight[root] || 1);
  for (let i = root; i < endOf[root];) {
    const w = weight[i] * scale;
    const descend = w > 0 && visit(i, (position[i] - position[root]) * scale, w) && w >= THIN;
    i = descend ? i + 1 : endOf[i];
  }
}

// rowTop returns the upper edge of the row of a depth, in pixels of the spacer.
const rowTop = (depth) => (state.flame ? spacerHeight() - (depth + 1) * ROW : depth * ROW);
const spacerHeight = () => Math.max(state.rows * ROW, height);

// layout measures the graph. It is called when anything changes but the scroll position.
function layout() {
  width = view.clientWidth;
  height = view.clientHeight;
  let deepest = depthOf[state.zoom];
  walk((i) => {
    deepest = Math.max(deepest, depthOf[i]);
    return true;
  });
  state.rows = deepest + 1;
  spacer.style.height = state.rows * ROW + "px";
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw();
}

function draw() {
  const top = view.scrollTop;
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.font = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
  charWidth = context.measureText("0").width;
  for (let i = parentOf[state.zoom]; i >= 0; i = parentOf[i]) box(i, 0, width, rowTop(depthOf[i]) - top, true);
  const thin = new Map(); // the last thin column by row
  walk((i, x, w) => {
    const y = rowTop(depthOf[i]) - top;
    if (state.flame ? y + ROW < 0 : y > height) return false;
    if (y + ROW < 0 || y > height) return true;
    if (w < THIN) {
      const column = Math.floor(x);
      if ((thin.get(depthOf[i]) ?? -1) < column) {
        thin.set(depthOf[i], column);
        context.globalAlpha = 1;
        context.fillStyle = palette.tiny;
        context.fillRect(column, y, 1, ROW - 1);
      }
      return false;
    }
    box(i, x, w, y, false);
    return true;
  });
  context.globalAlpha = 1;
  if (document.activeElement === canvas) outline(state.focus, top, 2);
  if (state.hover >= 0) outline(state.hover, top, 1);
}

// box draws a frame. Ancestors of the zoomed frame are faint.
function box(i, x, w, y, ancestor) {
  const f = frameOf[i];
  const matched = state.match && state.match[f];
  context.globalAlpha = ancestor ? 0.6 : state.match && !matched ? 0.4 : 1;
  context.fillStyle = matched ? palette.match : color(i);
  const inner = w > 3 ? w - 1 : w;
  context.fillRect(x, y, inner, ROW - 1);
  if (vanished(i) && w > 4) {
    context.setLineDash([4, 3]);
    context.strokeStyle = palette.muted;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, inner - 1, ROW - 2);
    context.setLineDash([]);
  }
  const room = Math.floor((w - 8) / charWidth);
  if (room < 3) return;
  context.globalAlpha = ancestor ? 0.85 : state.match && !matched ? 0.85 : 1;
  const muted = !isDiff && frames.flags[f] & (RUNTIME | OTHER);
  context.fillStyle = matched ? palette.matchtext : muted ? palette.muted : palette.text;
  const inlined = frames.flags[f] & INLINED;
  if (inlined) context.font = "italic " + context.font;
  context.fillText(label(i, room), x + 4, y + (ROW - 1) / 2 + 0.5, w - 7);
  if (inlined) context.font = context.font.replace("italic ", "");
}

// label returns the text of a frame for some characters.
function label(i, room) {
  const note = isDiff && change(i) !== "" ? "  " + change(i) : "";
  const full = nameOf(i), short = shortName(i);
  for (const text of [full + note, short + note, short]) {
    if (text.length <= room) return text;
  }
  return Array.from(short.slice(0, room - 1)).join("") + "\u2026";
}

function outline(i, top, thickness) {
  const rect = rectOf(i);
  if (!rect) return;
  context.strokeStyle = palette.focus;
  context.lineWidth = thickness;
  const half = thickness / 2;
  context.strokeRect(rect.x + half, rowTop(depthOf[i]) - top + half, Math.max(rect.w - 1, 2) - thickness, ROW - 1 - thickness);
}

// rectOf returns the left edge and the width of a frame, or null if it is outside of the zoomed one.
function rectOf(i) {
  const root = state.zoom;
  if (i < root) return endOf[i] > root ? { x: 0, w: width } : null;
  if (i >= endOf[root]) return null;
  const scale = width / (weight[root] || 1);
  return { x: (position[i] - position[root]) * scale, w: weight[i] * scale };
}

// nodeAt returns the frame at a point of the canvas, or -1.
function nodeAt(x, y) {
  const offset = y + view.scrollTop;
  const depth = Math.floor((state.flame ? spacerHeight() - offset : offset) / ROW);
  if (depth < 0 || depth >= state.rows) return -1;
  let i = state.zoom;
  if (depth <= depthOf[i]) {
    while (depthOf[i] > depth) i = parentOf[i];
    return i;
  }
  const at = position[state.zoom] + x * (weight[state.zoom] || 1) / width;
  while (depthOf[i] < depth) {
    let child = i + 1;
    while (child < endOf[i] && at >= position[child] + weight[child]) child = endOf[child];
    if (child >= endOf[i] || at < position[child]) return -1;
    i = child;
  }
  return weight[i] * width / (weight[state.zoom] || 1) >= THIN ? i : -1;
}
