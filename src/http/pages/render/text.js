// How values become what is seen: text, rounded numbers, images.
//
// Invariant: whatever items hold reaches the document as text, as the address of an image or as a color, never as HTML.

import { isAddress } from "/templates/roles.js";

const CHARS_MAX = 1000;
const POWER_MAX = 20; // of numbers that are rounded; others stay as they were sent
// Scripts whose letters reach further up and down than Latin, Greek and Cyrillic.
const TALL = /[^\u0000-\u052f\u1e00-\u20cf\u2100-\u2bff\ufe00-\ufe0f]/;

export const element = (name, className) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  return made;
};

// The texts of items, by the options.
export class Texts {
  #view;
  #options;
  #images;
  // `images`: the fields whose addresses are of images.
  constructor(view, options, images) {
    this.#view = view;
    this.#options = options;
    this.#images = images;
  }

  // What a field of an entry says, as it is shown.
  of(entry, field, position) {
    if (!field) return "";
    if (field === "_key") return clipped(entry.key);
    if (field === "_updated_at") return entry.item.updated_at;
    if (field === "_position") return String(position + 1);
    if (this.#images.has(field) && isAddress(this.value(entry, field))) return "";
    const text = this.#view.text(entry.key, field);
    return this.isNumber(entry, field) ? this.#number(text) : clipped(text);
  }

  isNumber(entry, field) {
    return typeof this.value(entry, field) === "number";
  }

  value(entry, field) {
    const { fields } = entry.item;
    return Object.prototype.hasOwnProperty.call(fields, field) ? fields[field] : undefined;
  }

  // The address of the image that a field holds, or "".
  image(entry, field) {
    const value = field && this.value(entry, field);
    if (!this.#images.has(field) || !isAddress(value)) return "";
    if (this.#options.images === "any" || /^data:/i.test(value)) return value;
    try {
      return new URL(value, document.baseURI).origin === new URL(document.baseURI).origin ? value : "";
    } catch (error) {
      return "";
    }
  }

  // A color that a field holds, or "".
  color(entry, field) {
    const value = field && this.value(entry, field);
    return typeof value === "string" && value.length < 40 && CSS.supports("color", value) ? value : "";
  }

  // "{home.name} {home.score}" with the fields of an entry.
  filled(pattern, entry) {
    return pattern.replace(/\{([^{}]+)\}/g, (whole, field) => this.of(entry, field, 0));
  }

  #number(text) {
    const { decimals, comma } = this.#options;
    const rounded = decimals < 0 ? text : round(text, decimals);
    return comma ? rounded.replace(".", ",") : rounded;
  }
}

// Rounds the text of a number, half away from zero, without a detour over floating point.
export function round(text, decimals) {
  const found = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text);
  const power = found ? Number(found[4] || 0) : 0;
  if (!found || Math.abs(power) > POWER_MAX) return text;
  let whole = found[2];
  let part = found[3] || "";
  if (power > 0) {
    part = part.padEnd(power, "0");
    whole += part.slice(0, power);
    part = part.slice(power);
  } else if (power < 0) {
    whole = whole.padStart(1 - power, "0");
    part = whole.slice(power) + part;
    whole = whole.slice(0, power);
  }
  const kept = whole + part.slice(0, decimals).padEnd(decimals, "0");
  let digits = BigInt(kept);
  if (part[decimals] >= "5") digits += 1n;
  const all = String(digits).padStart(decimals + 1, "0");
  const sign = digits ? found[1] : "";
  return sign + all.slice(0, all.length - decimals) + (decimals ? "." + all.slice(-decimals) : "");
}

export function clipped(text) {
  return text.length > CHARS_MAX ? text.slice(0, CHARS_MAX) + "…" : text;
}

// Writes a text if it is another; whether it was.
export function put(target, text) {
  if (target.textContent === text) return false;
  target.textContent = text;
  target.toggleAttribute("data-tall", TALL.test(text));
  return true;
}

// Shows an image in a box, or nothing: one that cannot be loaded leaves the box empty. Whether it is another.
export function picture(box, address) {
  if (box.dataset.address === address) return false;
  box.dataset.address = address;
  box.replaceChildren();
  box.hidden = !address;
  if (!address) return true;
  const image = element("img");
  image.alt = "";
  image.decoding = "async";
  image.referrerPolicy = "no-referrer";
  image.addEventListener("error", () => (box.hidden = true));
  image.src = address;
  box.append(image);
  return true;
}

const still = matchMedia("(prefers-reduced-motion: reduce)");

const flashes = new WeakMap(); // target -> its last animation; to ask the target for it would style the whole page

// Draws the eye to what has changed.
export function flash(target, options) {
  if (options.highlight === "none" || still.matches || document.hidden || !target.animate) return;
  flashes.get(target)?.cancel();
  flashes.set(target, target.animate({ backgroundColor: "var(--flash)", offset: 0 }, { duration: 1600, easing: "ease-out" }));
}

export const moves = () => !still.matches && !document.hidden;
