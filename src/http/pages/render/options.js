// The options of /render/{stream}: one table for all templates, and how their texts are read.
//
// Invariant: an option that nobody knows, or whose value cannot be used, changes nothing; it is listed for `debug`.

import { ROLES } from "/templates/roles.js";

export const TEMPLATES = ["table", "scoreboard", "ticker", "cards", "number", "lower-third"];

const among =
  (...values) =>
  (text) =>
    values.includes(text) ? text : undefined;
const flag = (text) => !/^(0|false|no|off)$/i.test(text);
const words = (text) => text;
const list = (text) =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
const between = (least, most) => (text) => {
  const number = Number(text);
  return text.trim() !== "" && number >= least && number <= most ? number : undefined;
};
const whole = (least, most) => (text) => (/^\d+$/.test(text) ? between(least, most)(text) : undefined);
const lasting = (text) => {
  const found = /^(\d+(?:\.\d+)?)(ms|s|m)?$/.exec(text);
  const ms = found && Number(found[1]) * { ms: 1, s: 1000, m: 60000 }[found[2] || "s"];
  return ms >= 500 && ms <= 3600000 ? ms : undefined;
};
const percent = (text) => between(0, 20)(text.replace(/%$/, ""));
const color = (text) => [text, "#" + text].find((each) => CSS.supports("color", each));
// Files of the folder `pages`: the font of texts, and that of what is bold.
const FONT_FILE = /^(?:[^./\\][^/\\]*\/)*[^./\\][^/\\]*\.(?:woff2|woff|ttf|otf)$/i;
const fontFiles = (text) => {
  const names = list(text);
  return names.length > 0 && names.length <= 2 && names.every((name) => FONT_FILE.test(name)) ? names : undefined;
};
const language = (text) => {
  try {
    return Intl.getCanonicalLocales(text)[0];
  } catch (error) {
    return undefined;
  }
};

// `home.name`, or with a heading of its own `Team:home.name`.
const columns = (text) =>
  list(text).map((part) => {
    const at = part.indexOf(":");
    return at > 0 ? { heading: part.slice(0, at), field: part.slice(at + 1) } : { field: part };
  });
const order = (text) => list(text).map((part) => ({ down: part[0] === "-", field: part.replace(/^[-+]/, "") }));
// `status:live`, `period:1|2`, `!team:x`; joined by and.
const conditions = (text) => {
  const all = list(text).map((part) => {
    const not = part[0] === "!";
    const at = part.indexOf(":");
    return at > 0 && { not, field: part.slice(not ? 1 : 0, at), values: part.slice(at + 1).split("|") };
  });
  return all.every(Boolean) ? all : undefined;
};

// name: [what its text means, or undefined if it means nothing; the value without it]
const OPTIONS = {
  template: [among(...TEMPLATES), "table"],
  fields: [columns, []],
  sort: [order, []],
  where: [conditions, []],
  limit: [whole(1, 10000), 0],
  key: [list, []],
  title: [words, ""],
  text: [words, ""],
  theme: [among("light", "dark", "transparent"), ""],
  transparent: [flag, false],
  accent: [color, ""],
  font: [fontFiles, []],
  size: [between(0.5, 4), 0],
  page: [lasting, 0],
  speed: [between(0.1, 10), 1],
  lang: [language, ""],
  decimals: [whole(0, 20), -1],
  comma: [flag, false],
  highlight: [among("none"), ""],
  images: [among("self", "any"), "self"],
  stale: [among("keep", "dim", "hide"), "keep"],
  safe: [percent, 0],
  screen: [words, ""],
  debug: [flag, false],
};

// The options of an address: {…values, roles: {home: field…}, ignored: ["name=text"…]}.
export function read(search) {
  const options = { roles: {}, ignored: [] };
  for (const name of Object.keys(OPTIONS)) options[name] = OPTIONS[name][1];
  for (const [name, text] of new URLSearchParams(search)) {
    if (ROLES.has(name)) options.roles[name] = text;
    else if (Object.prototype.hasOwnProperty.call(OPTIONS, name)) {
      const value = OPTIONS[name][0](text);
      if (value === undefined) options.ignored.push(name + "=" + text);
      else options[name] = value;
    } else options.ignored.push(name + "=" + text);
  }
  if (options.transparent) options.theme = "transparent";
  return options;
}
