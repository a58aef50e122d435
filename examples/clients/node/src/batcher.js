// The batcher: items one at a time, sent in batches in the background.
//
// What is sent, and how often it is tried, is the business of Delivery; here is what the program sees, what waits, and
// when a batch is cut. With a spool a batch is cut also while a request is on its way, and sent once its file is there.

/// <reference lib="esnext.disposable" preserve="true" />

import { Delivery } from "./delivery.js";
import { bytesOf, encodeItem, keyOf } from "./encode.js";
import { HeadgateError, canceled, closed } from "./errors.js";
import { unwatch, watch } from "./leave.js";
import { BODY_BYTES_MAX, settled } from "./options.js";
import { Batch, Queue } from "./queue.js";
import { after, hold, soon } from "./time.js";
import { uuid7 } from "./uuid.js";
import { Spool } from "#spool";

/** @typedef {import("./caller.js").Caller} Caller */
/** @typedef {import("./options.js").BatcherOptions} BatcherOptions */
/** @typedef {import("./options.js").FlushResult} FlushResult */
/** @typedef {import("./options.js").Stats} Stats */
/** @typedef {import("./queue.js").Entry} Entry */

/**
 * An `add` whose item has no room yet.
 * @typedef {{ entry: Entry, end: (error?: HeadgateError) => void }} Waiter
 */

const EXIT_MS = 5000;
/** With the brackets of a list it is a whole body. */
const ITEM_BYTES_MAX = BODY_BYTES_MAX - 2;
const ADDED = Promise.resolve();

const full = () => new HeadgateError("FULL", "the queue is full", { retryable: true });

/**
 * Made by `client.batcher()`.
 *
 * **What it holds is in memory: a crash loses it, unless there is a spool.** What waits when the program ends normally is
 * flushed for at most 5 seconds. Callbacks are not awaited.
 */
export class Batcher {
  #o;
  #queue = new Queue();
  #delivery;
  #spool;
  /** @type {Waiter[]} */
  #waiters = [];
  /** What the spool is written from. @type {Batch | undefined} */
  #writing;
  /** @type {Set<() => unknown>} */
  #watchers = new Set();
  #places = 0;
  #flushTo = -1;
  #dropped = 0;
  #replaced = 0;
  #closing = false;
  #closed;
  /** The item whose linger is waited for. @type {Entry | undefined} */
  #awaited;
  #untimed = () => {};

  /**
   * @param {Caller} caller
   * @param {BatcherOptions} options
   * @param {{ clock: () => number, log: (message: string) => void }} host
   * @param {(batcher: Batcher) => void} closed told when it is
   */
  constructor(caller, options, { clock, log }, closed) {
    this.#closed = closed;
    this.#o = settled(options);
    this.#spool = options.spool === undefined ? undefined : new Spool(options.spool, log);
    this.#delivery = new Delivery(caller, this.#o, { clock, log, spool: this.#spool, changed: this.#step, landed: this.#landed });
    const added = performance.now();
    for (const { created: born, path, ...kept } of this.#spool?.left() ?? []) {
      const batch = new Batch({ ...kept, first: -1, added, born });
      this.#delivery.pending.push(Object.assign(batch, { file: { path, parts: 1 } }));
    }
    this.#step();
  }

