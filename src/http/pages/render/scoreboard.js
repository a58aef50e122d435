// template=scoreboard: one match fills the picture, several are lines.
//
// Roles: home, home_score, home_logo, home_color, the same of away, clock, status, competition. Items without teams
// show their name and their value.

import { Rows } from "/templates/rows.js";
import { fit, fitNames, measured, putName } from "/templates/fit.js";
import { element, flash, moves, picture, put } from "/templates/text.js";

const LINE_REM = 4.6;
const GROWTH_MAX = 1.9;
const SCORE_SHRINK_MIN = 0.3;
const EDGE_PAD = 2.3;
const EDGE_MAX = 12;
const META_EM = 7.6; // a competition shrinks and is cut before it takes room from names
const ONE_LINES = 3; // of a name that has a picture of its own

export class Template {
  #shown;
  #rows;
  #look = ""; // how the rows were fitted
  #written = []; // texts that changed since then
  #renamed = false; // a name is among them

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
    const edge = this.#edge(entries).toFixed(1);
    const look = `${one} ${options.size ? 1 : growth.toFixed(3)} ${edge} ${JSON.stringify(roles)}`;
    if (this.#look !== look) {
      stage.style.setProperty("--fit", options.size ? 1 : growth.toFixed(3));
      stage.style.setProperty("--edge", edge + "em");
      stage.className = one ? "one" : "";
      this.#rows.forget();
    }
    this.#renamed = this.#look !== look;
    this.#look = look;
    this.#written = [];
    this.#rows.show(entries);
    this.#digits();
    fit(this.#written);
    if (this.#renamed) this.#names(one);
  }

  // What stands left and right of the teams, in em of a line; both sides are alike, so that scores are in the middle.
  #edge(entries) {
    const { roles, texts } = this.#shown;
    const wide = (entry) => {
      const [clock, status, meta] = [roles.clock, roles.status, roles.competition].map((role) => texts.of(entry, role));
      const state = measured(clock, true) + measured(status, false) + 0.5;
      return Math.max(clock || status ? EDGE_PAD + 1.5 * state : 0, meta ? META_EM : 0);
    };
    return Math.min(EDGE_MAX, Math.max(0.6, ...entries.map(wide)));
  }

  // All scores are of one size: that at which the longest fits into the box, which takes nothing from the names.
  #digits() {
    const { stage } = this.#shown;
    const boxes = [...this.#rows.values()].flatMap(({ home, away }) => [home.score, away.score]);
    const widest = Math.max(0, ...boxes.map((box) => measured(box.textContent, true)));
    const asked = `${this.#look} ${widest} ${stage.clientWidth}`;
    if (!boxes.length || this.#scored === asked) return;
    this.#scored = asked;
    stage.style.removeProperty("--digits");
    const style = getComputedStyle(boxes[0]);
    const room = boxes[0].clientWidth / (parseFloat(style.fontSize) * widest + 2 * parseFloat(style.paddingLeft));
    if (room < 1) stage.style.setProperty("--digits", Math.max(SCORE_SHRINK_MIN, room).toFixed(3));
  }
  #scored = "";

  #names(one) {
    const sides = [...this.#rows.values()].flatMap(({ home, away }) => [home, away]);
    const names = sides.filter((side) => side.name.textContent);
    fitNames(
      names.map((side) => (one ? { target: side.name, lines: ONE_LINES, height: heightFor(side) } : { target: side.name })),
      one ? 0 : undefined,
    );
  }

  #write = (row, entry, position, news) => {
    const { texts, roles, options } = this.#shown;
    const teams = roles.home || roles.away;
    for (const who of ["home", "away"]) {
      const side = row[who];
      const fallback = teams ? "" : who === "home" ? texts.of(entry, roles.name || "_key") : "";
      if (putName(side.name, texts.of(entry, roles[who]) || fallback)) this.#renamed = true;
      side.team.style.setProperty("--team", texts.color(entry, roles[who + "_color"]) || "var(--line)");
      if (picture(side.picture, texts.image(entry, roles[who + "_logo"]))) this.#renamed = true;
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
    this.#written.push(row.meta, row.status);
  };
}

// What a name may take of the height, beside its picture.
function heightFor({ team, picture: box, name }) {
  const style = getComputedStyle(team);
  const beside = box.hidden ? 0 : box.offsetHeight + parseFloat(style.rowGap);
  const taken = beside + parseFloat(getComputedStyle(name).paddingBottom);
  return team.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom) - taken;
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
