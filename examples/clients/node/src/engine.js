// What a batcher holds, and what it does with it: items that wait, batches that are cut of them and written, and the sender.
//
// What is done and when is in pairs of methods (`…Due` and `…Turn`). Two pumps take the turns, so that with a spool batches
// are written also while a request is on its way.

import { Delivery } from "./delivery.js";
import { HeadgateError, canceled, closed } from "./errors.js";
import { unwatch, watch } from "./leave.js";
import { Batch, Queue, bodyOf } from "./queue.js";
import { after, hold, soon } from "./time.js";
import { bytesOf } from "./encode.js";
import { uuid7 } from "./uuid.js";

/** @typedef {import("./caller.js").Caller} Caller */
/** @typedef {import("./options.js").FlushResult} FlushResult */
/** @typedef {import("./options.js").Settled} Settled */
/** @typedef {import("./options.js").Stats} Stats */
/** @typedef {import("./queue.js").Entry} Entry */
/** @typedef {import("./spool.js").Spool} Spool */

/**
 * An `add` whose item has no room yet.
 * @typedef {{ entry: Entry, end: (error?: HeadgateError) => void }} Waiter
 */

/**
 * @typedef {object} Host
 * @property {(message: string) => void} log
 * @property {Spool} [spool]
 * @property {import("./leave.js").Leaving} batcher whose program may end
 * @property {boolean} [still] somebody else takes the turns
 */

const EXIT_MS = 5000;
/** While older batches wait for the connection, so long at least: or an outage makes millions of small files. */
const LINGER_BEHIND_MS = 1000;
const WRITE_AGAIN_MS = 1000;
const LOOK_MS = 10_000;
const ADDED = Promise.resolve();

const full = () => new HeadgateError("FULL", "the queue is full", { retryable: true });
const notAccepted = () => new HeadgateError("CLOSED", "the batcher was closed before Headgate accepted the item", { retryable: true });

/** Takes turns when they are due, one after the other, in the background. */
class Pump {
  #clock;
  #due;
  #turn;
  #busy = false;
  #at = Infinity;
  #untimed = () => {};

  /** @param {import("./caller.js").Clock} clock @param {() => number} due @param {() => Promise<void>} turn */
  constructor(clock, due, turn) {
    this.#clock = clock;
    this.#due = due;
    this.#turn = turn;
  }

  /** Something has changed. */
  wake() {
    if (this.#busy) return;
    const at = this.#due();
    const left = at - this.#clock.mono();
    if (left <= 0) return void this.#run();
    if (at === this.#at) return;
    this.#untimed();
    this.#at = at;
    this.#untimed = at === Infinity ? () => {} : after(left, () => this.#again(), true);
  }

  #again() {
    this.#at = Infinity;
    this.wake();
  }

  async #run() {
    this.#busy = true;
    this.#untimed();
    this.#at = Infinity;
    while (this.#due() - this.#clock.mono() <= 0) await this.#turn();
    this.#busy = false;
    this.wake();
  }
}

export class Engine {
  delivery;
  #caller;
  #o;
  #host;
  /** @type {Spool | undefined} */
  #spool;
  #queue = new Queue();
  /** @type {Waiter[]} */
  #waiters = [];
  /** Batches that the disk has not taken. @type {Batch[]} */
  #unwritten = [];
  #unwrittenBytes = 0;
  #writeAt = -Infinity;
  #lookAt;
  /** @type {Set<() => unknown>} */
  #watchers = new Set();
  #places = 0;
  #flushTo = -1;
  #dropped = 0;
  #replaced = 0;
  #closing = false;
  /** @type {Pump[]} */
  #pumps = [];

