// The batcher: items one at a time, sent in batches in the background. Here is what the program sees; the Engine does it.

/// <reference lib="esnext.disposable" preserve="true" />

import { bytesOf, encodeItem, keyOf } from "./encode.js";
import { Engine } from "./engine.js";
import { HeadgateError } from "./errors.js";
import { BODY_BYTES_MAX, settled } from "./options.js";
import { Spool } from "#spool";

/** @typedef {import("./caller.js").Caller} Caller */
/** @typedef {import("./options.js").BatcherOptions} BatcherOptions */
/** @typedef {import("./options.js").FlushResult} FlushResult */
/** @typedef {import("./options.js").Stats} Stats */
/** @typedef {import("./queue.js").Entry} Entry */

/** With the brackets of a list it is a whole body. */
const ITEM_BYTES_MAX = BODY_BYTES_MAX - 2;

/**
 * Made by `client.batcher()`.
 *
 * **Items are in memory: a crash loses them, unless there is a spool.** What waits when the program ends normally is
 * flushed for at most 5 seconds. Callbacks are not awaited.
 */
export class Batcher {
  #o;
  #caller;
  #engine;
  #closed;

  /**
   * @param {Caller} caller
   * @param {BatcherOptions} options
   * @param {(message: string) => void} log
   * @param {(batcher: Batcher) => void} closed told when it is
   */
  constructor(caller, options, log, closed) {
    this.#caller = caller;
    this.#closed = closed;
    this.#o = settled(options);
    const spool = options.spool === undefined ? undefined : new Spool(options.spool, this.#o.spoolBytes, log);
    this.#engine = new Engine(caller, this.#o, { log, spool, batcher: this });
  }

  /**
   * Adds an item to the queue, and fails if the item cannot be sent. When the queue is full,
   * it waits, or does what `whenFull` sets: await it.
   * @param {object} item
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<void>}
   */
  add(item, { signal } = {}) {
    try {
      return this.#engine.add(this.#entry(item), signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Waits until all items added before are accepted or rejected, or the time is over; returns which, and never throws.
   * @param {number} [timeout]
   * @returns {Promise<FlushResult>}
   */
  flush(timeout = 30_000) {
    return this.#engine.flush(timeout);
  }

  /**
   * Flushes and stops. Unsent batches stay in the spool; items outside it are rejected with `CLOSED`.
   * @param {number} [timeout]
   * @returns {Promise<FlushResult>}
   */
  async close(timeout = 30_000) {
    const result = await this.#engine.close(timeout);
    this.#closed(this);
    return result;
  }

  /** Returns counters, and how long the oldest item has waited. @returns {Stats} */
  get stats() {
    return this.#engine.stats;
  }

  toString() {
    const { queued, inFlight } = this.stats;
    return `headgate.Batcher(${queued} queued, ${inFlight} in flight)`;
  }

  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.toString();
  }

  /** For `await using`. @returns {Promise<void>} */
  async [Symbol.asyncDispose]() {
    await this.close();
  }

  /** @param {unknown} item @returns {Entry} */
  #entry(item) {
    const text = encodeItem(item);
    const { itemKey, latestOnly, onAccepted, onRejected } = this.#o;
    const key = itemKey === undefined ? undefined : keyOf(item, itemKey);
    const bytes = bytesOf(text);
    if (bytes > ITEM_BYTES_MAX) throw new HeadgateError("TOO_LARGE", `the item ${key ?? ""} has ${bytes} bytes; the limit is ${ITEM_BYTES_MAX}`);
    const kept = onAccepted || onRejected ? item : undefined; // nobody else asks for it
    return { item: kept, text, bytes, key: latestOnly ? key : undefined, place: this.#engine.place(), added: this.#caller.clock.mono() };
  }
}
