// template=ticker: a line at the lower edge. It runs if there is more than fits; else it stands.
//
// Invariant: there are as many elements as fill the line, however many items there are.

import { element, flash, put } from "/templates/text.js";

const SPEED_REM = 6.5; // a second
const PIECES_MAX = 200;
const FIELDS_MAX = 3;

export class Template {
  #shown;
  #strip = element("section", "ticker");
  #label = element("h1");
  #window = element("div", "window");
  #belt = element("div", "belt");
  #pieces = []; // {element, text, key} from left to right
  #next = 0; // place in the list of the one that comes next
  #offset = 0;
  #running = false;
  #before = 0;
  #again = true;

  constructor(shown) {
    this.#shown = shown;
    shown.title.hidden = true;
    this.#label.dir = "auto";
    this.#label.hidden = !shown.options.title;
    put(this.#label, shown.options.title);
    this.#window.append(this.#belt);
    this.#strip.append(this.#label, this.#window);
    this.#strip.hidden = true;
    shown.stage.append(this.#strip);
  }

  resize() {
    this.#again = true;
  }

  draw() {
    const { options, list } = this.#shown;
    const entries = options.limit ? list.entries.slice(0, options.limit) : list.entries;
    this.#strip.hidden = !entries.length;
    this.#entries = entries;
    for (const piece of this.#pieces) {
      const entry = list.get(piece.key);
      if (entry && piece.item !== entry.item) this.#write(piece, entry, true);
      if (!entry) piece.gone = true;
    }
    if (this.#pieces.some((piece) => piece.gone)) this.#remove();
    const standing =
      !this.#running &&
      this.#pieces.length === entries.length &&
      this.#pieces.every((piece, place) => piece.key === entries[place].key);
    if (!standing && !this.#running) this.#again = true;
    if (this.#again || this.#width === undefined) this.#lay();
  }
  #entries = [];
  #width;

  // Stands if everything fits, runs if not.
  #lay() {
    this.#again = false;
    this.#width = this.#window.clientWidth;
    this.#rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const few = this.#entries.length <= PIECES_MAX;
    if (!this.#running) {
      this.#clear();
      if (few)
        while (this.#pieces.length < this.#entries.length && this.#belt.scrollWidth <= this.#width) this.#append();
      if (few && this.#pieces.length === this.#entries.length && this.#belt.offsetWidth <= this.#width) return;
      this.#clear();
      this.#running = true;
      this.#offset = this.#width * 0.35;
      this.#fill();
      requestAnimationFrame(this.#step);
    }
  }
  #rem = 16;

  #step = (now) => {
    if (!this.#running) return;
    requestAnimationFrame(this.#step);
    const seconds = Math.min(0.1, (now - this.#before) / 1000);
    this.#before = now;
    this.#offset -= seconds * SPEED_REM * this.#rem * this.#shown.options.speed;
    const first = this.#pieces[0];
    if (first && this.#offset + first.width < 0) {
      this.#offset += first.width;
      this.#recycle();
    }
    this.#belt.style.transform = `translate3d(${this.#offset.toFixed(2)}px,0,0)`;
  };

  // What left the line at its beginning comes again at its end, with another item.
  #recycle() {
    const piece = this.#pieces.shift();
    if (!this.#entries.length) return this.#stop();
    this.#spare.push(piece);
    piece.element.remove();
    this.#fill();
  }
  #spare = [];

  #fill() {
    if (!this.#entries.length) return;
    let wide = this.#offset + this.#pieces.reduce((sum, piece) => sum + piece.width, 0);
    while (wide < this.#width * 1.25 && this.#pieces.length < PIECES_MAX) wide += this.#append().width;
  }

  #append() {
    const piece = this.#spare.pop() || build();
    const entry = this.#entries[this.#next % this.#entries.length];
    this.#next = (this.#next + 1) % this.#entries.length;
    this.#pieces.push(piece);
    this.#belt.append(piece.element);
    this.#write(piece, entry, false);
    return piece;
  }

  #remove() {
    const running = this.#running;
    if (!this.#entries.length) return this.#stop();
    for (const piece of this.#pieces.filter((each) => each.gone)) {
      piece.element.remove();
      this.#spare.push(piece);
    }
    this.#pieces = this.#pieces.filter((each) => !each.gone);
    if (running) this.#fill();
  }

  #stop() {
    this.#running = false;
    this.#clear();
  }

  #clear() {
    for (const piece of this.#pieces) piece.element.remove();
    this.#spare.push(...this.#pieces.splice(0));
    this.#next = 0;
    this.#offset = 0;
    this.#belt.style.transform = "";
  }

  #write(piece, entry, news) {
    const { options } = this.#shown;
    const parts = this.#parts(entry);
    while (piece.parts.length > parts.length) piece.parts.pop().remove();
    parts.forEach(([kind, text], place) => {
      const part = piece.parts[place] || (piece.parts[place] = piece.element.appendChild(element("span")));
      if (part.className !== kind) part.className = kind;
      if (put(part, text) && news) flash(part, options);
    });
    Object.assign(piece, { key: entry.key, item: entry.item, gone: false, width: piece.element.offsetWidth });
  }

  // What is said of an item: [kind, text] each.
  #parts(entry) {
    const { texts, roles, options, list } = this.#shown;
    if (options.text) return [["title", texts.filled(options.text, entry)]];
    const filled = (all) => all.filter(([, text]) => text !== "");
    if (options.fields.length)
      return filled(options.fields.map(({ field }, place) => [place ? "value" : "title", texts.of(entry, field, 0)]));
    const value = (role, kind) => [kind, texts.of(entry, roles[role])];
    if (roles.home && roles.away) {
      const teams = [
        value("home", "title"),
        value("home_score", "score"),
        value("away_score", "score"),
        value("away", "title"),
      ];
      return filled([...teams, value("status", "quiet")]);
    }
    const named = roles.name ? [value("name", "title"), value("value", "value"), value("unit", "quiet")] : [];
    const said = new Set([roles.name, roles.value, roles.unit]);
    for (const field of list.fields) {
      if (named.length >= FIELDS_MAX + 1) break;
      const shown = texts.value(entry, field);
      if (said.has(field) || shown === null || typeof shown === "object" || texts.of(entry, field) === entry.key)
        continue;
      named.push([named.length ? "quiet" : "title", texts.of(entry, field)]);
    }
    const all = filled(named);
    return all.length ? all : [["title", entry.key]];
  }
}

function build() {
  return { element: element("div", "piece"), parts: [], key: "", item: null, gone: false, width: 0 };
}
