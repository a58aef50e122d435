// Values as JSON, exactly: what JSON cannot hold is an error with its path, never something else in its place.

import { invalid } from "./errors.js";
import { RawJson, parse, wellFormed } from "./json.js";

const DEPTH_MAX = 1000;
const KEY_BYTES_MAX = 512;
/** What stands for itself between quotes. */
const SIMPLE = /^[ !#-[\]-\ud7ff\ue000-\uffff]*$/;
const utf8 = new TextEncoder();

/** The length in UTF-8. @type {(text: string) => number} */
export const bytesOf = typeof Buffer === "undefined" ? (text) => utf8.encode(text).length : (text) => Buffer.byteLength(text);

/**
 * The value as compact JSON. A `bigint` and a {@link RawJson} (or `JSON.rawJSON`) go out digit for digit, a `Date` as
 * ISO 8601 in UTC, a `Map` as an object; a member that is `undefined` is left out. NaN, infinities, halves of surrogate
 * pairs and what is no JSON (functions, sets, typed arrays, …) are a `HeadgateError` that names the path.
 * @param {unknown} value
 * @returns {string}
 */
export function stringify(value) {
  return write(value, []);
}

/**
 * An item as JSON: an object.
 * @param {unknown} item
 */
export function encodeItem(item) {
  const text = stringify(item);
  if (text[0] !== "{") throw invalid(`an item must be an object, not ${kind(item)}`);
  return text;
}

/** @param {unknown} value @param {string[]} path @returns {string} */
function write(value, path) {
  switch (typeof value) {
    case "string":
      return quote(value, path);
    case "number":
      if (!Number.isFinite(value)) throw invalid(`${shown(path)} is ${value}, which JSON cannot represent`);
      return `${value}`;
    case "bigint":
      return `${value}`;
    case "boolean":
      return value ? "true" : "false";
    case "object":
      return value === null ? "null" : writeObject(value, path);
    default:
      throw invalid(`${shown(path)} is ${kind(value)}, which JSON cannot represent`);
  }
}

/** @param {object} given @param {string[]} path */
function writeObject(given, path) {
  if (path.length > DEPTH_MAX) throw invalid("it is nested too deeply, or contains itself");
  const value = plain(given, path);
  if (typeof value !== "object" || value === null) return write(value, path);
  const raw = rawText(value);
  if (raw !== undefined) return raw;
  if (Array.isArray(value)) return writeList(value, path);
  if (isForeign(value)) throw invalid(`${shown(path)} is ${kind(value)}, which JSON cannot represent`);
  let text = "";
  const names = value instanceof Map ? value.keys() : Object.keys(value);
  for (const name of names) {
    const member = value instanceof Map ? value.get(name) : /** @type {any} */ (value)[name];
    if (member === undefined) continue;
    path.push(path.length ? `.${nameOf(name, path)}` : nameOf(name, path));
    text += `${text ? "," : ""}${quote(`${name}`, path)}:${write(member, path)}`;
    path.pop();
  }
  return `{${text}}`;
}

/** @param {unknown[]} list @param {string[]} path */
function writeList(list, path) {
  let text = "[";
  for (let index = 0; index < list.length; index++) {
    path.push(`[${index}]`);
    text += (index ? "," : "") + write(list[index], path);
    path.pop();
  }
  return text + "]";
}

/**
 * What an object is written as: itself, or what it says of itself.
 * @param {object} value
 * @param {string[]} path
 * @returns {unknown}
 */
function plain(value, path) {
  if (value instanceof RawJson) return value;
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw invalid(`${shown(path)} is an invalid date`);
    return value.toISOString();
  }
  if ("toJSON" in value && typeof value.toJSON === "function") {
    const told = value.toJSON((path.at(-1) ?? "").replace(/^\./, ""));
    return told instanceof Date ? plain(told, path) : told;
  }
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return value.valueOf();
  return value;
}