  /** @param {Caller} caller @param {Settled} options @param {Host} host */
  constructor(caller, options, host) {
    this.#caller = caller;
    this.#o = options;
    this.#host = host;
    this.#spool = host.spool;
    this.delivery = new Delivery(caller, options, { log: host.log, spool: host.spool, landed: this.#landed, changed: this.step });
    const now = caller.clock.mono();
    this.#lookAt = now + LOOK_MS;
    for (const { key, bytes } of host.spool?.left.splice(0) ?? []) {
      const batch = new Batch({ key, first: -1, added: now, count: 0, bytes });
      this.delivery.line.push(batch);
      this.delivery.came(batch);
    }
    if (!host.still) {
      this.#pumps.push(new Pump(caller.clock, () => this.sendDue(), () => this.sendTurn()));
      if (host.spool) this.#pumps.push(new Pump(caller.clock, () => this.writeDue(), () => this.writeTurn()));
    }
    if (this.delivery.line.length) watch(host.batcher);
    caller.keyed.add(this.tryNow);
    this.step();
  }

  #now() {
    return this.#caller.clock.mono();
  }

  /** The place of an item among all that were ever added. */
  place() {
    return this.#places++;
  }

  /** @param {Entry} entry @param {AbortSignal} [signal] @returns {Promise<void>} */
  add(entry, signal) {
    if (this.#closing) throw closed();
    if (signal?.aborted) throw canceled(signal);
    if (!this.#waiters.length && this.#admit(entry)) {
      if (this.#queue.length === 1 || this.#fills()) this.step();
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
    if (this.#isFull(entry.bytes)) return false;
    this.#queue.push(entry);
    watch(this.#host.batcher);
    return true;
  }

  /** Whether there is no room for an item of this length; one that is longer than all of it is let in alone. @param {number} bytes */
  #isFull(bytes) {
    const waiting = this.#queue.bytes + this.#unwrittenBytes;
    if (waiting && waiting + bytes > this.#o.queueBytes) return true;
    const held = waiting + this.delivery.fileBytes;
    return this.#spool !== undefined && held > 0 && held + bytes > this.#o.spoolBytes;
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
    for (const item of dropped) this.delivery.giveUp([item], new HeadgateError("DROPPED", "the queue was full, so this item, the oldest, was dropped"));
    this.step();
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
      this.step();
    });
  }

  /** @param {number} timeout @returns {Promise<FlushResult>} */
  async flush(timeout) {
    const target = this.flushAll();
    const open = () => !this.flushed(target) && !this.delivery.stopped;
    if (open() && timeout > 0) await this.#until(() => !open(), timeout);
    return this.result(target);
  }

  /** What waits goes without its linger; the place of the last of it. */
  flushAll() {
    const target = this.#places - 1;
    this.#flushTo = Math.max(this.#flushTo, target);
    this.step();
    return target;
  }

  /** @param {number} target */
  flushed(target) {
    return this.#oldestPlace() > target;
  }

  /** @param {number} target @returns {FlushResult} */
  result(target) {
    const { state, code } = this.delivery;
    return { done: this.flushed(target), queued: this.#queued(), inFlight: this.#flying(), spooled: this.delivery.spooled().spooled, state, code };
  }

  /** @param {number} timeout @returns {Promise<FlushResult>} */
  async close(timeout) {
    this.beginClose();
    const result = await this.flush(timeout);
    this.stop();
    // What waits for the disk gets there, as long as the disk takes it.
    if (this.writeDue() < Infinity || this.#unwritten.length) await this.#until(() => this.writeDue() === Infinity && !this.#unwritten.length, EXIT_MS);
    return this.finish(result);
  }

  beginClose() {
    this.#closing = true;
  }

  /** What is in memory only is handed over, but what waits for the disk: that is still written. */
  stop() {
    if (this.delivery.stopped) return;
    const left = this.delivery.stop();
    for (const batch of this.#unwritten.filter(({ writing }) => !writing)) this.#forgetUnwritten(batch);
    while (!this.#spool && this.#queue.length) left.push(this.#take().map(({ item }) => item));
    for (const waiter of this.#waiters.splice(0)) waiter.end(closed());
    for (const items of left) this.delivery.giveUp(items, notAccepted());
    this.step();
  }

  /** @param {FlushResult} result @returns {Promise<FlushResult>} */
  async finish(result) {
    const spool = this.#spool;
    this.#spool = undefined;
    this.#caller.keyed.delete(this.tryNow);
    await spool?.close();
    unwatch(this.#host.batcher);
    return { ...result, spooled: this.delivery.files };
  }

  /** @returns {Stats} */
  get stats() {
    const { accepted, rejected, retries, damaged, state, code, hand, line } = this.delivery;
    const times = [hand?.batch, line[0], this.#queue.first].flatMap((each) => each?.added ?? []);
    return {
      queued: this.#queued(),
      inFlight: this.#flying(),
      accepted,
      rejected,
      dropped: this.#dropped,
      replaced: this.#replaced,
      retries,
      oldest: times.length ? this.#now() - Math.min(...times) : 0,
      ...this.delivery.spooled(),
      damaged,
      rejectedLost: this.#host.spool?.rejectedLost ?? 0,
      state,
      code,
    };
  }

  /** Items in memory that are not in hand. */
  #queued() {
    const hand = this.delivery.hand?.batch;
    return this.#unwritten.reduce((sum, batch) => sum + (batch === hand ? 0 : batch.count), this.#queue.length);
  }

  #flying() {
    const { hand } = this.delivery;
    return hand ? hand.batch.count - hand.part[0] : 0;
  }

  #oldestPlace() {
    const oldest = this.delivery.hand?.batch ?? this.delivery.line[0];
    return oldest?.first ?? this.#queue.first?.place ?? this.#waiters[0]?.entry.place ?? Infinity;
  }

  /** Something has changed: lets items in, lets the pumps see what is due, tells who waits. */
  step = () => {
    while (this.#waiters.length && this.#admit(this.#waiters[0].entry)) /** @type {Waiter} */ (this.#waiters.shift()).end();
    for (const pump of this.#pumps) pump.wake();
    if (this.#oldestPlace() === Infinity) unwatch(this.#host.batcher);
    for (const watcher of this.#watchers) watcher();
  };

  /** The client has another key. */
  tryNow = () => {
    this.delivery.tryNow();
    this.step();
  };

  /** A batch is settled: without a spool, what gathered meanwhile goes at once. @param {Batch} batch */
  #landed = (batch) => {
    if (!this.#spool) this.#flushTo = Math.max(this.#flushTo, this.#places - 1);
    this.#forgetUnwritten(batch);
    this.step();
  };

  /** @param {Batch} batch */
  #forgetUnwritten(batch) {
    const at = this.#unwritten.indexOf(batch);
    if (at < 0) return;
    this.#unwritten.splice(at, 1);
    this.#unwrittenBytes -= batch.bytes;
  }

  /** When a batch is to be sent. */
  sendDue() {
    const { delivery } = this;
    if (this.#spool || delivery.stopped || delivery.hand || delivery.line.length) return delivery.due();
    return Math.max(this.#cutDue(), delivery.resume);
  }

  async sendTurn() {
    const { delivery } = this;
    if (!this.#spool && !delivery.hand && !delivery.line.length && this.#queue.length) delivery.line.push(this.#cut());
    await delivery.turn();
    this.step();
  }

  /** When a batch is to be cut or written, or the folder looked at. */
  writeDue() {
    if (!this.#spool) return Infinity;
    if (this.delivery.stopped) return this.#queue.length ? -Infinity : Infinity;
    return Math.min(this.#cutDue(), this.#unwritten.length ? this.#writeAt : Infinity, this.#lookAt);
  }

  async writeTurn() {
    const spool = this.#spool;
    if (!spool) return;
    const now = this.#now();
    if (this.#queue.length && (this.delivery.stopped || this.#cutDue() <= now)) {
      const batch = this.#cut();
      this.#unwritten.push(batch);
      this.#unwrittenBytes += batch.bytes;
      if (!this.delivery.stopped) this.delivery.line.push(batch);
      await this.#write(spool, batch);
    } else if (this.#unwritten.length && this.#writeAt <= now) await this.#write(spool, this.#unwritten[0]);
    else if (now >= this.#lookAt) await this.#look(spool);
  }

  /** Puts a batch on disk. One that the disk does not take is sent from memory when its turn comes. @param {Spool} spool @param {Batch} batch */
  async #write(spool, batch) {
    batch.writing = true;
    const { content } = batch;
    const writing = content ? spool.write(batch.key, content, this.#caller.clock.wall()) : Promise.reject(new Error("nothing to write"));
    batch.whenWritten = writing.catch(() => {});
    /** @type {unknown} */
    let why;
    try {
      const bytes = await writing;
      this.#forgetUnwritten(batch);
      batch.bytes = bytes;
      this.delivery.came(batch);
      if (this.delivery.line[0] !== batch) batch.content = undefined; // it is read again when its turn comes
    } catch (error) {
      why = error;
      this.#writeAt = this.#now() + WRITE_AGAIN_MS;
    }
    batch.writing = false;
    batch.whenWritten = undefined;
    if (why || !this.#unwritten.length) this.delivery.disk("write", why);
    if (why && this.delivery.stopped) {
      this.#forgetUnwritten(batch);
      this.delivery.giveUp(content?.items ?? [], notAccepted());
    }
    this.step();
  }

  /** Whether the folder is still this program's. @param {Spool} spool */
  async #look(spool) {
    this.#lookAt = this.#now() + LOOK_MS;
    if (spool.holds()) return;
    this.#host.log(`another program now uses the spool ${spool.folder}, so this batcher stops; give each program its own spool`);
    this.beginClose();
    this.stop();
    await this.finish(this.result(-1));
  }

  /** When the next batch is to be cut. */
  #cutDue() {
    const { first } = this.#queue;
    if (!first) return Infinity;
    if (first.place <= this.#flushTo || this.#waiters.length || this.#fills()) return -Infinity;
    const behind = this.#spool && (this.delivery.hand || this.delivery.line.length);
    return first.added + (behind ? Math.max(this.#o.linger, LINGER_BEHIND_MS) : this.#o.linger);
  }

  #bytesMax() {
    return Math.min(this.#o.maxBytes, this.delivery.bytesMax);
  }

  #fills() {
    return this.#queue.fills(this.#o.maxItems, this.#bytesMax());
  }

  #take() {
    return this.#queue.take(this.#o.maxItems, this.#bytesMax());
  }

  #cut() {
    const entries = this.#take();
    const texts = entries.map((entry) => entry.text);
    const text = bodyOf(texts);
    const content = { items: entries.map((entry) => entry.item), texts, text, itemKey: this.#o.itemKey, stream: this.#spool && this.delivery.stream };
    const { place: first, added } = entries[0];
    return new Batch({ key: uuid7(this.#caller.clock.wall()), first, added, count: texts.length, bytes: bytesOf(text), content });
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
