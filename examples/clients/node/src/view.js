// A stream's items as a map that stays current.

/// <reference lib="esnext.disposable" preserve="true" />

import { HeadgateError } from "./errors.js";
import { resumable } from "./follow.js";
import { after } from "./time.js";
import { isItem } from "./wire.js";

/** @typedef {import("./follow.js").Message} Message */
/** @typedef {import("./wire.js").Item} Item */

/**
 * Made by `reader.view()`: items by key, read like a Map.
 *
 * After a lost connection, until a new snapshot is complete, it keeps its items and is `stale`.
 * Invariant: the position that a connection resumes from and the items belong together, so resuming misses nothing.
 */
export class View {
  #ended;
  #onChange;
  #log;
  /** @type {Map<string, Item>} */
  #items = new Map();
  /** Keys of the snapshot that is arriving. @type {Set<string> | undefined} */
  #seen;
  #complete = false;
  #late = false;
  #synced = false;
  #resumable = false;
  /** @type {HeadgateError | undefined} */
  #error;
  /** @type {Set<() => void>} */
  #watchers = new Set();
  #running;

  /**
   * @param {string} stream
   * @param {AsyncIterable<Message | undefined>} messages
   * @param {AbortController} ended
   * @param {{ onChange?: (items: Item[], removed: string[]) => unknown, log: (message: string) => void }} options
   */
  constructor(stream, messages, ended, { onChange, log }) {
    this.stream = stream;
    this.#ended = ended;
    this.#onChange = onChange;
    this.#log = log;
    this.#running = this.#run(messages);
  }

  /** Whether all items of the stream are known. */
  get complete() {
    return this.#complete;
  }

  /** Whether the items may be old: the connection is lost, or the stream's source went quiet. */
  get stale() {
    return this.#late || !this.#synced;
  }

  /** The error that ended it: the key or the stream was rejected. */
  get error() {
    return this.#error;
  }

  get size() {
    return this.#items.size;
  }

  /** @param {string} key */
  get(key) {
    return this.#items.get(key);
  }

  /** @param {string} key */
  has(key) {
    return this.#items.has(key);
  }

  keys() {
    return this.#items.keys();
  }

  values() {
    return this.#items.values();
  }

  entries() {
    return this.#items.entries();
  }

  [Symbol.iterator]() {
    return this.#items.entries();
  }

  /** @param {(item: Item, key: string, view: View) => unknown} call */
  forEach(call) {
    for (const [key, item] of this.#items) call(item, key, this);
  }

  /**
   * Waits until the view is complete; returns whether it is. Throws the error that ended it.
   * @param {number} [timeout] in milliseconds
   * @returns {Promise<boolean>}
   */
  async wait(timeout = 30_000) {
    const over = () => this.#complete || this.#error !== undefined || this.#ended.signal.aborted;
    if (!over()) {
      await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        const end = () => {
          this.#watchers.delete(watcher);
          stop();
          resolve();
        };
        const watcher = () => over() && end();
        const stop = after(timeout, end);
        this.#watchers.add(watcher);
      });
    }
    if (this.#error) throw this.#error;
    return this.#complete;
  }

  /** Ends the view, which keeps its items. @returns {Promise<void>} */
  async close() {
    this.#ended.abort();
    await this.#running;
  }

  /** For `await using`. @returns {Promise<void>} */
  async [Symbol.asyncDispose]() {
    await this.close();
  }

  toString() {
    return `headgate.View(${JSON.stringify(this.stream)}, ${this.size} items${this.stale ? ", stale" : ""})`;
  }

  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.toString();
  }

  /** @param {AsyncIterable<Message | undefined>} messages */
  async #run(messages) {
    try {
      for await (const message of messages) {
        if (!message) this.#cutOff();
        else if ((message.stream ?? this.stream) === this.stream) this.#apply(message);
      }
    } catch (error) {
      this.#error = error instanceof HeadgateError ? error : new HeadgateError("UNEXPECTED_ANSWER", String(error));
      this.#log(`the view of ${this.stream} has ended: ${error}`);
    }
    this.#cutOff();
  }

  #changed() {
    for (const watcher of this.#watchers) watcher();
  }

  #cutOff() {
    // A snapshot that broke off counts for nothing, unless the position says that what was there holds.
    if (this.#seen) this.#complete = this.#resumable;
    this.#seen = undefined;
    this.#synced = false;
    this.#changed();
  }

  /** @param {Message} message */
  #apply(message) {
    const { type, id } = message;
    const items = (message.items ?? []).filter(isItem);
    /** @type {string[]} */
    let removed = [];
    if (type === "reset") {
      this.#complete = this.#synced = false;
      this.#seen = undefined;
    } else if (type === "heartbeat") this.#synced = this.#complete;
    else if (type === "remove") removed = (message.keys ?? []).filter((key) => this.#items.delete(key));
    else if (["snapshot", "update", "stale", "fresh"].includes(type)) this.#late = type === "stale";
    if (type === "snapshot" || type === "update") removed = this.#put(items, type === "snapshot", message.complete === true);
    if (id !== undefined) this.#resumable = resumable(id) !== undefined;
    this.#changed();
    if (items.length || removed.length) this.#tell(items, removed);
  }

  /**
   * Takes items in; the keys that a snapshot, at its end, has shown to be gone.
   * @param {Item[]} items
   * @param {boolean} snapshot
   * @param {boolean} complete
   */
  #put(items, snapshot, complete) {
    if (snapshot && !this.#seen) {
      this.#seen = new Set();
      this.#complete = false;
    }
    const seen = this.#seen;
    for (const item of items) {
      if (seen && !seen.has(item.key)) {
        this.#items.delete(item.key); // takes the order of the snapshot
        seen.add(item.key);
      }
      this.#items.set(item.key, item);
    }
    if (!complete || !seen) return [];
    const removed = [...this.#items.keys()].filter((key) => !seen.has(key));
    for (const key of removed) this.#items.delete(key);
    this.#seen = undefined;
    this.#complete = this.#synced = true;
    return removed;
  }

  /** @param {Item[]} items @param {string[]} removed */
  #tell(items, removed) {
    const failed = (/** @type {unknown} */ error) => this.#log(`a callback of the view raised an error: ${error}`);
    try {
      const answer = this.#onChange?.(items, removed);
      if (answer instanceof Promise) answer.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}
