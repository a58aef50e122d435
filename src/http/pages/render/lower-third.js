// template=lower-third: two lines over a picture, or a match. Of several items the first, or with `page` one after the
// other.

import { fit, fitNames } from "/templates/fit.js";
import { element, flash, moves, picture, put } from "/templates/text.js";

export class Template {
  #shown;
  #key = null;
  #item;
  #roles;
  #box = element("section", "third");
  #picture = element("span", "picture");
  #title = element("div", "name");
  #subtitle = element("div", "more");
  #home = { name: element("span"), score: element("b") };
  #away = { name: element("span"), score: element("b") };
  #match = element("div", "name match");

  constructor(shown) {
    this.#shown = shown;
    const lines = element("div", "texts");
    for (const each of [this.#title, this.#subtitle, this.#home.name, this.#away.name]) each.dir = "auto";
    this.#match.append(this.#home.name, this.#home.score, element("i"), this.#away.score, this.#away.name);
    lines.append(this.#title, this.#match, this.#subtitle);
    this.#picture.hidden = true;
    this.#box.append(this.#picture, lines);
    this.#box.hidden = true;
    shown.stage.append(this.#box);
  }

  resize() {
    this.#item = undefined;
  }

  draw() {
    const { list, pager, roles } = this.#shown;
    const [entry] = pager.window(list.entries, 1);
    this.#box.hidden = !entry;
    if (!entry) return void (this.#key = null);
    const other = entry.key !== this.#key;
    if (!other && entry.item === this.#item && roles === this.#roles) return;
    this.#key = entry.key;
    this.#item = entry.item;
    this.#roles = roles;
    this.#write(entry, !other);
    if (other && moves() && this.#box.animate) {
      const from = { clipPath: "inset(0 100% 0 0)", transform: "translateX(-1.5rem)" };
      this.#box.animate([from, { clipPath: "inset(0 0 0 0)", transform: "none" }], {
        duration: 650,
        easing: "cubic-bezier(.2,.9,.2,1)",
      });
    }
  }

  #write(entry, news) {
    const { texts, roles, options } = this.#shown;
    const match = roles.home && roles.away && !options.text && !options.fields.length;
    const [first, ...rest] = options.fields.map(({ field }) => texts.of(entry, field, 0));
    const filled = options.text && texts.filled(options.text, entry).split("|");
    const title = filled ? filled[0] : options.fields.length ? first : texts.of(entry, roles.name) || entry.key;
    const more = filled
      ? filled.slice(1).join(" ")
      : options.fields.length
        ? rest.filter(Boolean).join("  ")
        : match
          ? state(texts, entry, roles)
          : texts.of(entry, roles.subtitle) || texts.of(entry, roles.value);
    this.#match.hidden = !match;
    this.#title.hidden = !!match;
    if (match) {
      for (const [who, side] of [
        ["home", this.#home],
        ["away", this.#away],
      ]) {
        put(side.name, texts.of(entry, roles[who]));
        const score = texts.of(entry, roles[who + "_score"]);
        if (put(side.score, score) && news) flash(side.score, options);
        side.score.hidden = !score;
      }
      this.#match.classList.toggle("empty", this.#home.score.hidden && this.#away.score.hidden);
    } else if (put(this.#title, title.trim()) && news) flash(this.#title, options);
    if (put(this.#subtitle, more.trim()) && news) flash(this.#subtitle, options);
    this.#subtitle.hidden = !more.trim();
    picture(this.#picture, texts.image(entry, roles.image));
    fit([this.#subtitle]);
    fitNames((match ? [this.#home.name, this.#away.name] : [this.#title]).map((target) => ({ target })), 0);
  }
}

// "67 2nd half", "Half-time".
function state(texts, entry, roles) {
  const played = texts.of(entry, roles.home_score) + texts.of(entry, roles.away_score) !== "";
  const clock = texts.value(entry, roles.clock) === 0 && !played ? "" : texts.of(entry, roles.clock);
  return [clock, texts.of(entry, roles.status)].filter(Boolean).join("  ");
}