  /**
   * Puts an item into the queue. It is encoded here, so that one that cannot be sent fails here. When the queue is full
   * this waits (or what `whenFull` says): await it.
   * @param {object} item
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<void>}
   */
  add(item, { signal } = {}) {
    try {
      return this.#add(this.#entry(item), signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** @param {Entry} entry @param {AbortSignal} [signal] @returns {Promise<void>} */
  #add(entry, signal) {
    if (this.#closing) throw closed();
    if (signal?.aborted) throw canceled(signal);
    if (!this.#waiters.length && this.#admit(entry)) {
      this.#step();
      return ADDED;
    }
    switch (this.#o.whenFull) {
      case "fail":
        throw full();
      case "dropOldest":
        return this.#dropFor(entry);
      default:
        return this.#wait(entry, signal);
    }
  }

  /** Lets an item in, if there is room. @param {Entry} entry */
  #admit(entry) {
    if (this.#queue.replace(entry)) {
      this.#replaced++;
      return true;
    }
    const waiting = this.#waitingBytes();
    if (waiting && waiting + entry.bytes > this.#o.queueBytes) return false;
    this.#queue.push(entry);
    watch(this);
    return true;
  }

  /** @param {Entry} entry @returns {Promise<void>} */
  #dropFor(entry) {
    const dropped = [];
    let admitted = false;
    while (!admitted && this.#queue.length) {
      dropped.push(this.#queue.pop().item);
      admitted = this.#admit(entry);
    }
    this.#dropped += dropped.length;
    for (const item of dropped) this.#delivery.reject([item], new HeadgateError("DROPPED", "the queue was full, and this was the oldest"));
    this.#step();
    if (!admitted) throw full();
    return new Promise((resolve) => soon(resolve)); // a loop that adds must not keep what is sent from being sent
  }

  /** @param {Entry} entry @param {AbortSignal} [signal] @returns {Promise<void>} */
  #wait(entry, signal) {
    const release = hold();
    return new Promise((resolve, reject) => {
      const cancel = () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        waiter.end(canceled(/** @type {AbortSignal} */ (signal)));
      };
      /** @type {Waiter} */
      const waiter = {
        entry,
        end: (error) => {
          release();
          signal?.removeEventListener("abort", cancel);
          if (error) reject(error);
          else resolve();
        },
      };
      signal?.addEventListener("abort", cancel, { once: true });
      this.#waiters.push(waiter);
      this.#step();
    });
  }

