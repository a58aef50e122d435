// The page /render/{stream}#READ_KEY: the items of a stream as a table that follows the stream.
//
// Invariant: whatever the items hold reaches the document as text only.

import { connect } from "/headgate.js";

const ROWS_MAX = 500;
const COLUMNS_MAX = 200;
const CHARS_MAX = 1000;
const FLASH_MS = 1600;

const element = (id) => document.getElementById(id);
const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return text;
  }
};
const name = decoded(location.pathname.slice(location.pathname.indexOf("/render/") + "/render/".length));
const key = decoded(location.hash.slice(1));
const still = matchMedia("(prefers-reduced-motion: reduce)");
const headings = document.querySelector("#table thead tr");
const body = document.querySelector("#table tbody");

const columns = new Map(); // field name -> {place, heading}
const rows = new Map(); // item key -> {element, cells, fields}
const visible = new WeakSet(); // elements of the rows on screen; others need no flash
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) visible[isIntersecting ? "add" : "delete"](target);
});
const dirty = new Set(); // keys of items that changed since the last frame
let rebuild = true;
let frame = 0;
let live;
let view;

element("name").textContent = name;
document.title = name + " · Headgate";
document.documentElement.classList.toggle("transparent", new URLSearchParams(location.search).has("transparent"));
addEventListener("hashchange", () => location.reload());

if (!key) notice("This page needs a read key.\nPut it at the end of the address, after a #:\n" + location.pathname + "#rk_live_…");
else if (/^ik_/.test(key)) notice("The key in the address is an ingest key, which can only send.\nA read key is needed; it begins with rk_live_.");
else start();

function start() {
  live = connect({ streams: [name], key, maxRate: 10 });
  view = live.stream(name);
  live.addEventListener("state", describe);
  view.addEventListener("stale", describe);
  view.addEventListener("fresh", describe);
  view.addEventListener("change", ({ detail }) => {
    for (const gone of detail.removed) {
      if (rows.has(gone)) drop(rows.get(gone));
      rows.delete(gone);
    }
    if (detail.snapshot) rebuild = true;
    else for (const item of detail.updated) dirty.add(item.key);
    plan();
  });
  plan();
  describe();
}

function plan() {
  frame = frame || requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  if (rebuild) {
    rebuild = false;
    for (const row of rows.values()) drop(row);
    rows.clear();
    columns.clear();
    dirty.clear();
    headings.replaceChildren(heading("key"));
    fill(false);
  } else {
    for (const key of dirty) if (rows.has(key)) write(rows.get(key), view.get(key), true);
    dirty.clear();
    fill(true);
  }
  for (const row of rows.values()) pad(row);
  const total = view.size.toLocaleString("en");
  element("count").textContent = view.complete ? total + (view.size === 1 ? " item" : " items") : "";
  element("table").hidden = rows.size === 0;
  const limits = [];
  if (rows.size < view.size) limits.push(`The first ${ROWS_MAX} of ${total} items are shown.`);
  if (columns.size >= COLUMNS_MAX) limits.push(`The first ${COLUMNS_MAX} fields are shown.`);
  if (!view.size && view.complete) limits.push("No items yet.");
  element("more").textContent = limits.join(" ");
  element("more").hidden = !limits.length;
}

// Gives rows to items that have none, as far as there is room.
function fill(flash) {
  if (rows.size >= Math.min(ROWS_MAX, view.size)) return;
  const added = document.createDocumentFragment();
  for (const [key, item] of view) {
    if (rows.size >= ROWS_MAX) break;
    if (rows.has(key)) continue;
    const row = { element: document.createElement("tr"), cells: [], fields: {} };
    const first = document.createElement("th");
    first.scope = "row";
    first.title = clipped(key);
    first.append(text(key));
    row.element.append(first);
    rows.set(key, row);
    write(row, item, false);
    added.append(row.element);
    watcher.observe(row.element);
    if (flash && rows.size < ROWS_MAX / 5) [row.element, first].forEach(blink);
  }
  body.append(added);
}

function write(row, item, flash) {
  for (const field of Object.keys(item.fields)) {
    if (columns.has(field) || columns.size >= COLUMNS_MAX) continue;
    columns.set(field, { place: columns.size, heading: heading(field) });
    headings.append(columns.get(field).heading);
  }
  pad(row);
  for (const [field, { place, heading }] of columns) {
    const value = own(item.fields, field);
    const before = own(row.fields, field);
    if (value === before || JSON.stringify(value) === JSON.stringify(before)) continue;
    show(row.cells[place], value);
    if (typeof value === "number") heading.dataset.kind = "number";
    if (flash && visible.has(row.element)) blink(row.cells[place]);
  }
  row.fields = item.fields;
}

function drop(row) {
  watcher.unobserve(row.element);
  row.element.remove();
}

// Gives a row the cells of columns that came after it.
function pad(row) {
  if (row.cells.length === columns.size) return;
  for (const field of [...columns.keys()].slice(row.cells.length)) {
    const cell = document.createElement("td");
    cell.dataset.label = clipped(field);
    cell.dataset.kind = "none";
    row.cells.push(cell);
    row.element.append(cell);
  }
}

function heading(field) {
  const cell = document.createElement("th");
  const dot = field.lastIndexOf(".") + 1;
  const parent = document.createElement("span");
  parent.textContent = clipped(field.slice(0, dot));
  cell.scope = "col";
  cell.title = clipped(field);
  cell.append(parent, text(field.slice(dot)));
  return cell;
}

function show(cell, value) {
  const kind = value === undefined ? "none" : value === null ? "null" : typeof value;
  const shown = kind === "none" ? "" : kind === "null" ? "–" : kind === "string" ? value : JSON.stringify(value);
  cell.dataset.kind = kind === "object" ? "json" : kind;
  cell.title = kind === "none" ? "" : clipped(shown);
  cell.replaceChildren(text(shown));
  if (/^#[0-9a-f]{6}$/i.test(shown)) {
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.background = shown;
    cell.firstChild.prepend(swatch);
  }
}

// Isolated, so that right-to-left text turns nothing around but itself.
function text(value) {
  const part = document.createElement("bdi");
  part.textContent = clipped(value);
  return part;
}

function clipped(value) {
  return value.length > CHARS_MAX ? value.slice(0, CHARS_MAX) + "…" : value;
}

function own(fields, field) {
  return Object.prototype.hasOwnProperty.call(fields, field) ? fields[field] : undefined;
}

function blink(target) {
  if (still.matches || document.hidden) return;
  for (const running of target.getAnimations()) running.cancel();
  target.animate({ backgroundColor: "var(--flash)", offset: 0 }, { duration: FLASH_MS, easing: "ease-out" });
}

function describe() {
  const stale = live.state === "live" && view.stale && view.complete;
  const state = stale ? "stale" : live.state;
  const words = { connecting: "connecting", live: "live", stale: "no new data", offline: "offline, reconnecting", refused: "refused" };
  element("state").textContent = words[state];
  element("state").dataset.state = state;
  element("state").title = live.reason;
  document.querySelector("header").classList.toggle("shown", state !== "live");
  if (live.state === "refused") notice(`The key or the stream was refused: ${live.reason}\nCheck the key after the # in the address. The page keeps trying.`);
  else element("notice").hidden = true;
}

function notice(sentence) {
  element("notice").textContent = sentence;
  element("notice").hidden = false;
}
