// The page /render/{stream}?options#READ_KEY: the items of a stream in a template, which follows the stream. In a file
// that `headgate screen save` wrote, `saved` says what the address says otherwise.
//
// Invariant: what is seen comes from items or from the address. No sentence of this page's own is shown before `debug`
// is asked for: not while it connects, not when it is refused, not when there is nothing.

import { connect } from "/headgate.js";
import { forgetWidths } from "/templates/fit.js";
import { List } from "/templates/list.js";
import { read } from "/templates/options.js";
import { Pager } from "/templates/pager.js";
import { guess } from "/templates/roles.js";
import { Texts, element, put } from "/templates/text.js";

const GRACE_MS = 3000; // a connection that is back by then was never away
const FONTS = ["500 16px 'Barlow Condensed'", "700 16px 'Barlow Condensed'"];
const OWN_FONT = "Headgate own"; // the style names it before ours, and no player has one of this name
const WEIGHTS = ["500", "700"];
const FONTS_MS = 300;

const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return text;
  }
};
const root = document.documentElement;
const { saved } = globalThis;
const options = read(saved ? saved.query : location.search);
const name = saved ? saved.stream : decoded(location.pathname.slice(location.pathname.indexOf("/render/") + "/render/".length));
const [given, ...marks] = location.hash.slice(1).split("&").map(decoded);
const key = saved ? saved.key : given;
if (marks.includes("debug") || (saved && given === "debug")) options.debug = true;
addEventListener("hashchange", () => location.reload());

dress();
const parts = build();
export const started = start(); // rejected where a part of the page could not be loaded

// What the address says about how everything looks.
function dress() {
  document.title = options.title || name;
  root.dataset.items = "none";
  root.dataset.template = options.template;
  if (options.theme) root.dataset.theme = options.theme;
  if (options.lang) root.lang = options.lang;
  if (options.accent) root.style.setProperty("--accent", options.accent);
  if (options.size) root.style.setProperty("--size", options.size);
  if (options.safe) root.style.setProperty("--safe", options.safe / 100);
}

function build() {
  const title = element("h1");
  title.dir = "auto";
  title.hidden = !options.title;
  put(title, options.title);
  const stage = element("main");
  const dots = element("nav");
  dots.hidden = true;
  document.body.append(title, stage, dots);
  return { title, stage, dots };
}

async function start() {
  const fonts = Promise.allSettled([...ownFonts(), ...FONTS.map((font) => document.fonts.load(font))]);
  const [{ Template }] = await Promise.all([
    import(`/templates/${options.template}.js`),
    Promise.race([fonts, new Promise((resolve) => setTimeout(resolve, FONTS_MS))]),
  ]);
  const debug = options.debug && new (await import("/templates/debug.js")).Debug(options, name);
  if (!/^rk_/.test(key)) {
    root.dataset.state = "keyless";
    return debug && debug.keyless(key);
  }
  // A file needs nobody to start.
  if (!saved) import("/offline.js").catch(() => {});
  const live = connect({ url: saved && saved.url, streams: [name], key, maxRate: 30, screen: options.screen || name });
  const view = live.stream(name);
  follow(live, view, Template, debug, fonts);
}

// Loads what `font=` names. What cannot be loaded is replaced by ours, and listed for `debug`.
function ownFonts() {
  return options.font.map(async (file, place) => {
    const path = "/pages/" + file.split("/").map(encodeURIComponent).join("/");
    const face = new FontFace(OWN_FONT, `url("${saved ? saved.fonts[place] : path}")`, { weight: WEIGHTS[place] });
    document.fonts.add(face);
    await face.load().catch(() => options.ignored.push("font=" + file));
  });
}

function follow(live, view, Template, debug, fonts) {
  const list = new List(view, options);
  const texts = new Texts(view, options, list.images);
  const pager = new Pager(options, parts, () => plan());
  const shown = { options, list, texts, pager, view, roles: {}, plan, ...parts };
  const template = new Template(shown);
  let frame = 0;
  let known = -1;

  function plan() {
    frame = frame || requestAnimationFrame(draw);
  }

  function draw() {
    frame = 0;
    if (list.fields.length !== known) {
      known = list.fields.length;
      shown.roles = guess(options.roles, list.fields);
    }
    root.dataset.state = view.complete && live.state === "live" && !view.stale ? "shown" : live.state;
    root.dataset.items = list.entries.length ? "some" : "none";
    template.draw();
    if (debug) debug.draw(live, view, list, shown.roles);
  }

  const age = stale(view);
  live.addEventListener("state", plan);
  for (const type of ["stale", "fresh"]) {
    view.addEventListener(type, age);
    view.addEventListener(type, plan);
  }
  view.addEventListener("change", ({ detail }) => {
    list.apply(detail);
    plan();
  });
  addEventListener("resize", () => {
    template.resize();
    plan();
  });
  fonts.then(() => {
    forgetWidths();
    template.resize();
    plan();
  });
  plan();
}

// What `stale=` says happens to data that may be old.
function stale(view) {
  let timer = 0;
  const mark = () => {
    timer = 0;
    root.dataset.age = view.stale ? "old" : "new";
  };
  if (options.stale !== "keep") root.dataset.stale = options.stale;
  mark();
  return () => {
    if (!view.stale) {
      clearTimeout(timer);
      mark();
    } else timer = timer || setTimeout(mark, GRACE_MS);
  };
}
