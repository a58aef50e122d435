// template=number: large numbers, one for each item, or with `fields` one for each field.

import { Rows } from "/templates/rows.js";
import { fit, measured } from "/templates/fit.js";
import { element, flash, put } from "/templates/text.js";

const TILES_MAX = 12;

export class Template {
  #shown;
  #rows;
  #tiles;
  #roles;

  constructor(shown) {
    this.#shown = shown;
    this.#rows = new Rows(shown.stage, build, this.#write);
  }

  resize() {
    this.#rows.forget();
  }

  draw() {
    const { list, pager, stage, options, roles } = this.#shown;
    const each = Math.max(1, options.fields.length);
    const tall = stage.clientHeight > stage.clientWidth;
    const entries = pager.window(list.entries, Math.max(1, Math.floor(TILES_MAX / each)));
    // A tile is an entry of its own for the rows, with the field that it shows.
    const tiles = entries.flatMap((entry) => {
      if (!options.fields.length)
        return [{ key: entry.key, item: entry.item, entry, field: roles.value || this.#first(entry) }];
      return options.fields.map(({ field, heading }, place) => ({
        key: place + " " + entry.key,
        item: entry.item,
        entry,
        field,
        heading: heading === undefined ? field : heading,
      }));
    });
    const count = tiles.length || 1;
    const across = tall ? Math.ceil(count / 6) : count === 1 ? 1 : count <= 4 ? 2 : count <= 9 ? 3 : 4;
    const shape = [across, roles.value, roles.name, roles.unit].join(" ");
    if (shape !== this.#roles) this.#rows.forget();
    this.#roles = shape;
    stage.style.setProperty("--across", across);
    this.#tiles = tiles;
    this.#rows.show(tiles);
    this.#size(across, Math.ceil(count / across));
  }

  // All numbers are of one size: that at which the widest fits.
  #size(across, down) {
    const { stage } = this.#shown;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const wide = (stage.clientWidth - (across - 1) * rem) / across - 3.2 * rem;
    const high = (stage.clientHeight - (down - 1) * rem) / down - 2 * rem;
    let size = high * 0.56;
    const labels = [];
    for (const row of this.#rows.values()) {
      const width = measured(row.value.textContent, true) + measured(row.unit.textContent, true) * 0.45 + 0.2;
      size = Math.min(size, wide / width);
      labels.push(row.label);
    }
    size = Math.max(size, 1.4 * rem);
    stage.style.setProperty("--number", size.toFixed(1) + "px");
    stage.style.setProperty("--label", Math.max(1.1 * rem, Math.min(size * 0.26, high * 0.16)).toFixed(1) + "px");
    fit(labels);
  }

  #first(entry) {
    const { list, texts } = this.#shown;
    return list.fields.find((field) => texts.isNumber(entry, field)) || list.fields[0] || "";
  }

  #write = (row, tile, position, news) => {
    const { texts, roles, options, list } = this.#shown;
    const { entry, field, heading } = tile;
    const several = list.entries.length > 1 && options.fields.length > 0;
    const title = texts.of(entry, roles.name);
    put(row.label, heading === undefined ? title || entry.key : several && title ? title + " · " + heading : heading);
    put(row.unit, heading === undefined ? texts.of(entry, roles.unit) : "");
    if (put(row.value, texts.of(entry, field, position)) && news) flash(row.element, options);
  };
}

function build() {
  const row = {
    element: element("article", "tile"),
    label: element("div", "label"),
    value: element("b"),
    unit: element("i"),
  };
  const line = element("div", "value");
  row.label.dir = "auto";
  line.append(row.value, row.unit);
  row.element.append(row.label, line);
  return row;
}
