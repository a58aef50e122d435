// A card of the page /operate/{stream}: one item, its numbers large with -1 and +1, and all of its fields behind them.
//
// Invariant: values reach the document as text. What somebody is typing is not written over, and no element that has
// the focus is made anew.

import { element, put } from "/templates/text.js";

const SIDES_MAX = 4;
const NAME_LONG = 14; // letters of the longest word
const VALUE_LONG = 5;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

const own = (object, name) => (Object.prototype.hasOwnProperty.call(object, name) ? object[name] : undefined);
const said = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const isNumber = (value) => typeof value === "number" || (typeof value === "string" && NUMBER.test(value));
export const counted = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

// A time as the clock on the wall says it, with the day where it is another one.
export function time(text) {
  const at = new Date(text);
  const isToday = at.toDateString() === new Date().toDateString();
  const day = isToday ? {} : { day: "numeric", month: "short" };
  return at.toLocaleString([], { hour: "2-digit", minute: "2-digit", ...day });
}

export const since = ({ since, by, until }) => `since ${time(since)} by ${by}${until ? `, until ${time(until)}` : ""}`;

function button(label, className) {
  const made = element("button", className);
  made.type = "button";
  made.textContent = label;
  return made;
}

// JSON of what was typed: a text where a text is shown, otherwise what it can be read as.
function typed(text, before) {
  if (typeof before === "string") return JSON.stringify(text);
  try {
    JSON.parse(text);
    return text;
  } catch (error) {
    return JSON.stringify(text);
  }
}

export class Card {
  seen = false; // it is on the screen
  detail = null; // what the operate API says of the item
  stamp = ""; // of when it was asked
  #key;
  #desk;
  #parts = {};
  #sides = new Map();
  #rows = new Map();
  #item;

  // `desk.press(button, act)` makes acts; `desk.plan()` has everything drawn soon.
  constructor(desk, key) {
    this.#desk = desk;
    this.#key = key;
    this.#build();
  }

  get isOpen() {
    return this.#parts.details.open;
  }

  #build() {
    const card = (this.element = element("article", "item"));
    const parts = this.#parts;
    card.dataset.key = this.#key;
    const head = element("div", "head");
    parts.name = element("h2");
    parts.key = element("span", "key");
    parts.facts = element("span");
    parts.held = element("span", "badge held");
    parts.waits = element("span", "badge waits");
    parts.release = button("", "link release");
    for (const part of [parts.name, parts.key, parts.facts]) part.dir = "auto";
    head.append(parts.name, parts.key, parts.facts, parts.held, parts.waits, parts.release);
    parts.heldBy = element("p", "held-by");
    parts.sides = element("div", "sides");
    parts.details = element("details");
    const summary = element("summary");
    put(summary, "All fields");
    put(parts.key, this.#key);
    put(parts.held, "Held");
    put(parts.waits, "A change waits");
    parts.whole = element("div", "whole");
    parts.hold = this.#actor("Hold item", "hold", "hold");
    parts.take = this.#actor("Take its change", "take", "take");
    parts.resume = this.#actor("Resume this item", "resume", "resume");
    parts.whole.append(parts.hold, parts.take, parts.resume);
    parts.details.append(summary, parts.whole);
    parts.details.addEventListener("toggle", () => this.#desk.plan());
    parts.release.addEventListener("click", () => this.#act(parts.release, "release", `"key":${JSON.stringify(this.#key)}`, "release"));
    card.append(head, parts.heldBy, parts.sides, parts.details);
  }

  #actor(label, verb, name) {
    const made = button(label);
    made.className = name;
    made.addEventListener("click", () => this.#act(made, verb, `"keys":[${JSON.stringify(this.#key)}]`, verb));
    return made;
  }

  #act(by, verb, members, label, what = "") {
    this.#desk.press(by, { verb, body: `{${members}}`, label, what: `${this.#key} ${what || label}` });
  }

  #add(by, field, step) {
    const label = step > 0 ? "+1" : "−1";
    const members = `"key":${JSON.stringify(this.#key)},"field":${JSON.stringify(field)},"by":${step}`;
    this.#act(by, "add", members, label, `${field} ${label}`);
  }

