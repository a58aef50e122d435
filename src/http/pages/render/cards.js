// template=cards: a card for each item: its image, its title, and its other fields as lines.

import { Rows } from "/templates/rows.js";
import { fit, fitNames, putName } from "/templates/fit.js";
import { element, flash, picture, put } from "/templates/text.js";

const LINES_MAX = 5;
const WIDTH_EM = 15;
const GAP_EM = 0.9;
const GROWTH_MAX = 2.4;
const STRETCH_MAX = 1.25;

export class Template {
  #shown;
  #rows;
  #state = "";
  #written = [];
  #titles = [];
  #images = false; // some item has one

  constructor(shown) {
    this.#shown = shown;
    this.#rows = new Rows(shown.stage, build, this.#write);
  }

  resize() {
    this.#state = "";
  }

  draw() {
    const { list, pager, stage, options, roles, texts } = this.#shown;
    this.#images = this.#images || list.entries.slice(0, 50).some((entry) => texts.image(entry, this.#image()));
    const lines = this.#lines(list.entries[0]);
    const em = 1.2 * parseFloat(getComputedStyle(document.documentElement).fontSize);
    const height = 4.2 + lines.length * 1.55 + (this.#images ? 5.4 : 0) + (roles.subtitle ? 1.2 : 0);
    const width = Math.min(WIDTH_EM, stage.clientWidth / em);
    const fits = (scale) => [
      Math.max(1, Math.floor((stage.clientWidth / em / scale + GAP_EM) / (width + GAP_EM))),
      Math.max(1, Math.floor((stage.clientHeight / em / scale + GAP_EM) / (height + GAP_EM))),
    ];
    let scale = 1;
    if (!options.size) {
      const many = Math.min(options.limit || list.entries.length, list.entries.length, fits(1)[0] * fits(1)[1]);
      for (let more = GROWTH_MAX; more > 1 && scale === 1; more -= 0.05) {
        const [across, down] = fits(more);
        if (
          across * down >= many &&
          (height * down + GAP_EM * (down - 1)) * more * em <= stage.clientHeight &&
          width * more * em <= stage.clientWidth
        )
          scale = more;
      }
    }
    const [across, down] = fits(scale);
    const entries = pager.window(list.entries, across * down);
    stage.style.setProperty("--fit", scale.toFixed(2));
    stage.style.setProperty("--across", Math.min(across, entries.length) || 1);
    stage.style.setProperty("--high", height + "em");
    // Full pages fill the height, where that is not far.
    const used = (height * down + GAP_EM * (down - 1)) * scale * em;
    const full = entries.length > across * (down - 1) && stage.clientHeight < used * STRETCH_MAX;
    stage.style.alignContent = full ? "stretch" : "start";
    const state = JSON.stringify([roles, lines, scale, across]);
    if (state !== this.#state) this.#rows.forget();
    this.#state = state;
    this.#written = [];
    this.#titles = [];
    this.#rows.show(entries);
    fit(this.#written);
    if (this.#titles.length) fitNames(this.#titles, 1);
  }

  #image() {
    return this.#shown.roles.image;
  }

  // What stands under the title: [field of the label or null, label, field of the value].
  #lines(entry) {
    const { options, roles, list, texts } = this.#shown;
    const last = (field) => field.slice(field.lastIndexOf(".") + 1);
    if (options.fields.length)
      return options.fields.map(({ field, heading }) => [null, heading === undefined ? last(field) : heading, field]);
    const lines = [];
    for (const who of ["home", "away"]) if (roles[who]) lines.push([roles[who], "", roles[who + "_score"]]);
    const used = new Set([
      roles.name || roles.competition,
      roles.subtitle,
      this.#image(),
      ...Object.entries(roles)
        .filter(([role]) => /^(home|away)/.test(role))
        .map(([, field]) => field),
    ]);
    for (const field of list.fields) {
      if (lines.length >= LINES_MAX) break;
      const value = entry && texts.value(entry, field);
      if (
        used.has(field) ||
        (value && typeof value === "object") ||
        list.images.has(field) ||
        (entry && (texts.of(entry, field) === entry.key || texts.color(entry, field)))
      )
        continue;
      lines.push([null, last(field), field]);
    }
    return lines;
  }

  #write = (row, entry, position, news) => {
    const { texts, roles, options, list } = this.#shown;
    picture(row.picture, texts.image(entry, this.#image()));
    putName(row.title, texts.of(entry, roles.name) || texts.of(entry, roles.competition) || entry.key);
    put(row.subtitle, texts.of(entry, roles.subtitle));
    row.subtitle.hidden = !roles.subtitle;
    const lines = this.#lines(list.entries[0]);
    while (row.lines.length > lines.length) row.lines.pop().line.remove();
    lines.forEach(([from, label, field], place) => {
      const made = row.lines[place] || (row.lines[place] = line(row.body));
      put(made.label, from ? texts.of(entry, from) : label);
      made.label.className = from ? "said" : "";
      if (put(made.value, texts.of(entry, field, position)) && news) flash(made.line, options);
      this.#written.push(made.value);
    });
    this.#written.push(row.subtitle);
    this.#titles.push({ target: row.title });
  };
}

function build() {
  const row = {
    element: element("article", "card"),
    picture: element("span", "picture"),
    title: element("h2"),
    subtitle: element("p"),
    body: element("div", "lines"),
    lines: [],
  };
  row.title.dir = row.subtitle.dir = "auto";
  row.element.append(row.picture, row.title, row.subtitle, row.body);
  return row;
}

function line(body) {
  const made = { line: element("div"), label: element("span"), value: element("b") };
  made.label.dir = made.value.dir = "auto";
  made.line.append(made.label, made.value);
  body.append(made.line);
  return made;
}
