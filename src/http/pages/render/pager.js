// Pages that turn: which entries are on screen, and the dots that say where.
//
// Invariant: without `page=` nothing turns, and the first entries are those that are seen.

import { element, moves } from "/templates/text.js";

const DOTS_MAX = 16;

export class Pager {
  #options;
  #parts;
  #turned;
  #page = 0;
  #pages = 1;
  #timer = 0;

  constructor(options, parts, turned) {
    this.#options = options;
    this.#parts = parts;
    this.#turned = turned;
  }

  get turning() {
    return this.#options.page > 0;
  }

  // The entries on screen, where `room` of them fit; `all`: how many there may be without pages.
  window(entries, room, all = room) {
    const { limit } = this.#options;
    const most = limit ? Math.min(limit, entries.length) : entries.length;
    if (!this.turning) return entries.slice(0, Math.min(most, limit ? Math.max(all, room) : all));
    const size = Math.max(1, room);
    this.#pages = Math.max(1, Math.ceil(most / size));
    this.#page = Math.min(this.#page, this.#pages - 1);
    this.#wind();
    this.#dot();
    return entries.slice(this.#page * size, Math.min(most, (this.#page + 1) * size));
  }

  #wind() {
    if (this.#pages > 1 && !this.#timer) this.#timer = setInterval(this.#turn, this.#options.page);
    if (this.#pages < 2 && this.#timer) {
      clearInterval(this.#timer);
      this.#timer = 0;
    }
  }

  #turn = () => {
    this.#page = (this.#page + 1) % this.#pages;
    this.#turned();
    if (moves()) this.#parts.stage.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 350, easing: "ease-out" });
  };

  #dot() {
    const { dots } = this.#parts;
    const many = this.#pages > DOTS_MAX;
    const wanted = this.#pages < 2 ? 0 : many ? 1 : this.#pages;
    dots.hidden = !wanted;
    dots.className = many ? "bar" : "";
    while (dots.children.length > wanted) dots.lastChild.remove();
    while (dots.children.length < wanted) dots.append(element("i"));
    [...dots.children].forEach((dot, place) => {
      dot.className = !many && place === this.#page ? "now" : "";
      dot.style.transform = many ? `scaleX(${(this.#page + 1) / this.#pages})` : "";
    });
  }
}