  // Shows the item. `roles` are those of its stream, `chosen` the fields that the address names.
  draw({ item, roles, chosen, held, isFrozen, text }) {
    const { fields } = item;
    this.#item = item;
    const parts = this.#parts;
    const overridden = item.overridden || [];
    const isMatch = isNumber(own(fields, roles.home_score)) && isNumber(own(fields, roles.away_score));
    const name = isMatch ? "" : text(roles.name);
    this.element.setAttribute("aria-label", isMatch ? `${text(roles.home)} – ${text(roles.away)}` : name || this.#key);
    put(parts.name, name === this.#key ? "" : name);
    parts.name.hidden = !parts.name.textContent;
    put(parts.facts, [text(roles.clock), text(roles.status)].filter(Boolean).join(" · "));
    parts.held.hidden = !held;
    parts.heldBy.hidden = !held;
    put(parts.heldBy, held ? `Held ${since(held)}.` : "");
    parts.waits.hidden = !(isFrozen && this.detail && this.detail.waits);
    parts.release.hidden = !overridden.length;
    put(parts.release, `Release ${overridden.length}`);
    parts.release.setAttribute("aria-label", `Release ${counted(overridden.length, "field")} of ${this.#key}`);
    parts.hold.hidden = Boolean(held);
    parts.take.hidden = !isFrozen;
    parts.resume.hidden = !held;
    const sides = chosen.length ? chosen : isMatch ? match(roles, text) : numbers(item);
    this.#drawSides(sides.filter(({ field }) => field in fields));
    if (this.isOpen) this.#drawRows(Object.keys(fields));
  }

  #drawSides(sides) {
    for (const [field, side] of this.#sides) {
      if (sides.some((wanted) => wanted.field === field)) continue;
      side.box.remove();
      this.#sides.delete(field);
    }
    for (const { field, heading } of sides) {
      if (!this.#sides.has(field)) this.#sides.set(field, this.#side(field));
      const side = this.#sides.get(field);
      const label = heading || field;
      put(side.name, label);
      side.name.classList.toggle("long", label.split(/\s+/).some((word) => word.length > NAME_LONG));
      this.#value(side, field);
      side.value.classList.toggle("long", side.shown.textContent.length > VALUE_LONG);
      side.minus.hidden = side.plus.hidden = !isNumber(this.#item.fields[field]);
      side.minus.setAttribute("aria-label", `${label}: minus 1`);
      side.plus.setAttribute("aria-label", `${label}: plus 1`);
    }
    this.#parts.sides.hidden = !sides.length;
  }

  #side(field) {
    const side = { box: element("div", "side"), name: element("span", "name"), ...pair("div") };
    side.name.dir = "auto";
    side.minus = button("−1", "minus");
    side.plus = button("+1", "plus");
    side.minus.addEventListener("click", () => this.#add(side.minus, field, -1));
    side.plus.addEventListener("click", () => this.#add(side.plus, field, 1));
    side.box.dataset.field = field;
    side.box.append(side.name, side.value, side.minus, side.plus);
    this.#parts.sides.append(side.box);
    return side;
  }

  // A value, and beside it what the source says where that is overridden.
  #value({ value, shown, source }, field) {
    const isOver = (this.#item.overridden || []).includes(field);
    const override = isOver && this.detail && own(this.detail.overrides || {}, field);
    put(shown, this.#desk.text(this.#key, field));
    value.classList.toggle("over", isOver);
    source.hidden = !override;
    if (override) put(source, "source" in override ? `source: ${said(override.source)}` : "not in the source");
    return override;
  }

  #drawRows(fields) {
    for (const [field, row] of this.#rows) {
      if (fields.includes(field)) continue;
      row.box.remove();
      this.#rows.delete(field);
    }
    for (const field of fields) {
      if (!this.#rows.has(field)) this.#rows.set(field, this.#row(field));
      const row = this.#rows.get(field);
      const override = this.#value(row, field);
      row.whose.hidden = !override;
      if (override) put(row.whose, `Overridden ${since({ since: override.at, ...override })}.`);
      const text = row.shown.textContent;
      const isTyped = row.input.value !== row.input.defaultValue || row.input === document.activeElement;
      row.input.defaultValue = text;
      if (!isTyped) row.input.value = text;
      row.minus.hidden = row.plus.hidden = !isNumber(this.#item.fields[field]);
      row.release.hidden = !(this.#item.overridden || []).includes(field);
    }
  }

  #row(field) {
    const row = { box: element("div", "field"), label: element("label"), whose: element("p", "whose"), ...pair("p") };
    const form = element("form");
    row.input = element("input");
    row.input.id = `${this.#key} ${field}`;
    row.input.autocomplete = "off";
    row.input.dir = "auto";
    row.label.htmlFor = row.input.id;
    put(row.label, field);
    const show = button("Override");
    show.type = "submit";
    row.minus = button("−1", "minus");
    row.plus = button("+1", "plus");
    row.release = button("Release", "release");
    row.minus.addEventListener("click", () => this.#add(row.minus, field, -1));
    row.plus.addEventListener("click", () => this.#add(row.plus, field, 1));
    const [key, name] = [JSON.stringify(this.#key), JSON.stringify(field)];
    row.release.addEventListener("click", () => this.#act(row.release, "release", `"key":${key},"fields":[${name}]`, "release", `${field} release`));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = typed(row.input.value, this.#item.fields[field]);
      row.input.defaultValue = row.input.value;
      this.#act(show, "override", `"key":${key},"fields":{${name}:${value}}`, "override", `${field} ${row.input.value}`);
    });
    for (const [made, label] of [[show, "Override"], [row.minus, "Minus 1"], [row.plus, "Plus 1"], [row.release, "Release"]]) {
      made.setAttribute("aria-label", `${label}: ${field}`);
    }
    form.append(row.input, show, row.minus, row.plus, row.release);
    row.box.dataset.field = field;
    row.box.append(row.label, row.value, row.whose, form);
    this.#parts.whole.before(row.box);
    return row;
  }
}

function pair(name) {
  const made = { value: element(name, "value"), shown: element("span"), source: element("small") };
  made.shown.dir = "auto";
  made.value.append(made.shown, " ", made.source);
  return made;
}

// The scores of a match, under the names of those who play.
function match(roles, text) {
  return ["home", "away"].map((who) => ({ field: roles[who + "_score"], heading: text(roles[who]) }));
}

// The first numbers of an item, but for what is its key.
function numbers({ key, fields }) {
  const found = Object.keys(fields).filter((field) => isNumber(fields[field]) && said(fields[field]) !== key);
  return found.slice(0, SIDES_MAX).map((field) => ({ field }));
}
