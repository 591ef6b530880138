// Asks once a second what the drive does and draws it. Nothing here tells the drive anything.
"use strict";

const HISTORY = 120;
const byId = (id) => document.getElementById(id);
const history = []; // of {written, causes: {name: bytes}} a second
let before = null; // the last picture, and when it was taken
let paused = false;
let last = null; // what is drawn
let chosen = -1; // the part of the flash that is told of

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function bytes(count) {
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) { count /= 1024; unit += 1; }
  return (count >= 100 || unit === 0 ? count.toFixed(0) : count.toFixed(1)) + " " + units[unit];
}
const number = (count) => Math.round(count).toLocaleString("en");
const micros = (ns) => (ns / 1000).toFixed(1) + " µs";

// Counters that began anew, as after a power cut, count from there.
const grown = (now, then) => (now >= then ? now - then : now);

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function shape(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

const color = (index) => `var(--c${index % 8})`;

function legend(id, names) {
  byId(id).replaceChildren(...names.map((name, index) => {
    const item = element("li", name);
    const mark = element("i", "");
    mark.style.setProperty("--c", color(index));
    item.prepend(mark);
    return item;
  }));
}

function tiles(all) {
  byId("now").replaceChildren(...all.map(([name, value]) => {
    const tile = element("div", "");
    tile.append(element("dt", name), element("dd", value));
    return tile;
  }));
}

function second(now, then, seconds) {
  const life = (name) => grown(now.life[name], then.life[name]) / seconds;
  const page = now.programmed_page_bytes;
  const causes = {};
  for (const [name, pages] of Object.entries(now.programmed_pages)) {
    causes[name] = grown(pages, then.programmed_pages[name] ?? 0) * page / seconds;
  }
  history.push({ written: life("host_write_bytes"), causes });
  if (history.length > HISTORY) history.shift();
  const all = [
    ["reads", number(life("read_commands")) + " /s"],
    ["read", bytes(life("host_read_bytes")) + "/s"],
    ["writes", number(life("write_commands")) + " /s"],
    ["written", bytes(life("host_write_bytes")) + "/s"],
    ["programmed", bytes(Object.values(causes).reduce((a, b) => a + b, 0)) + "/s"],
    ["programmed a byte", now.write_amplification === null ? "–" : now.write_amplification.toFixed(2)],
    ["lines free", number(now.free_lines)],
    ["writes waited", ((now.stall_ns) / 1e6).toFixed(1) + " ms"],
  ];
  if (now.lateness) {
    all.push(["answers late, median", micros(now.lateness.median_ns)]);
    all.push(["… 99th percentile", micros(now.lateness.p99_ns)]);
  }
  tiles(all);
}

// Causes stacked over one another, and what hosts wrote.
function time() {
  const names = [...new Set(history.flatMap((at) => Object.keys(at.causes)))]
    .filter((name) => history.some((at) => at.causes[name] > 0));
  legend("causes", names);
  const [left, top, height] = [70, 10, 180];
  // On a phone as many units as it has, so that letters stay letters.
  const width = Math.min(600, Math.max(240, byId("time").clientWidth - left - 10));
  byId("time").setAttribute("viewBox", `0 0 ${left + width + 10} 220`);
  const sums = history.map((at) => names.reduce((sum, name) => sum + (at.causes[name] ?? 0), 0));
  const most = Math.max(1, ...sums, ...history.map((at) => at.written));
  const x = (index) => left + width * (index + HISTORY - history.length) / (HISTORY - 1);
  const y = (value) => top + height * (1 - value / most);
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(shape("line", { x1: left, x2: left + width, y1: y(most * share), y2: y(most * share) }));
    parts.push(shape("text", { x: left - 8, y: y(most * share) + 4, "text-anchor": "end" }, bytes(most * share)));
  }
  parts.push(shape("text", { x: left, y: 212 }, "2 minutes ago"));
  parts.push(shape("text", { x: left + width, y: 212, "text-anchor": "end" }, "now"));
  let under = history.map(() => 0);
  names.forEach((name, index) => {
    const over = history.map((at, i) => under[i] + (at.causes[name] ?? 0));
    const there = over.map((value, i) => `${x(i)},${y(value)}`);
    const back = under.map((value, i) => `${x(i)},${y(value)}`).reverse();
    const area = shape("polygon", { points: [...there, ...back].join(" ") });
    area.style.fill = color(index);
    parts.push(area);
    under = over;
  });
  const host = history.map((at, i) => `${x(i)},${y(at.written)}`).join(" ");
  parts.push(shape("polyline", { points: host, class: "host" }));
  byId("time").replaceChildren(...parts);
}

