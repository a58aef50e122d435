// What waits in a batcher: items, and the batches that are cut of them.

import { bytesOf, encodeItem } from "./encode.js";

/** @typedef {import("./errors.js").HeadgateError} HeadgateError */

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
 * A batch on disk. It stays until every part of the batch is settled.
 * @typedef {{ path: string, parts: number }} File
 */

/** @param {string[]} texts */
const bodyOf = (texts) => `[${texts.join(",")}]`;

/** What goes as one request, under one idempotency key for all its attempts. */
export class Batch {
  /**
   * Where it is on disk.
   * @type {File | undefined}
   */
  file;
  /** What it is a part of: the key of that batch, and the place of its own first item there. */
  whole = "";
  offset = 0;
  /** @type {Uint8Array | undefined} */
  #encoded;

  /**
   * @param {object} told
   * @param {unknown[]} told.items
   * @param {string[]} [told.texts] each item as JSON; none: it comes from the spool, and is cut when that is needed
   * @param {string} [told.body]
   * @param {string | undefined} told.itemKey
   * @param {string} told.idempotencyKey
   * @param {number} told.first the place of its first item among all that were ever added
   * @param {number} told.added when that came, by the monotonic clock
   * @param {number} told.born since when its key is in use, by the wall clock
   * @param {number} [told.bytes]
   */
  constructor({ items, texts, body, itemKey, idempotencyKey, first, added, born, bytes }) {
    this.items = items;
    this.texts = texts;
    this.text = body ?? bodyOf(texts ?? []);
    this.bytes = bytes ?? bytesOf(this.text);
    this.itemKey = itemKey;
    this.idempotencyKey = idempotencyKey;
    this.first = first;
    this.added = added;
    this.born = born;
  }

  /** The bytes that go out: the same for every attempt. */
  body() {
    this.#encoded ??= new TextEncoder().encode(this.text);
    return this.#encoded;
  }

  /**
   * The parts of a batch that was refused; none, if it is no more than one item.
   *
   * A part has the same key whenever it is cut out of the same batch: one that was accepted before a crash is known when
   * the batch comes from its file again.
   * @param {HeadgateError} error
   */
  cut(error) {
    const cuts = placesToCut(this.items.length, error);
    if (!cuts.length) return [];
    const texts = this.texts ?? this.items.map(encodeItem);
    const whole = this.whole || this.idempotencyKey;
    const ends = [...cuts, this.items.length];
    const parts = ends.map((end, index) => {
      const start = index ? ends[index - 1] : 0;
      const offset = this.offset + start;
      const { itemKey, first, added, born } = this;
      const idempotencyKey = `${whole}/${offset}/${end - start}`;
      const part = new Batch({ items: this.items.slice(start, end), texts: texts.slice(start, end), itemKey, idempotencyKey, first, added, born });
      return Object.assign(part, { file: this.file, whole, offset });
    });
    if (this.file) this.file.parts += parts.length - 1;
    return parts;
  }
}

/**
 * Where a refused batch is cut: around the items that the answer names, else in the middle.
 * @param {number} count
 * @param {HeadgateError} error
 */
function placesToCut(count, error) {
  if (count < 2) return [];
  /** @type {Set<number>} */
  const cuts = new Set();
  for (const { item } of error.details) {
    if (Number.isInteger(item) && item >= 0 && item < count) cuts.add(item).add(item + 1);
  }
  cuts.delete(0);
  cuts.delete(count);
  return cuts.size ? [...cuts].sort((a, b) => a - b) : [Math.floor(count / 2)];
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
