// JSON that comes in, without a digit lost: text that stands for itself, and a parser that knows when a number would round.

import { invalid } from "./errors.js";

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const NUMBERS = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** A string that begins with it stands for a number, or, with it twice, for one that began with it. */
const MARK = "\ue000\ue0f8";

/** @type {{ rawJSON?: (text: string) => unknown }} */
const builtIn = /** @type {any} */ (JSON);

/**
 * JSON text that goes out as it is, but for white space: a number with all its digits, a value, or a whole item.
 *
 *     await client.send({ id: 7, price: new RawJson("1.10") }, { itemKey: "id" });
 */
export class RawJson {
  /**
   * The text.
   * @readonly
   * @type {string}
   */
  text;

  /** @param {string} text a JSON text; what is none is a {@link HeadgateError} */
  constructor(text) {
    if (typeof text !== "string") throw new TypeError("RawJson expects a JSON text");
    this.text = NUMBER.test(text) ? text : compact(text);
    Object.freeze(this);
  }

  toString() {
    return this.text;
  }

  /** For `JSON.stringify`, which keeps the digits where the runtime can (`JSON.rawJSON`). */
  toJSON() {
    return builtIn.rawJSON && !/^[[{]/.test(this.text) ? builtIn.rawJSON(this.text) : JSON.parse(this.text);
  }
}

/** @param {string} text */
function compact(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(`this is not JSON: ${/** @type {Error} */ (error).message}`);
  }
  if (!wellFormed(text) || (/\\u[dD][89a-fA-F]/.test(text) && hasHalf(value))) throw invalid("this is not valid Unicode: it has half of a surrogate pair");
  return rewrite(text, (between) => between.replace(/[ \t\n\r]+/g, ""), (string) => string);
}

/** @param {unknown} value @returns {boolean} */
function hasHalf(value) {
  if (typeof value === "string") return !wellFormed(value);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([name, member]) => !wellFormed(name) || hasHalf(member));
}

/**
 * Whether a text has no half of a surrogate pair.
 * @param {string} text
 * @returns {boolean}
 */
export function wellFormed(text) {
  const any = /** @type {any} */ (text);
  return any.isWellFormed ? any.isWellFormed() : !/\p{Surrogate}/u.test(text);
}

/**
 * Reads JSON. An integer that a number would round becomes a `bigint`. With `exact`, every other number that would not be
 * written again with the same digits (`1.10`, `1e400`, `-0`) becomes a {@link RawJson}.
 * @param {string} text
 * @param {{ exact?: boolean }} [options]
 * @returns {any}
 */
export function parse(text, { exact = false } = {}) {
  if (!exact && !/\d{16}/.test(text)) return JSON.parse(text);
  let marked = false;
  const mark = (/** @type {string} */ written) => {
    marked = true;
    return `"${MARK}${written}`;
  };
  const kept = rewrite(
    text,
    (between) => between.replace(NUMBERS, (digits) => (rounds(digits, exact) ? mark(`${digits}"`) : digits)),
    (string, end) => (begins(string) && !isName(text, end) ? mark(string.slice(1)) : string),
  );
  return marked ? JSON.parse(kept, (_, value) => (typeof value === "string" && value.startsWith(MARK) ? unmark(value) : value)) : JSON.parse(text);
}

/**
 * A JSON text with what stands between its strings, and the strings, written anew. What is no JSON stays so.
 * @param {string} text
 * @param {(between: string) => string} outside
 * @param {(string: string, end: number) => string} inside
 */
function rewrite(text, outside, inside) {
  let written = "";
  for (let at = 0; ; ) {
    const begin = text.indexOf('"', at);
    written += outside(begin < 0 ? text.slice(at) : text.slice(at, begin));
    if (begin < 0) return written;
    at = endOf(text, begin);
    written += inside(text.slice(begin, at), at);
  }
}

/** Where a string ends that begins there. @param {string} text @param {number} begin */
function endOf(text, begin) {
  for (let end = text.indexOf('"', begin + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === "\\") escapes++;
    if (escapes % 2 === 0) return end + 1;
  }
  return text.length;
}

/** Whether a string, as it is written, begins as the mark does. @param {string} string */
function begins(string) {
  return string[1] === MARK[0] || /^"\\u[eE]000/.test(string);
}

/** Whether what ends here is the name of a member. @param {string} text @param {number} at */
function isName(text, at) {
  while (" \t\n\r".includes(text[at] ?? ".")) at++;
  return text[at] === ":";
}

/** @param {string} digits @param {boolean} exact */
function rounds(digits, exact) {
  const value = Number(digits);
  if (isInteger(digits)) return !Number.isSafeInteger(value);
  return exact && String(value) !== digits;
}

/** @param {string} digits */
const isInteger = (digits) => /^-?\d+$/.test(digits) && digits !== "-0";

/** @param {string} text */
function unmark(text) {
  const rest = text.slice(MARK.length);
  if (NUMBER.test(rest)) return isInteger(rest) ? BigInt(rest) : new RawJson(rest);
  return rest;
}
