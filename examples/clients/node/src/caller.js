// What clients and readers share: requests that are tried again while that makes sense.

import { HeadgateError, canceled } from "./errors.js";
import { sleep } from "./time.js";
import { Transport } from "./transport.js";

/** @typedef {import("./verdict.js").Answer} Answer */
/** @typedef {import("./transport.js").Request} Request */

/**
 * All times are in milliseconds.
 * @typedef {object} ConnectionOptions
 * @property {number} [timeout] of a call with all its attempts: 30,000
 * @property {number} [attemptTimeout] of one attempt: 10,000
 * @property {number} [backoff] the first pause, which doubles: 250
 * @property {number} [backoffMax] the longest pause: 30,000
 * @property {string} [userAgent] added to the library's own
 * @property {typeof globalThis.fetch} [fetch] an HTTP stack of your own, for proxies and Unix sockets
 */

/**
 * The time, in milliseconds.
 * @typedef {object} Clock
 * @property {() => number} mono is never set
 * @property {() => number} wall since 1970
 * @property {() => number} [lived] goes on while the machine sleeps; undefined: the system's
 */

/** The slowest line on which a body arrives before its attempt is given up: 16 KiB a second. */
const BYTES_PER_MS = 16.384;

/** Calls a Headgate, with pauses between attempts. */
export class Caller {
  #backoff;
  #backoffMax;
  #timeout;

  /**
   * @param {string | undefined} url
   * @param {string | undefined} key
   * @param {string} variable where the key stands in the environment
   * @param {ConnectionOptions} options
   */
  constructor(url, key, variable, { timeout = 30_000, attemptTimeout = 10_000, backoff = 250, backoffMax = 30_000, userAgent, fetch }) {
    const address = url || environment("HEADGATE_URL") || "http://127.0.0.1:8080";
    const secret = key || environment(variable);
    if (!secret) throw new TypeError(`the key is missing; pass one, or set ${variable}`);
    for (const [name, value] of Object.entries({ timeout, attemptTimeout, backoff, backoffMax })) {
      if (typeof value !== "number" || !(value >= 0)) throw new RangeError(`${name} must be a number of milliseconds`);
    }
    this.transport = new Transport(address, secret, userAgent, fetch);
    this.attemptTimeout = attemptTimeout;
    this.#timeout = timeout;
    this.#backoff = backoff;
    this.#backoffMax = Math.max(backoff, backoffMax);
    /** @type {Clock} */
    this.clock = { mono: () => performance.now(), wall: Date.now };
    this.random = Math.random;
    /** Called when the key has changed. @type {Set<() => void>} */
    this.keyed = new Set();
  }

  /** Requests have this key from now on. @param {string} key */
  setKey(key) {
    this.transport.setKey(key);
    for (const told of this.keyed) told();
  }

  /** What so many failures in a row cost: half to all of a pause that doubles. @param {number} failures */
  backoff(failures) {
    return Math.min(this.#backoffMax, this.#backoff * 2 ** Math.min(failures - 1, 60)) * (0.5 + 0.5 * this.random());
  }

  /**
   * How long to wait before the next attempt.
   * @param {HeadgateError} error
   * @param {number} failures
   */
  pause(error, failures) {
    return Math.max(error.retryAfter ?? 0, this.backoff(failures));
  }

  /** How long an attempt may take: a long body takes longer where the line is slow. @param {Uint8Array} [body] */
  within(body) {
    return this.attemptTimeout + (body?.length ?? 0) / BYTES_PER_MS;
  }

  /**
   * @param {Request} request
   * @param {{ timeout?: number, signal?: AbortSignal, bytesMax?: number }} [options]
   * @returns {Promise<Answer>}
   */
  async call(request, { timeout = this.#timeout, signal, bytesMax } = {}) {
    const deadline = performance.now() + timeout;
    for (let failures = 1; ; failures++) {
      if (signal?.aborted) throw canceled(signal);
      const error = await this.#attempt(request, { timeout: Math.max(deadline - performance.now(), 1), signal, bytesMax });
      if (!(error instanceof HeadgateError)) return error;
      if (signal?.aborted) throw canceled(signal);
      const pause = this.pause(error, failures);
      if (!error.retryable || performance.now() + pause >= deadline) throw error;
      await sleep(pause, signal);
    }
  }

  /** @param {Request} request @param {{ timeout: number, signal?: AbortSignal, bytesMax?: number }} options @returns {Promise<Answer | HeadgateError>} */
  async #attempt(request, options) {
    try {
      const answer = await this.transport.call(request, { ...options, timeout: Math.min(options.timeout, this.within(request.body)) });
      return (answer.status === 200 || answer.status === 202) && answer.succeeds ? answer : answer.error(this.clock.wall());
    } catch (error) {
      if (error instanceof HeadgateError) return error;
      throw error;
    }
  }
}

/** @param {string} name @returns {string | undefined} */
function environment(name) {
  return typeof process === "undefined" ? undefined : process.env?.[name] || undefined;
}
