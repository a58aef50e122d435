// The sender of a batcher: one request at a time, each batch until it is accepted, refused or too old.

import { HeadgateError } from "./errors.js";
import { sleep } from "./time.js";
import { receipt, submission } from "./wire.js";
import { background } from "#background";

/** @typedef {import("./queue.js").Batch} Batch */
/** @typedef {import("./wire.js").Receipt} Receipt */
/** @typedef {import("./options.js").Settled} Settled */

/**
 * @typedef {object} Host
 * @property {() => number} clock milliseconds of the wall clock
 * @property {(message: string) => void} log
 * @property {import("./spool.js").Spool} [spool]
 * @property {() => void} changed
 * @property {() => void} landed
 */

/** Headgate knows idempotency keys for 24 hours: what it may have taken must not come again after that. */
const AGE_MS_MAX = 23 * 3600 * 1000;

export class Delivery {
  /** Cut, and, with a spool, on disk. @type {Batch[]} */
  pending = [];
  /** The batch that is on its way, or what it was cut into. @type {Batch[]} */
  current = [];
  accepted = 0;
  rejected = 0;
  retries = 0;
  stopped = false;
  #caller;
  #o;
  #host;
  #ended = new AbortController();
  #going = false;
  #failing = false;
  #losing = false;

  /** @param {import("./caller.js").Caller} caller @param {Settled} options @param {Host} host */
  constructor(caller, options, host) {
    this.#caller = caller;
    this.#o = options;
    this.#host = host;
  }

  now() {
    return this.#host.clock();
  }

  /** Whether there is nothing to send. */
  idle() {
    return !this.current.length && !this.pending.length;
  }

  flying() {
    return this.current.reduce((sum, batch) => sum + batch.items.length, 0);
  }

  /** Sends what is pending, unless that goes on already. */
  async go() {
    if (this.#going || this.stopped || this.idle()) return;
    this.#going = true;
    while (!this.stopped && !this.idle()) {
      if (!this.current.length) this.current = this.pending.splice(0, 1);
      try {
        await this.#deliver(this.current[0]);
      } catch (error) {
        this.#host.log(`a batch could not be sent, and is tried again: ${error}`);
        await this.#rest(1000);
      }
    }
    this.#going = false;
  }

  /** Ends it; what is on its way and not on disk is handed back, in order. */
  stop() {
    this.stopped = true;
    const left = [...this.current, ...this.pending].filter((batch) => !batch.file).map((batch) => batch.items);
    this.current = [];
    this.pending = [];
    this.#ended.abort();
    return left;
  }

  /** @param {Batch} batch */
  async #deliver(batch) {
    const headers = submission(batch.itemKey, batch.idempotencyKey);
    const request = { method: "POST", path: "/api/ingest", headers, body: batch.body() };
    for (let attempt = 0; !this.stopped; attempt++) {
      if (this.#age(batch) > AGE_MS_MAX) return this.#settle(batch, new HeadgateError("EXPIRED", "older than 23 hours, when repeats are forgotten"));
      const outcome = await this.#attempt(request);
      if (this.stopped) return;
      if (!(outcome instanceof HeadgateError)) return this.#settle(batch, outcome);
      if (!outcome.retryable) return this.#refused(batch, outcome);
      this.retries++;
      const pause = this.#caller.pause(outcome, attempt);
      if (!this.#failing) this.#host.log(`a batch was not accepted, and is tried again: ${outcome}`);
      this.#failing = true;
      this.#tell(this.#o.onRetry, outcome, pause);
      await this.#rest(pause);
    }
  }

  /** By whichever clock says more: one stops while the machine sleeps, the other may be set back. @param {Batch} batch */
  #age(batch) {
    return Math.max(this.now() - batch.born, performance.now() - batch.added);
  }

  /** @param {import("./transport.js").Request} request @returns {Promise<Receipt | HeadgateError>} */
  async #attempt(request) {
    try {
      const { transport, attemptTimeout: timeout } = this.#caller;
      return receipt(await transport.call(request, { timeout, signal: this.#ended.signal, background: true, through: background }));
    } catch (error) {
      if (error instanceof HeadgateError) return error;
      throw error;
    }
  }

  /** @param {number} pause */
  #rest(pause) {
    return sleep(pause, this.#ended.signal, true);
  }

  /** @param {Batch} batch @param {HeadgateError} error */
  async #refused(batch, error) {
    const parts = error.status === 400 || error.status === 413 ? batch.cut(error) : [];
    if (!parts.length) return this.#settle(batch, error);
    this.current.splice(0, 1, ...parts);
  }

  /** @param {Batch} batch @param {Receipt | HeadgateError} outcome */
  async #settle(batch, outcome) {
    if (outcome instanceof HeadgateError) {
      this.reject(batch.items, outcome);
    } else {
      this.accepted += batch.items.length;
      if (this.#failing) this.#host.log("batches are accepted again");
      this.#failing = this.#losing = false;
      this.#tell(this.#o.onAccepted, outcome, batch.items);
    }
    const { file } = batch;
    if (file && --file.parts === 0) await this.#host.spool?.delete(file.path);
    if (this.stopped) return;
    this.current.shift();
    this.#host.landed();
    this.#host.changed();
  }

  /** Hands items over that will not be sent any more. @param {unknown[]} items @param {HeadgateError} error */
  reject(items, error) {
    this.rejected += items.length;
    if (!this.#losing) this.#host.log(`${items.length} items were not accepted; further ones are not logged until some are: ${error}`);
    this.#losing = true;
    this.#tell(this.#o.onRejected, items, error);
  }

  /** @param {unknown[]} items */
  giveUp(items) {
    this.reject(items, new HeadgateError("CLOSED", "not accepted when closed", { retryable: true }));
  }

  /** Writes a batch to the spool; its path, or undefined: it was closed before that, and the items are handed over. @param {Batch} batch */
  async write(batch) {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#host.spool?.write(batch);
      } catch (/** @type {any} */ why) {
        if (this.stopped) return this.giveUp(batch.items);
        const error = new HeadgateError("SPOOL", `a batch cannot be written to the spool: ${why.message}`, { retryable: true, cause: why });
        const pause = this.#caller.pause(error, attempt);
        if (!attempt) this.#host.log(`${error}; it is tried again`);
        this.#tell(this.#o.onRetry, error, pause);
        await this.#rest(pause);
      }
    }
  }

  /** @template {any[]} T @param {((...told: T) => unknown) | undefined} callback @param {T} told */
  #tell(callback, ...told) {
    const failed = (/** @type {unknown} */ error) => this.#host.log(`a callback of the batcher failed: ${error}`);
    try {
      const answer = callback?.(...told);
      if (answer instanceof Promise) answer.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}
