// Asks once a second what the drive, or the run on it, does and draws it. Nothing here tells
// either anything.
"use strict";

const HISTORY = 120;
const byId = (id) => document.getElementById(id);
let history = []; // moments, with all that was counted up to each
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
const seconds = (count) => count.toFixed(count < 10 ? 2 : 0) + " s";

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

// What a served drive had done at a second of this page's clock.
function moment(stats, at) {
  const causes = {};
  for (const [name, pages] of Object.entries(stats.programmed_pages)) {
    causes[name] = pages * stats.programmed_page_bytes;
  }
  const { read_commands, write_commands, host_read_bytes, host_write_bytes } = stats.life;
  return { at, reads: read_commands, writes: write_commands, read: host_read_bytes, written: host_write_bytes, causes };
}

// The same of a run, at a second of its virtual time.
const momentOfRun = (told) => ({
  at: told.at_ns / 1e9, ops: told.ops, waited: told.latency_sum_ns,
  read: told.read_bytes, written: told.write_bytes, causes: told.programmed_bytes,
});

// What was done a second between each moment and the one before it.
function rates() {
  return history.slice(1).flatMap((now, index) => {
    const then = history[index];
    const span = now.at - then.at;
    if (span <= 0) return [];
    const a = (name) => grown(now[name], then[name]) / span;
    const causes = {};
    for (const [name, bytes] of Object.entries(now.causes)) {
      causes[name] = grown(bytes, then.causes[name] ?? 0) / span;
    }
    return [{
      from: then.at, to: now.at, reads: a("reads"), writes: a("writes"), ops: a("ops"),
      read: a("read"), written: a("written"), causes,
      latency: now.ops > then.ops ? (now.waited - then.waited) / (now.ops - then.ops) : null,
    }];
  });
}

function now(all, stats, run) {
  const at = all[all.length - 1];
  const shown = run ? [["requests", number(at.ops) + " /s"]] : [["reads", number(at.reads) + " /s"]];
  shown.push(["read", bytes(at.read) + "/s"]);
  if (!run) shown.push(["writes", number(at.writes) + " /s"]);
  shown.push(
    ["written", bytes(at.written) + "/s"],
    ["programmed", bytes(Object.values(at.causes).reduce((a, b) => a + b, 0)) + "/s"],
    ["programmed a byte", stats.write_amplification === null ? "–" : stats.write_amplification.toFixed(2)],
    ["lines free", number(stats.free_lines)],
    ["writes waited", (stats.stall_ns / 1e6).toFixed(1) + " ms"],
  );
  if (stats.lateness) {
    shown.push(["answers late, median", micros(stats.lateness.median_ns)]);
    shown.push(["… 99th percentile", micros(stats.lateness.p99_ns)]);
  }
  if (run) {
    shown.push(["latency, median", micros(run.latency_ns.p50)]);
    shown.push(["… 99th percentile", micros(run.latency_ns.p99)]);
    shown.push(["… 99.9th percentile", micros(run.latency_ns.p99_9)]);
    shown.push(["… longest", micros(run.latency_ns.max)]);
  }
  tiles(shown);
}

// Axes of a chart up to `most`, over the time from `first` to `last`, and where things are in it.
function axes(id, most, [first, last], said, names) {
  const [left, top, height] = [70, 10, 180];
  // On a phone as many units as it has, so that letters stay letters.
  const width = Math.min(600, Math.max(240, byId(id).clientWidth - left - 10));
  byId(id).setAttribute("viewBox", `0 0 ${left + width + 10} 220`);
  const x = (at) => left + width * (at - first) / Math.max(1e-9, last - first);
  const y = (value) => top + height * (1 - value / most);
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(shape("line", { x1: left, x2: left + width, y1: y(most * share), y2: y(most * share) }));
    parts.push(shape("text", { x: left - 8, y: y(most * share) + 4, "text-anchor": "end" }, said(most * share)));
  }
  parts.push(shape("text", { x: left, y: 212 }, names[0]));
  parts.push(shape("text", { x: left + width, y: 212, "text-anchor": "end" }, names[1]));
  return { x, y, parts };
}

