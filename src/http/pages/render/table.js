// template=table: a line for each item, a column for each field.
//
// Without `fields` it has as many columns as fit, those of teams, scores, clock and status first. Without `page` it can be
// scrolled; lines are made as far as somebody looks, 500 at most.
//
// Invariant: all texts of a column are of one size.

import { Rows } from "/templates/rows.js";
import { measured, shrink } from "/templates/fit.js";
import { element, flash, picture, put } from "/templates/text.js";

const ROWS_MAX = 500;
const ROWS_A_FRAME = 20;
const ROWS_AHEAD = 60; // below what is seen
const CANDIDATES_MAX = 40;
const AUTO_EM_MAX = 15; // of a column that nobody asked for
const EM_MAX = 30; // of one that was asked for; a longer text is cut, and no reason to shrink the others
const FIRST = ["home", "home_score", "away_score", "away", "clock", "status"]; // roles whose columns come first
const PAD_EM = 1.1;
const HEADING = 0.84; // their size, and a little
const SWATCH_EM = 1.2;
const GROWTH_MAX = 2.2; // of few lines, to fill the height
const FIT_MIN = 0.55; // of many lines, if all are seen by that
const PAGE_LINES = 8; // that a page has at least, if pages turn
const isColor = (text) => /^#[0-9a-f]{6}$/i.test(text);
const wide = (text, bold) => measured(text, bold) + (isColor(text) ? SWATCH_EM : 0);

export class Template {
  #shown;
  #rows;
  #columns = new Map(); // field -> {field, heading, width, number, json}
  #visible = []; // those of them that are shown
  #table = element("table");
  #frame = element("div", "scroll");
  #cols = element("colgroup");
  #head = element("tr");
  #body = element("tbody");
  #most = 0; // lines so far; grows frame by frame
  #seen = 0; // lines that somebody scrolled over
  #fit = 1;
  #phone = matchMedia("(max-width: 640px)");
  #stale = true; // the layout has to be made anew
  #lines = -1; // for which it was made
  #roles = null; // for which the columns were ordered
  #learned = new WeakSet(); // items that were measured