function grid(canvas, count) {
  const side = Math.max(4, Math.min(18, Math.floor(Math.sqrt(canvas.clientWidth * 320 / Math.max(1, count)))));
  return { side, columns: Math.max(1, Math.floor(canvas.clientWidth / side)) };
}

function map() {
  const canvas = byId("map");
  const { cells, states } = last;
  const { side, columns } = grid(canvas, cells.length);
  const rows = Math.ceil(cells.length / columns);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = Math.max(1, rows * side) * ratio;
  canvas.style.height = `${rows * side}px`;
  const style = getComputedStyle(document.documentElement);
  const colors = states.map((_, index) => style.getPropertyValue(`--c${index % 8}`));
  const paint = canvas.getContext("2d");
  paint.scale(ratio, ratio);
  cells.forEach(([state, full], index) => {
    const [column, row] = [(index % columns) * side, Math.floor(index / columns) * side];
    paint.globalAlpha = 0.18 + 0.82 * full / 1000;
    paint.fillStyle = colors[state] ?? style.getPropertyValue("--base");
    paint.fillRect(column, row, side - 1, side - 1);
    if (index === chosen) {
      paint.globalAlpha = 1;
      paint.strokeStyle = style.getPropertyValue("--ink");
      paint.lineWidth = 2;
      paint.strokeRect(column, row, side - 1, side - 1);
    }
  });
  tell();
}

function tell() {
  const { cells, states, parts } = last;
  if (chosen < 0 || chosen >= cells.length) return;
  const [state, full, erases, handle] = cells[chosen];
  const what = parts === "zones" ? "written" : "valid";
  const words = [`${parts.slice(0, -1)} ${chosen}: ${states[state] ?? "unknown"}`, `${full / 10} % ${what}`];
  if (erases >= 0) words.push(`${number(erases)} erases`);
  if (handle >= 0) words.push(`handle ${handle}`);
  byId("cell").textContent = words.join(", ");
}

function choose(index) {
  if (!last) return;
  chosen = Math.max(0, Math.min(last.cells.length - 1, index));
  map();
}

function life(stats) {
  const rows = [
    ["capacity", bytes(stats.capacity_bytes)],
    ["hosts read", bytes(stats.life.host_read_bytes)],
    ["hosts wrote", bytes(stats.life.host_write_bytes)],
    ["programmed", bytes(stats.life.programmed_bytes)],
    ["power cycles", number(stats.life.power_cycles)],
    ["of them without a shutdown before", number(stats.life.unsafe_shutdowns)],
    ["reads that could not be answered", number(stats.life.media_errors)],
    ["mean erases of a block", stats.life.mean_erases.toFixed(1)],
    ["of the rated cycles", stats.life.percentage_used.toFixed(2) + " %"],
    ["blocks out of service", number(stats.life.bad_blocks)],
  ];
  byId("life").replaceChildren(...rows.map(([name, value]) => {
    const row = element("tr", "");
    row.append(element("th", name, { scope: "row" }), element("td", value));
    return row;
  }));
}

function say(text, bad) {
  byId("state").textContent = text;
  byId("state").classList.toggle("bad", bad);
}

async function ask() {
  try {
    const answer = await fetch("/live.json");
    if (!answer.ok) return say((await answer.text()).trim(), true);
    const picture = await answer.json();
    const at = performance.now();
    if (before) second(picture.stats, before.stats, (at - before.at) / 1000);
    before = { stats: picture.stats, at };
    last = picture;
    legend("states", picture.states);
    time();
    map();
    life(picture.stats);
    say(`${bytes(picture.stats.capacity_bytes)}, ${number(picture.cells.length)} ${picture.parts}`, false);
  } catch (_) {
    say("nobody answers any more", true);
  }
}

function pause() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
}

function theme(wanted) {
  const root = document.documentElement;
  root.dataset.theme = wanted ?? (root.dataset.theme === "dark" ? "light" : "dark");
  if (last) map();
}

byId("pause").addEventListener("click", pause);
byId("theme").addEventListener("click", () => theme());
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "p") pause();
  if (event.key === "t") theme();
});
byId("map").addEventListener("keydown", (event) => {
  if (!last) return;
  const { columns } = grid(byId("map"), last.cells.length);
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  choose(chosen < 0 ? 0 : chosen + step);
});
byId("map").addEventListener("click", (event) => {
  if (!last) return;
  const { side, columns } = grid(byId("map"), last.cells.length);
  choose(Math.floor(event.offsetY / side) * columns + Math.floor(event.offsetX / side));
});
window.addEventListener("resize", () => { if (last) map(); });
theme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
ask();
setInterval(() => { if (!paused) ask(); }, 1000);
