// The items that are shown: those that `key` and `where` choose, in the order of `sort`, kept in order as they change.
//
// Invariant: a part of a snapshot and a change cost as many steps as they have items, not as many as the stream has.

import { isImage, isImageName } from "/templates/roles.js";

const own = (fields, field) => (Object.prototype.hasOwnProperty.call(fields, field) ? fields[field] : undefined);

export class List {
  entries = []; // {key, item, ranks} in order
  fields = []; // names, in the order first seen
  images = new Set(); // those of them that hold an image in some item, or are named like one
  #known = new Set();
  #byKey = new Map();
  #view;
  #options;
  #collator;

  constructor(view, options) {
    this.#view = view;
    this.#options = options;
    this.#collator = new Intl.Collator(options.lang || "en", { numeric: true });
    for (const [key, item] of view) this.#put(key, item);
  }

  get(key) {
    return this.#byKey.get(key);
  }

  // Takes what a "change" of the stream says.
  apply({ updated, removed }) {
    for (const key of removed) this.#drop(this.#byKey.get(key));
    for (const { key } of updated) if (this.#view.has(key)) this.#put(key, this.#view.get(key));
  }

  #put(key, item) {
    const before = this.#byKey.get(key);
    if (!this.#chosen(key, item.fields)) return this.#drop(before);
    for (const field of Object.keys(item.fields)) {
      if (isImage(item.fields[field])) this.images.add(field);
      if (this.#known.has(field)) continue;
      this.#known.add(field);
      this.fields.push(field);
      if (isImageName(field)) this.images.add(field);
    }
    const entry = { key, item, ranks: this.#options.sort.map(({ field }) => this.#rank(key, item, field)) };
    if (before && before.ranks.every((rank, place) => rank === entry.ranks[place])) {
      before.item = item;
      return;
    }
    this.#drop(before);
    this.#byKey.set(key, entry);
    this.entries.splice(this.#place(entry), 0, entry);
  }

  #drop(entry) {
    if (!entry) return;
    this.entries.splice(this.#place(entry), 1);
    this.#byKey.delete(entry.key);
  }

  // Where an entry is, or belongs.
  #place(entry) {
    let from = 0;
    let to = this.entries.length;
    if (to && this.#compare(this.entries[to - 1], entry) < 0) return to;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#compare(this.entries[middle], entry) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #chosen(key, fields) {
    const { key: keys, where } = this.#options;
    if (keys.length && !keys.includes(key)) return false;
    return where.every(({ field, values, not }) => {
      const text = field === "_key" ? key : this.#view.text(key, field);
      return values.includes(text) !== not;
    });
  }

  // What an item is ordered by: a number, a text, or undefined, which comes last.
  #rank(key, item, field) {
    if (field === "_key") return key;
    if (field === "_updated_at") return item.updated_at;
    const value = own(item.fields, field);
    if (typeof value === "number") return value;
    return value === undefined || value === null || value === "" ? undefined : this.#view.text(key, field);
  }

  // Numbers before texts, absent ones last, whichever the direction; then the key, so that no two are equal.
  #compare(a, b) {
    const { sort, key: keys } = this.#options;
    for (let place = 0; place < sort.length; place++) {
      const [one, two] = [a.ranks[place], b.ranks[place]];
      if (one === two) continue;
      if (one === undefined) return 1;
      if (two === undefined) return -1;
      const [first, second] = [typeof one === "number", typeof two === "number"];
      if (first !== second) return first ? -1 : 1;
      const order = first ? one - two : this.#collator.compare(one, two);
      if (order) return sort[place].down ? -order : order;
    }
    // Keys that the address lists come in its order.
    if (keys.length && !sort.length) return keys.indexOf(a.key) - keys.indexOf(b.key);
    return this.#collator.compare(a.key, b.key) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
  }
}