  constructor(shown) {
    this.#shown = shown;
    const head = element("thead");
    head.append(this.#head);
    this.#table.append(this.#cols, head, this.#body);
    this.#frame.append(this.#table);
    shown.stage.append(this.#frame);
    this.#rows = new Rows(this.#body, () => ({ element: element("tr"), cells: [] }), this.#write);
    for (const { field, heading } of shown.options.fields) this.#column(field, heading);
    const look = ({ target }) => {
      const { scrollTop, scrollHeight } = target;
      const seen = Math.round((scrollTop / scrollHeight) * this.#rows.size);
      if (seen > this.#seen) this.#seen = seen;
      shown.plan();
    };
    shown.stage.addEventListener("scroll", look, { capture: true, passive: true });
  }

  resize() {
    this.#learned = new WeakSet();
    for (const column of this.#columns.values()) column.width = measured(column.heading, false) * HEADING;
    this.#stale = true;
  }

  draw() {
    const { list, pager, options, view, plan } = this.#shown;
    if (!options.fields.length) this.#candidates();
    const all = options.limit || ROWS_MAX;
    const room = this.#room();
    // First what is seen at once, then what lies below, some in each frame: no frame takes long.
    const most = Math.min(all, Math.max(room + 1, this.#most));
    const entries = pager.window(list.entries, room, most);
    this.#learn(entries);
    if (this.#lay(Math.min(all, list.entries.length))) plan();
    this.#table.hidden = !entries.length;
    this.#rows.show(entries);
    if (view.complete && !pager.turning && most < Math.min(all, list.entries.length, this.#seen + room + ROWS_AHEAD)) {
      this.#most = most + ROWS_A_FRAME;
      plan();
    }
  }

  // The columns that nobody asked for: by their roles, then in the order in which their fields were seen.
  #candidates() {
    const { list, roles } = this.#shown;
    for (const field of list.fields.slice(0, CANDIDATES_MAX)) this.#column(field);
    if (this.#roles === roles && this.#ordered === this.#columns.size) return;
    this.#roles = roles;
    for (const role of FIRST) if (list.fields.includes(roles[role])) this.#column(roles[role]);
    const place = (column) => FIRST.findIndex((role) => roles[role] === column.field) >>> 0; // none: after all
    const columns = [...this.#columns.values()].sort((a, b) => place(a) - place(b));
    this.#columns = new Map(columns.map((column) => [column.field, column]));
    this.#learned = new WeakSet(); // the first column is bold
    this.#ordered = columns.length;
    this.#stale = true;
  }
  #ordered = 0;

  #column(field, heading) {
    if (this.#columns.has(field)) return;
    const name = heading === undefined ? (field[0] === "_" ? "" : field) : heading;
    this.#columns.set(field, {
      field,
      heading: name,
      width: measured(name, false) * HEADING,
      number: false,
      json: false,
    });
    this.#stale = true;
  }

  // Widths that the columns want, by what is in these entries.
  #learn(entries) {
    const { texts, options } = this.#shown;
    const auto = !options.fields.length;
    for (const entry of entries) {
      if (this.#learned.has(entry.item)) continue;
      this.#learned.add(entry.item);
      let place = 0;
      for (const column of this.#columns.values()) {
        const value = texts.value(entry, column.field);
        const bold = place++ === 0;
        if (value !== null && typeof value === "object") column.json = true;
        if (typeof value === "number" && !column.number) column.number = this.#stale = true;
        if (auto && column.json) continue;
        const width = texts.image(entry, column.field) ? 1.6 : wide(texts.of(entry, column.field, 0), bold);
        if (width <= column.width) continue;
        column.width = width;
        this.#stale = true;
      }
    }
  }

  // Chooses the columns, gives them their widths, and all text its size. Whether other lines fit now.
  #lay(lines) {
    const { options, pager, stage } = this.#shown;
    if (!this.#stale && lines === this.#lines) return false;
    this.#stale = false;
    this.#lines = lines;
    const before = this.#fit;
    const auto = !options.fields.length;
    let columns = [...this.#columns.values()].filter((column) => !auto || !column.json);
    if (!columns.length) columns = [...this.#columns.values()].slice(0, 1);
    const wanted = (column) => Math.min(column.width, auto ? AUTO_EM_MAX : EM_MAX) + PAD_EM;
    const em = this.#em();
    const fixed = options.size || this.#phone.matches;
    // As large as the lines that must be seen allow, or smaller, if all are seen by that.
    const sized = (count) => stage.clientHeight / ((count + 1.2) * 2 * em);
    const tall = sized(pager.turning && sized(lines) < 1 ? PAGE_LINES : lines);
    const high = fixed || tall < FIT_MIN ? 1 : tall;
    const width = stage.clientWidth / em;
    const needed = (some) => some.reduce((sum, column) => sum + wanted(column), 0);
    const least = auto ? columns.slice(0, FIRST.length) : columns;
    this.#fit = fixed ? 1 : Math.min(high, Math.max(1, Math.min(GROWTH_MAX, width / needed(least))));
    if (auto && !this.#phone.matches && !options.debug) {
      let taken = 0;
      columns = columns.filter((column, place) => (taken += wanted(column)) <= width / this.#fit + 0.01 || !place);
    }
    stage.style.setProperty("--fit", this.#fit.toFixed(3));
    this.#heads(columns);
    this.#share(columns, columns.map(wanted), width / this.#fit);
    this.#frame.style.maxHeight = this.#phone.matches ? "" : this.#height() + "px";
    if (columns.length !== this.#visible.length || columns.some((column, place) => column !== this.#visible[place])) {
      this.#visible = columns;
      this.#rows.forget();
    } else for (const row of this.#rows.values()) row.cells.forEach((cell) => this.#squeeze(cell));
    return this.#fit !== before;
  }

  // Room that is left goes to all columns by their widths; room that is missing is taken from the widest.
  #share(columns, wanted, room) {
    const given = wanted.slice();
    let left = room - given.reduce((sum, width) => sum + width, 0);
    if (left >= 0) wanted.forEach((width, place) => (given[place] += (left * width) / (room - left)));
    for (let widest; left < -0.01; left += 0.5) {
      widest = given.indexOf(Math.max(...given));
      if (given[widest] < 3) break;
      given[widest] -= 0.5;
    }
    const sum = given.reduce((a, b) => a + b, 0);
    columns.forEach((column, place) => {
      const width = wanted[place] - PAD_EM;
      column.shrink = width > given[place] - PAD_EM + 0.02 ? String(shrink((given[place] - PAD_EM) / width)) : "";
      this.#cols.children[place].style.width = (given[place] * 100) / sum + "%";
    });
  }

  #heads(columns) {
    while (this.#cols.children.length > columns.length) this.#cols.lastChild.remove();
    while (this.#cols.children.length < columns.length) this.#cols.append(element("col"));
    while (this.#head.children.length > columns.length) this.#head.lastChild.remove();
    columns.forEach((column, place) => {
      const cell = this.#head.children[place] || this.#head.appendChild(element("th"));
      cell.scope = "col";
      cell.dataset.kind = column.number ? "number" : "string";
      if (cell.dataset.heading === column.heading) return;
      cell.dataset.heading = column.heading;
      const named = this.#shown.options.fields.length > 0;
      const dot = named ? 0 : column.heading.lastIndexOf(".") + 1;
      const [parent, own] = [element("span"), element("bdi")];
      put(parent, column.heading.slice(0, dot));
      put(own, column.heading.slice(dot));
      cell.replaceChildren(parent, own);
    });
  }

  #write = (row, entry, position, news) => {
    const { texts, options } = this.#shown;
    while (row.cells.length > this.#visible.length) row.cells.pop().element.remove();
    this.#visible.forEach((column, place) => {
      const cell = row.cells[place] || (row.cells[place] = this.#cell(row, place));
      const { field } = column;
      const text = texts.of(entry, field, position);
      const image = texts.image(entry, field);
      const color = isColor(text) ? text : "";
      const kind = image
        ? "image"
        : column.number && !Number.isNaN(Number(text.replace(",", ".")))
          ? "number"
          : "string";
      cell.column = column;
      if (cell.element.dataset.label !== column.heading) cell.element.dataset.label = column.heading;
      if (cell.element.dataset.kind !== kind) cell.element.dataset.kind = kind;
      const before = cell.shown;
      cell.shown = image || text;
      if (before === cell.shown) return this.#squeeze(cell);
      if (image || cell.image) picture((cell.image = cell.image || this.#box(cell)), image);
      put(cell.text, image ? "" : text);
      cell.text.style.setProperty("--swatch", color || "transparent");
      cell.text.className = color ? "swatch" : "";
      this.#squeeze(cell);
      if (news && before !== undefined) flash(cell.element, options);
    });
  };

  #cell(row, place) {
    const made = element(place ? "td" : "th");
    if (!place) made.scope = "row";
    const text = element("bdi");
    made.append(text);
    row.element.append(made);
    return { element: made, text, shown: undefined, image: null, column: null };
  }

  #box(cell) {
    const box = element("span", "picture");
    cell.element.prepend(box);
    return box;
  }

  #squeeze({ element: cell, column }) {
    if (cell.dataset.shrink === column.shrink) return;
    cell.dataset.shrink = column.shrink;
    cell.style.setProperty("--shrink", column.shrink || 1);
  }

  // Size of the text in pixels, before it grows.
  #em() {
    return 1.25 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  #line() {
    return 2 * this.#em() * this.#fit;
  }

  // Lines that fit under the headings, whole ones only.
  #room() {
    return Math.max(1, Math.floor((this.#shown.stage.clientHeight - 0.9 * this.#line()) / this.#line()));
  }

  #height() {
    return Math.ceil((this.#room() + 0.9) * this.#line()) + 1;
  }
}
