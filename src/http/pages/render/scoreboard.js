// template=scoreboard: one match fills the picture, several are lines.
//
// Roles: home, home_score, home_logo, home_color, the same of away, clock, status, competition. Items without teams
// show their name and their value.

import { Rows } from "/templates/rows.js";
import { element, fit, flash, moves, picture, put } from "/templates/text.js";

const LINE_REM = 4.6;
const GROWTH_MAX = 1.9;

export class Template {
  #shown;
  #rows;
  #look = ""; // how the rows were fitted

  constructor(shown) {
    this.#shown = shown;
    this.#rows = new Rows(shown.stage, build, this.#write);
  }

  resize() {
    this.#look = "";
  }

  draw() {
    const { list, pager, stage, options, roles } = this.#shown;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const high = stage.clientHeight / rem;
    const one = list.entries.length === 1 || options.limit === 1;
    const entries = pager.window(list.entries, one ? 1 : Math.max(1, Math.floor(high / LINE_REM)));
    const least = pager.turning ? list.entries.length : entries.length;
    const growth = Math.max(1, Math.min(GROWTH_MAX, high / (least * LINE_REM), stage.clientWidth / rem / 60));
    const look = `${one} ${options.size ? 1 : growth.toFixed(3)} ${JSON.stringify(roles)}`;
    if (this.#look !== look) {
      stage.style.setProperty("--fit", options.size ? 1 : growth.toFixed(3));
      stage.style.setProperty("--state", roles.status || roles.clock ? "7.6em" : "0.6em");
      stage.style.setProperty("--meta", roles.competition ? "7.6em" : "0.6em");
      stage.className = one ? "one" : "";
      this.#rows.forget();
    }
    this.#look = look;
    this.#written = [];
    this.#rows.show(entries);
    fit(this.#written);
  }
  #written = [];

  #write = (row, entry, position, news) => {
    const { texts, roles, options } = this.#shown;
    const teams = roles.home || roles.away;
    for (const who of ["home", "away"]) {
      const side = row[who];
      const fallback = teams ? "" : who === "home" ? texts.of(entry, roles.name || "_key") : "";
      put(side.name, texts.of(entry, roles[who]) || fallback);
      side.team.style.setProperty("--team", texts.color(entry, roles[who + "_color"]) || "var(--line)");
      picture(side.picture, texts.image(entry, roles[who + "_logo"]));
      const score =
        texts.of(entry, roles[who + "_score"]) || (!teams && who === "home" ? texts.of(entry, roles.value) : "");
      const before = side.score.textContent;
      if (put(side.score, score) && news && before) cheer(side.score, options);
    }
    const scored = row.home.score.textContent + row.away.score.textContent !== "";
    row.score.classList.toggle("empty", !scored);
    row.score.classList.toggle("alone", !teams);
    const clock = texts.value(entry, roles.clock) === 0 && !scored ? "" : texts.of(entry, roles.clock);
    put(row.clock, clock);
    put(row.status, texts.of(entry, roles.status));
    put(row.meta, texts.of(entry, roles.competition));
    this.#written.push(row.home.name, row.away.name, row.meta, row.status);
  };
}

function build() {
  const row = { element: element("article", "match"), score: element("div", "score") };
  row.meta = element("div", "meta");
  for (const who of ["home", "away"]) {
    const side = {
      team: element("div", "team " + who),
      picture: element("span", "picture"),
      name: element("div", "name"),
      score: element("b"),
    };
    side.name.dir = "auto";
    side.picture.hidden = true;
    side.team.append(side.picture, side.name);
    row[who] = side;
  }
  row.score.append(row.home.score, element("i"), row.away.score);
  row.clock = element("b");
  row.status = element("span");
  const state = element("div", "state");
  state.append(row.clock, row.status);
  row.element.append(row.meta, row.home.team, row.score, row.away.team, state);
  return row;
}

function cheer(target, options) {
  flash(target, options);
  if (options.highlight === "none" || !moves() || !target.animate) return;
  target.animate(
    [
      { transform: "translateY(-0.35em)", opacity: 0 },
      { transform: "none", opacity: 1 },
    ],
    { duration: 450, easing: "cubic-bezier(.2,.9,.2,1)" },
  );
}
