// What waits in a batcher: items, and the batches that are cut of them.

import { encodeItem } from "./encode.js";

/**
 * An item that waits.
 * @typedef {object} Entry
 * @property {unknown} item
 * @property {string} text as JSON
 * @property {number} bytes of that in UTF-8
 * @property {string | undefined} key what identifies it, where only the latest of it goes
 * @property {number} place its place among all that were ever added
 * @property {number} added when, by the monotonic clock
 */

/**
 * The items of a batch.
 * @typedef {object} Content
 * @property {unknown[]} items
 * @property {string[]} [texts] each item as JSON; none: it comes from the spool, and is cut when that is needed
 * @property {string} text the body
 * @property {string | undefined} itemKey
 * @property {string | undefined} stream
 */

/** What a file of this size takes of the room. @param {number} bytes */
export const cost = (bytes) => Math.max(bytes, 4096);

/** @param {string[]} texts */
export const bodyOf = (texts) => `[${texts.join(",")}]`;

/** What goes as one request, under one idempotency key for all its attempts: in memory, on disk, or both. */
export class Batch {
  writing = false;
  /** Ends when what is being written is. @type {Promise<unknown> | undefined} */
  whenWritten;

  /**
   * @param {object} told
   * @param {string} told.key
   * @param {number} told.first the place of its first item among all that were ever added; -1: an earlier life has left it
   * @param {number} told.added when that came, by the client's clock
   * @param {number} told.count items; 0: it was not read yet
   * @param {number} told.bytes of the file, or of the body that has none yet
   * @param {Content} [told.content] none: it is on disk only
   */
  constructor({ key, first, added, count, bytes, content }) {
    this.key = key;
    this.first = first;
    this.added = added;
    this.count = count;
    this.bytes = bytes;
    this.content = content;
    this.written = content === undefined;
  }
}

/**
 * Some of the items of a batch, as JSON.
 * @param {Content} content
 * @param {number} start
 * @param {number} count
 */
export function slice(content, start, count) {
  if (start === 0 && count === content.items.length) return content.text;
  content.texts ??= content.items.map(encodeItem);
  return bodyOf(content.texts.slice(start, start + count));
}

/** A part of a batch: its first item, and how many. @typedef {[number, number]} Part */

/** What is left of a batch that was cut has room in a file of 4 KiB. */
const CUTS_MAX = 100;

/**
 * The parts of a part that was refused: the named items (counted in it) stand alone, else it is halved.
 * @param {Part} part
 * @param {number[]} named
 * @returns {Part[]}
 */
export function cuts([start, count], named) {
  const places = new Set(named.flatMap((item) => [item, item + 1]));
  places.delete(0);
  places.delete(count);
  const ends = [...places].sort((a, b) => a - b).slice(0, CUTS_MAX);
  if (!ends.length) ends.push(Math.floor(count / 2));
  ends.push(count);
  return ends.map((end, index) => {
    const begin = index ? ends[index - 1] : 0;
    return [start + begin, end - begin];
  });
}

/** Items in order, and how many bytes they are. */
export class Queue {
  /** @type {Entry[]} */
  #entries = [];
  /** Entries before it are gone. */
  #head = 0;
  /** @type {Map<string, Entry>} */
  #byKey = new Map();
  bytes = 0;

  get length() {
    return this.#entries.length - this.#head;
  }

  /** The oldest. @returns {Entry | undefined} */
  get first() {
    return this.#entries[this.#head];
  }

  /** Puts an item in the place of the one with the same key, if one waits. @param {Entry} entry */
  replace(entry) {
    const old = entry.key === undefined ? undefined : this.#byKey.get(entry.key);
    if (!old) return false;
    this.bytes += entry.bytes - old.bytes;
    old.item = entry.item;
    old.text = entry.text;
    old.bytes = entry.bytes;
    return true;
  }

  /** Adds one at the end. @param {Entry} entry */
  push(entry) {
    this.#entries.push(entry);
    this.bytes += entry.bytes;
    if (entry.key !== undefined) this.#byKey.set(entry.key, entry);
  }

  /** Takes the oldest. */
  pop() {
    return this.#pop(1)[0];
  }

  /** @param {number} count */
  #pop(count) {
    const taken = this.#entries.slice(this.#head, this.#head + count);
    this.#head += count;
    if (this.#head * 2 >= this.#entries.length) {
      this.#entries.splice(0, this.#head);
      this.#head = 0;
    } else this.#entries.fill(/** @type {any} */ (undefined), this.#head - count, this.#head);
    for (const entry of taken) {
      this.bytes -= entry.bytes;
      if (entry.key !== undefined) this.#byKey.delete(entry.key);
    }
    return taken;
  }

  /** Whether a whole batch waits. @param {number} maxItems @param {number} maxBytes */
  fills(maxItems, maxBytes) {
    return this.length >= maxItems || this.bytes + this.length + 1 >= maxBytes;
  }

  /** The items of the next batch; one at least, however long it is. @param {number} maxItems @param {number} maxBytes */
  take(maxItems, maxBytes) {
    let count = 0;
    for (let size = 1; count < Math.min(maxItems, this.length); count++) {
      size += this.#entries[this.#head + count].bytes + 1;
      if (count && size > maxBytes) break;
    }
    return this.#pop(count);
  }
}
