// template=table: a line for each item, a column for each field.
//
// Without `fields` it has as many columns as fit. Without `page` it can be scrolled; lines are made as far as somebody
// looks, 500 at most.

import { Rows } from "/templates/rows.js";
import { element, flash, picture, put, shrink } from "/templates/text.js";

const ROWS_MAX = 500;
const ROWS_A_FRAME = 20;
const ROWS_AHEAD = 60; // below what is seen
const CANDIDATES_MAX = 40;
const AUTO_EM_MAX = 15; // of a column that nobody asked for
const PAD_EM = 1.1;
const HEADING = 0.84; // their size, and a little
const SWATCH_EM = 1.2;
const GROWTH_MAX = 1.7; // of few lines, to fill the height
const FAMILY = '"Headgate own", "Barlow Condensed", "Roboto Condensed", "Arial Narrow", sans-serif';

const pen = element("canvas").getContext("2d");
const widths = [500, 700].map((weight) => `${weight} 100px ${FAMILY}`);
// In em. All figures are as wide as the widest.
const measured = (text, bold) => {
  pen.font = widths[bold ? 1 : 0];
  return pen.measureText(text.replace(/\d/g, "0")).width / 100;
};
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
    if (!options.fields.length) for (const field of list.fields.slice(0, CANDIDATES_MAX)) this.#column(field);
    const all = options.limit || ROWS_MAX;
    const room = this.#room();
    // First what is seen at once, then what lies below, some in each frame: no frame takes long.
    const most = Math.min(all, Math.max(room + 1, this.#most));
    const entries = pager.window(list.entries, room, most);
    this.#learn(entries);
    this.#lay(entries.length);
    this.#table.hidden = !entries.length;
    this.#rows.show(entries);
    if (view.complete && !pager.turning && most < Math.min(all, list.entries.length, this.#seen + room + ROWS_AHEAD)) {
      this.#most = most + ROWS_A_FRAME;
      plan();
    }
  }

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

  // Chooses the columns and gives them their widths.
  #lay(lines) {
    const { options, stage } = this.#shown;
    if (!this.#stale && lines === this.#lines) return;
    this.#stale = false;
    this.#lines = lines;
    const auto = !options.fields.length;
    let columns = [...this.#columns.values()].filter((column) => !auto || !column.json);
    if (!columns.length) columns = [...this.#columns.values()].slice(0, 1);
    const wanted = (column) => (auto ? Math.min(column.width, AUTO_EM_MAX) : column.width) + PAD_EM;
    const em = this.#em();
    const room = stage.clientWidth / em;
    if (auto && !this.#phone.matches && !options.debug) {
      let taken = 0;
      columns = columns.filter((column, place) => (taken += wanted(column)) <= room || !place);
    }
    const needed = columns.reduce((sum, column) => sum + wanted(column), 0);
    const high = stage.clientHeight / ((lines + 1.2) * 2 * em);
    this.#fit = options.size || this.#phone.matches ? 1 : Math.max(1, Math.min(GROWTH_MAX, high, room / needed));
    stage.style.setProperty("--fit", this.#fit.toFixed(3));
    this.#heads(columns);
    this.#share(columns, columns.map(wanted), room / this.#fit);
    this.#frame.style.maxHeight = this.#phone.matches ? "" : this.#height() + "px";
    if (columns.length !== this.#visible.length || columns.some((column, place) => column !== this.#visible[place])) {
      this.#visible = columns;
      this.#rows.forget();
    } else for (const row of this.#rows.values()) row.cells.forEach((cell) => this.#squeeze(cell));
  }

  // Room that is left goes to the columns of text; room that is missing is taken from the widest.
  #share(columns, wanted, room) {
    const given = wanted.slice();
    let left = room - given.reduce((sum, width) => sum + width, 0);
    if (left >= 0) {
      const texts = columns.map((column, place) => (column.number ? 0 : given[place]));
      const sum = texts.reduce((a, b) => a + b, 0);
      given.forEach((width, place) => (given[place] += left * (sum ? texts[place] / sum : width / (room - left))));
    }
    for (let widest; left < -0.01; left += 0.5) {
      widest = given.indexOf(Math.max(...given));
      if (given[widest] < 3) break;
      given[widest] -= 0.5;
    }
    const sum = given.reduce((a, b) => a + b, 0);
    columns.forEach((column, place) => {
      column.given = given[place] - PAD_EM;
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
    return { element: made, text, shown: undefined, image: null, column: null, bold: !place };
  }

  #box(cell) {
    const box = element("span", "picture");
    cell.element.prepend(box);
    return box;
  }

  #squeeze({ element: cell, shown, column, bold }) {
    const width = column && column.given ? wide(shown, bold) : 0;
    const ratio = width > column.given + 0.02 ? String(shrink(column.given / width)) : "";
    if (cell.dataset.shrink === ratio) return;
    cell.dataset.shrink = ratio;
    cell.style.setProperty("--shrink", ratio || 1);
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