  /**
   * Everything added before is accepted or rejected, or the time is over: it says which, and fails at nothing.
   * @param {number} [timeout]
   * @returns {Promise<FlushResult>}
   */
  async flush(timeout = 30_000) {
    const target = this.#places - 1;
    this.#flushTo = Math.max(this.#flushTo, target);
    this.#step();
    const open = () => this.#oldestPlace() <= target && !this.#delivery.stopped;
    if (open() && timeout > 0) await this.#until(() => !open(), timeout);
    return { done: this.#oldestPlace() > target, queued: this.#queued(), inFlight: this.#delivery.flying() };
  }

  /**
   * Flushes and stops. What is left is rejected with `CLOSED`; with a spool it stays in its files.
   * @param {number} [timeout]
   * @returns {Promise<FlushResult>}
   */
  async close(timeout = 30_000) {
    this.#closing = true;
    const result = await this.flush(timeout);
    if (!this.#delivery.stopped) {
      const left = this.#delivery.stop();
      if (!this.#spool && this.#queue.length) left.push(this.#queue.take(Infinity, Infinity).map((entry) => entry.item));
      for (const waiter of this.#waiters.splice(0)) waiter.end(closed());
      for (const items of left) this.#delivery.giveUp(items);
      this.#step();
    }
    await this.#written();
    unwatch(this);
    this.#closed(this);
    return result;
  }

  /** What waits for the disk gets there, as long as the disk takes it. */
  async #written() {
    if (!this.#spool || !this.#writing) return;
    await this.#until(() => !this.#writing, EXIT_MS);
  }

  /** Counts, and how long the oldest item has been here. @returns {Stats} */
  get stats() {
    const { accepted, rejected, retries } = this.#delivery;
    const times = [this.#delivery.current[0], ...this.#waiting(), this.#queue.first].flatMap((each) => each?.added ?? []);
    const oldest = times.length ? performance.now() - Math.min(...times) : 0;
    return {
      queued: this.#queued(),
      inFlight: this.#delivery.flying(),
      accepted,
      rejected,
      dropped: this.#dropped,
      replaced: this.#replaced,
      retries,
      oldest,
    };
  }

  toString() {
    return `headgate.Batcher(${this.#queued()} queued, ${this.#delivery.flying()} in flight)`;
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
    if (bytes > ITEM_BYTES_MAX) throw new HeadgateError("TOO_LARGE", `the item ${key ?? ""} has ${bytes} bytes, of ${ITEM_BYTES_MAX} that may be`);
    const kept = onAccepted || onRejected ? item : undefined; // nobody else asks for it
    return { item: kept, text, bytes, key: latestOnly ? key : undefined, place: this.#places++, added: performance.now() };
  }

  /** Batches that are cut, and not on their way. */
  #waiting() {
    return this.#writing ? [...this.#delivery.pending, this.#writing] : this.#delivery.pending;
  }

  #waitingBytes() {
    return this.#waiting().reduce((sum, batch) => sum + batch.bytes, this.#queue.bytes);
  }

  #queued() {
    return this.#waiting().reduce((sum, batch) => sum + batch.items.length, this.#queue.length);
  }

  #oldestPlace() {
    const oldest = this.#delivery.current[0] ?? this.#waiting()[0];
    return oldest?.first ?? this.#queue.first?.place ?? this.#waiters[0]?.entry.place ?? Infinity;
  }

  /** Does what is to be done now: lets items in, cuts batches, sends, writes, tells who waits. */
  #step = () => {
    do {
      while (this.#waiters.length && this.#admit(this.#waiters[0].entry)) /** @type {Waiter} */ (this.#waiters.shift()).end();
    } while (this.#cutDue() && this.#cut());
    this.#await(this.#mayCut() ? this.#queue.first : undefined);
    this.#delivery.go();
    if (this.#oldestPlace() === Infinity) unwatch(this);
    for (const watcher of this.#watchers) watcher();
  };

  /** Looks again when the linger of an item is over. @param {Entry | undefined} first */
  #await(first) {
    if (first === this.#awaited) return;
    this.#awaited = first;
    this.#untimed();
    if (!first) return;
    const again = () => {
      this.#awaited = undefined;
      this.#step();
    };
    this.#untimed = after(first.added + this.#o.linger - performance.now(), again, true);
  }

  /** A batch is settled: what gathered meanwhile goes at once. */
  #landed = () => {
    if (!this.#spool) this.#flushTo = Math.max(this.#flushTo, this.#places - 1);
  };

  /** Without a spool a batch is cut when it can be sent; with one, when its file can be written. */
  #mayCut() {
    return this.#spool ? !this.#writing : !this.#delivery.stopped && this.#delivery.idle();
  }

  #cutDue() {
    const { first } = this.#queue;
    if (!first || !this.#mayCut()) return false;
    return (
      first.place <= this.#flushTo ||
      this.#waiters.length > 0 ||
      this.#delivery.stopped ||
      performance.now() >= first.added + this.#o.linger ||
      this.#queue.fills(this.#o.maxItems, this.#o.maxBytes)
    );
  }

  #cut() {
    const entries = this.#queue.take(this.#o.maxItems, this.#o.maxBytes);
    const { place: first, added } = entries[0];
    const items = entries.map((entry) => entry.item);
    const texts = entries.map((entry) => entry.text);
    const batch = new Batch({ items, texts, itemKey: this.#o.itemKey, idempotencyKey: uuid7(), first, added, born: this.#delivery.now() });
    if (this.#spool) {
      this.#writing = batch;
      this.#write(batch);
    } else this.#delivery.pending.push(batch);
    return true;
  }

  /** Puts a batch on disk, however long the disk does not take it; then it may be sent. @param {Batch} batch */
  async #write(batch) {
    const path = await this.#delivery.write(batch);
    this.#writing = undefined;
    if (path !== undefined) {
      batch.file = { path, parts: 1 };
      if (!this.#delivery.stopped) this.#delivery.pending.push(batch);
    }
    this.#step();
  }

  /** Waits, so long at most. @param {() => boolean} holds @param {number} timeout */
  async #until(holds, timeout) {
    const release = hold();
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      const end = () => {
        this.#watchers.delete(watcher);
        stop();
        resolve();
      };
      const watcher = () => holds() && end();
      const stop = after(timeout, end);
      this.#watchers.add(watcher);
      watcher();
    });
    release();
  }
}
