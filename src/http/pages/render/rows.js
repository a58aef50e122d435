// The elements of the entries on screen, one each, in their order.
//
// Invariant: an element is built only if none is free, and written only if its entry, its item or its place changed.

export const counts = { built: 0, written: 0 };

export class Rows {
  #parent;
  #build;
  #write;
  #rows = new Map(); // key -> {element, item, position, …}
  #free = [];

  // build() makes a row, an object with an `element`; write(row, entry, position, news) writes it. `news`: the item of
  // this row changed while it was on screen.
  constructor(parent, build, write) {
    this.#parent = parent;
    this.#build = build;
    this.#write = write;
  }

  get size() {
    return this.#rows.size;
  }

  values() {
    return this.#rows.values();
  }

  // Everything is to be written again.
  forget() {
    for (const row of this.#rows.values()) row.position = -1;
  }

  // Shows these entries and no others.
  show(entries) {
    const wanted = new Set();
    for (const { key } of entries) wanted.add(key);
    for (const [key, row] of this.#rows) {
      if (wanted.has(key)) continue;
      this.#rows.delete(key);
      this.#free.push(row);
      row.element.remove();
    }
    let next = this.#parent.firstChild;
    entries.forEach((entry, position) => {
      const row = this.#of(entry, position);
      if (row.element === next) next = next.nextSibling;
      else this.#parent.insertBefore(row.element, next);
    });
  }

  #of(entry, position) {
    let row = this.#rows.get(entry.key);
    const fresh = !row;
    if (fresh) {
      if (!this.#free.length) counts.built++;
      row = this.#free.pop() || this.#build();
      this.#rows.set(entry.key, row);
    }
    if (fresh || row.item !== entry.item || row.position !== position) {
      const news = !fresh && row.item !== entry.item && row.position >= 0;
      counts.written++;
      this.#write(row, entry, position, news);
      row.item = entry.item;
      row.position = position;
    }
    return row;
  }
}