/** What `JSON.stringify` would write as `{}`, or as an object of its bytes. @param {object} value */
function isForeign(value) {
  return (
    value instanceof Set || ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof RegExp ||
    value instanceof Promise || value instanceof Error || value instanceof WeakMap || value instanceof WeakSet
  );
}

/** The text of what stands for its own text. @param {object} value @returns {string | undefined} */
function rawText(value) {
  if (value instanceof RawJson) return value.text;
  const known = /** @type {any} */ (JSON).isRawJSON?.(value);
  return known ? /** @type {any} */ (value).rawJSON : undefined;
}

/** @param {unknown} name @param {string[]} path */
function nameOf(name, path) {
  if (typeof name === "string") return name;
  if (typeof name === "number" || typeof name === "bigint" || typeof name === "boolean") return `${name}`;
  throw invalid(`${shown(path)} has a key that is ${kind(name)}; keys must be text`);
}

/** @param {string} text @param {string[]} path */
function quote(text, path) {
  if (SIMPLE.test(text)) return `"${text}"`;
  if (!wellFormed(text)) throw invalid(`${shown(path)} is not valid Unicode: it has half of a surrogate pair`);
  return JSON.stringify(text);
}

/** @param {string[]} path */
function shown(path) {
  const text = path.join("") || "the value";
  return wellFormed(text) ? text : JSON.stringify(text);
}

/** @param {unknown} value */
function kind(value) {
  if (value === null || value === undefined) return `${value}`;
  if (Array.isArray(value)) return "a list";
  const name = typeof value === "object" ? value.constructor?.name : typeof value;
  return `of the type ${name ?? "object"}`;
}

/**
 * The text of the field that identifies an item, looked up as Headgate does: in the flattened item.
 * @param {unknown} item
 * @param {string} field
 * @returns {string}
 */
export function keyOf(item, field) {
  /** @type {unknown[]} */
  const found = [];
  find(objectOf(item), field, found);
  if (found.length > 1) throw invalid(`the item has the field "${field}" twice`);
  const text = found.length ? textOf(found[0], field) : undefined;
  if (text === undefined) throw invalid(`the item has no text, number or boolean at "${field}", the item key`);
  const bytes = bytesOf(text);
  if (bytes < 1 || bytes > KEY_BYTES_MAX) throw invalid(`the value at "${field}", the item key, must have 1 to ${KEY_BYTES_MAX} bytes`);
  return text;
}

/** Goes down where a name, and a dot, is what the field begins with. @param {object | undefined} value @param {string} field @param {unknown[]} found */
function find(value, field, found) {
  if (value === undefined) return;
  const get = (/** @type {string} */ name) => (value instanceof Map ? value.get(name) : Object.hasOwn(value, name) ? /** @type {any} */ (value)[name] : undefined);
  const here = get(field);
  if (here !== undefined) found.push(here);
  for (let dot = field.indexOf("."); dot >= 0; dot = field.indexOf(".", dot + 1)) {
    const inner = get(field.slice(0, dot));
    if (typeof inner === "object" && inner !== null) find(objectOf(inner), field.slice(dot + 1), found);
  }
}

/** What is written as an object, as one. @param {unknown} value @returns {object | undefined} */
function objectOf(value) {
  if (typeof value !== "object" || value === null) return undefined;
  let known = plain(value, []);
  if (typeof known !== "object" || known === null) return undefined;
  const raw = rawText(known);
  if (raw !== undefined) known = parse(raw, { exact: true });
  return typeof known === "object" && known !== null && !Array.isArray(known) && !(known instanceof RawJson) ? known : undefined;
}

/** @param {unknown} value @param {string} field @returns {string | undefined} */
function textOf(value, field) {
  if (typeof value === "string") return value;
  if (typeof value !== "object" && typeof value !== "number" && typeof value !== "bigint" && typeof value !== "boolean") return undefined;
  const text = write(value, [field]);
  if (text[0] === '"') return JSON.parse(text);
  return /^[{[]|^null$/.test(text) ? undefined : text;
}