// Causes stacked over one another, and what hosts wrote.
function time(all, span, ends) {
  const names = [...new Set(all.flatMap((at) => Object.keys(at.causes)))]
    .filter((name) => all.some((at) => at.causes[name] > 0));
  legend("causes", names);
  const sums = all.map((at) => names.reduce((sum, name) => sum + (at.causes[name] ?? 0), 0));
  const most = Math.max(1, ...sums, ...all.map((at) => at.written));
  const { x, y, parts } = axes("time", most, span, bytes, ends);
  // A rate holds from the moment before to its own.
  const steps = (values) => all.flatMap((at, i) => [`${x(at.from)},${y(values[i])}`, `${x(at.to)},${y(values[i])}`]);
  let under = all.map(() => 0);
  names.forEach((name, index) => {
    const over = all.map((at, i) => under[i] + (at.causes[name] ?? 0));
    const area = shape("polygon", { points: [...steps(over), ...steps(under).reverse()].join(" ") });
    area.style.fill = color(index);
    parts.push(area);
    under = over;
  });
  parts.push(shape("polyline", { points: steps(all.map((at) => at.written)).join(" "), class: "host" }));
  byId("time").replaceChildren(...parts);
}

// The mean latency of what was answered between two moments.
function latency(all, span, ends) {
  const answered = all.filter((at) => at.latency !== null);
  const most = Math.max(1, ...answered.map((at) => at.latency));
  const { x, y, parts } = axes("latency", most, span, micros, ends);
  const points = answered.flatMap((at) => [`${x(at.from)},${y(at.latency)}`, `${x(at.to)},${y(at.latency)}`]);
  parts.push(shape("polyline", { points: points.join(" "), class: "host" }));
  byId("latency").replaceChildren(...parts);
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
  const [state, full, erases, handle, age] = cells[chosen];
  const what = parts === "zones" ? "written" : "valid";
  const words = [`${parts.slice(0, -1)} ${chosen}: ${states[state] ?? "unknown"}`, `${full / 10} % ${what}`];
  if (erases >= 0) words.push(`${number(erases)} erases`);
  if (handle >= 0) words.push(`handle ${handle}`);
  if (age >= 0) words.push(`${number(age)} programs since it was closed`);
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

function draw() {
  const { stats, run, states } = last;
  const all = rates();
  const end = history[history.length - 1].at;
  const span = run ? [0, end] : [end - HISTORY, end];
  const ends = run ? ["first request", `after ${seconds(end)}`] : ["2 minutes ago", "now"];
  if (all.length > 0) now(all, stats, run);
  legend("states", states);
  time(all, span, ends);
  if (run) latency(all, span, ends);
  map();
  life(stats);
}

// What the page says of a run and not of a drive that is served.
function ofRun({ stack, workload, done, moments }) {
  const { ops, at_ns } = moments[moments.length - 1];
  const title = `${stack}, live`;
  document.title = title;
  byId("title").textContent = title;
  byId("now-title").textContent = "A second of virtual time";
  byId("time-title").textContent = "Since the first request";
  byId("waiting").hidden = false;
  byId("report").hidden = !done;
  const far = `${workload}: ${number(ops)} requests in ${seconds(at_ns / 1e9)} of virtual time`;
  say(done ? `${far}; done` : far, false);
}

async function ask() {
  try {
    const answer = await fetch("/live.json");
    if (!answer.ok) return say((await answer.text()).trim(), true);
    last = await answer.json();
    const { stats, run, cells, parts } = last;
    if (run) {
      history = run.moments.map(momentOfRun);
      ofRun(run);
    } else {
      history.push(moment(stats, performance.now() / 1000));
      history = history.slice(-HISTORY - 1);
      say(`${bytes(stats.capacity_bytes)}, ${number(cells.length)} ${parts}`, false);
    }
    draw();
  } catch (_) {
    say("the server no longer responds", true);
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
