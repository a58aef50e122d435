// How text is made to fit: names, whose words stay whole, and everything else.
//
// Invariant: all that a frame has to measure is measured before any of it is written, so that the page is laid out twice
// at most.

import { element, put } from "/templates/text.js";

const SHRINK_MIN = 0.7;
const NAME_SHRINK_MIN = 0.5; // a smaller name is harder to read than one with a broken word
const SPARE = 0.99; // of a width: what fits by calculation fits on the screen
const WIDTHS_MAX = 2000;
const FAMILY =
  '"Headgate own", "Barlow Condensed", "Roboto Condensed", "Arial Narrow", "Liberation Sans Narrow", "Noto Sans", system-ui, sans-serif';

const pen = element("canvas").getContext("2d");

// Writes a name, each of its words in one piece; whether it was another.
export function putName(target, text) {
  if (!put(target, text)) return false;
  const words = text.split(/(\s+)/).filter(Boolean);
  if (words.length > 1 || /-/.test(text))
    target.replaceChildren(
      ...words.map((word) => {
        if (!word.trim()) return word;
        const whole = element("span", "word");
        whole.textContent = word;
        return whole;
      }),
    );
  return true;
}

const widths = new Map(); // weight and text -> em

// The width of a text in em. All figures are as wide as the widest.
export function measured(text, bold) {
  const weight = bold ? 700 : 500;
  const shown = text.replace(/\d/g, "0");
  const asked = weight + shown;
  const known = widths.get(asked);
  if (known !== undefined) return known;
  pen.font = `${weight} 100px ${FAMILY}`;
  const width = pen.measureText(shown).width / 100;
  if (widths.size >= WIDTHS_MAX) widths.clear();
  widths.set(asked, width);
  return width;
}

// Another font has other widths.
export function forgetWidths() {
  widths.clear();
}

// The largest size, 1 to a half, at which a name fits into a box of `width` em and `high` lines, no word of it broken;
// 0 if there is none.
function nameSize(text, width, high, lines) {
  const words = text.trim().split(/\s+/);
  const wide = words.map((word) => measured(word, true));
  const blank = measured(" ", true);
  const fits = (size) => {
    const room = (width * SPARE) / size;
    let count = 1;
    let at = 0;
    for (const word of wide) {
      if (word > room) return false;
      const next = at ? at + blank + word : word;
      if (next > room) count++;
      at = next > room ? word : next;
    }
    return count <= lines && count * size <= high + 0.01;
  };
  let size = 100;
  while (size >= NAME_SHRINK_MIN * 100 && !fits(size / 100)) size--;
  return size >= NAME_SHRINK_MIN * 100 ? size / 100 : 0;
}

// Fits names that are seen together: [{target, lines, height}], `height` in pixels, if it is bounded. A name shrinks to
// half before a word of it is broken or cut. All shrink as far as the longest needs, but for that none below `common`.
export function fitNames(names, common = SHRINK_MIN) {
  for (const { target } of names) target.style.removeProperty("--shrink");
  const found = names.map(({ target, lines = 1, height = Infinity }) => {
    const style = getComputedStyle(target);
    const [size, line] = [parseFloat(style.fontSize), parseFloat(style.lineHeight)];
    return nameSize(target.textContent, target.clientWidth / size, height / line, lines);
  });
  const all = Math.max(common, Math.min(...found.map((size) => size || NAME_SHRINK_MIN)));
  names.forEach(({ target }, place) => {
    const size = Math.min(all, found[place] || NAME_SHRINK_MIN);
    target.toggleAttribute("data-broken", !found[place]);
    if (size < 1) target.style.setProperty("--shrink", size);
  });
}

// Shrinks texts other than names that are too wide or too high for their boxes, to 70 % at most; what is still too long is
// cut by the style.
export function fit(targets) {
  for (const target of targets) target.style.removeProperty("--shrink");
  const shrunk = targets.map((target) => {
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = target;
    const wide = scrollWidth > clientWidth + 1 ? clientWidth / scrollWidth : 1;
    const high = scrollHeight > clientHeight + 2 ? 0.8 : 1;
    return Math.min(wide, high);
  });
  targets.forEach((target, place) => {
    if (shrunk[place] < 1) target.style.setProperty("--shrink", shrink(shrunk[place]));
  });
}

export const shrink = (ratio) => Math.max(SHRINK_MIN, Math.floor(ratio * 100 - 0.5) / 100);
