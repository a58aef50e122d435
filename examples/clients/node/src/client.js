// The client: one stream's sender, with retries that never double anything.

/// <reference lib="esnext.disposable" preserve="true" />

import { Batcher } from "./batcher.js";
import { Caller } from "./caller.js";
import { bytesOf, encodeItem } from "./encode.js";
import { HeadgateError, canceled, invalid } from "./errors.js";
import { RawJson } from "./json.js";
import { BODY_BYTES_MAX } from "./options.js";
import { bodyOf } from "./queue.js";
import { sleep } from "./time.js";
import { uuid4 } from "./uuid.js";
import { mismatch, receiptOf } from "./verdict.js";
import { ingestPath, requestState, segment, submission } from "./wire.js";

/** @typedef {import("./caller.js").ConnectionOptions} ConnectionOptions */
/** @typedef {import("./options.js").BatcherOptions} BatcherOptions */
/** @typedef {import("./wire.js").Receipt} Receipt */
/** @typedef {import("./wire.js").RequestState} RequestState */

/**
 * @typedef {object} OwnOptions
 * @property {(message: string) => void} [log] for warnings: `console.warn`
 */

/**
 * @typedef {object} CallOptions
 * @property {number} [timeout] in milliseconds, with all attempts
 * @property {AbortSignal} [signal] ends the call, with the code `CANCELED`
 */

/**
 * @typedef {object} SubmitOptions
 * @property {string} [idempotencyKey] default: a random one for all attempts of the call
 */

/**
 * @typedef {object} ItemOptions
 * @property {string} [itemKey] the field that identifies each item
 * @property {string} [stream] only a check: a key for another stream is rejected
 */

/**
 * Sends items to one stream of a Headgate. Where they are missing, the environment has `url` and `key`:
 * `HEADGATE_URL`, `HEADGATE_KEY`. All times are in milliseconds.
 */
export class Client {
  #caller;
  #log;
  /** @type {Set<Batcher>} */
  #batchers = new Set();

  /**
   * @param {string} [url] like `http://host:port` or `https://host`
   * @param {string} [key] an ingest key
   * @param {ConnectionOptions & OwnOptions} [options]
   */
  constructor(url, key, { log = (message) => console.warn(`headgate: ${message}`), ...options } = {}) {
    this.#caller = new Caller(url, key, "HEADGATE_KEY", options);
    this.#log = log;
  }

  /**
   * Sends one object, or several in one request. Resolves when they are on disk.
   * @param {object | Iterable<object>} items
   * @param {CallOptions & SubmitOptions & ItemOptions} [options]
   * @returns {Promise<Receipt>}
   */
  async send(items, { itemKey, idempotencyKey = uuid4(), stream, timeout, signal } = {}) {
    const { text, count } = encoded(items);
    const bytes = bytesOf(text);
    if (bytes > BODY_BYTES_MAX) throw new HeadgateError("TOO_LARGE", `the body has ${bytes} bytes, and the limit is ${BODY_BYTES_MAX}; send fewer items per request`);
    const headers = submission(itemKey, idempotencyKey);
    const body = new TextEncoder().encode(text);
    const answer = await this.#caller.call({ method: "POST", path: ingestPath(stream), headers, body }, { timeout, signal });
    const receipt = this.#receipt(answer);
    if (receipt.replayed && count !== undefined && receipt.itemsReceived !== count) throw mismatch(receipt, count);
    return receipt;
  }

  /**
   * Takes items one at a time, and sends them in batches in the background.
   *
   * **Items are in memory: a crash loses them, unless there is a spool.** `itemKey` is required, or
   * `connectorHasItemKey: true`: items without a key are identified by their position in a batch, and the second batch
   * would overwrite the first.
   * @param {BatcherOptions} options
   * @returns {Batcher}
   */
  batcher(options) {
    const batcher = new Batcher(this.#caller, options ?? {}, this.#log, (closed) => this.#batchers.delete(closed));
    this.#batchers.add(batcher);
    return batcher;
  }

  /**
   * Returns the status of a request of this key's connector.
   * @param {string} requestId
   * @param {CallOptions} [options]
   * @returns {Promise<RequestState>}
   */
  async request(requestId, options = {}) {
    const answer = await this.#caller.call({ method: "GET", path: `/api/requests/${segment(requestId)}` }, options);
    return requestState(answer, requestId);
  }

  /**
   * Waits for the final status of a request. The status `failed` is a result, not an error.
   * @param {Receipt | string} sent
   * @param {CallOptions} [options]
   * @returns {Promise<RequestState>}
   */
  async wait(sent, { timeout = 30_000, signal } = {}) {
    const requestId = typeof sent === "string" ? sent : sent.requestId;
    const deadline = performance.now() + timeout;
    for (let pause = 20; ; pause = Math.min(pause * 2, 1000)) {
      const state = await this.request(requestId, { timeout: Math.max(deadline - performance.now(), 1), signal });
      if (isFinal(state)) return state;
      if (deadline - performance.now() <= pause) {
        throw new HeadgateError("TIMEOUT", `request ${requestId} is still ${state.status} after ${timeout} ms`, { requestId, retryable: true });
      }
      await sleep(pause, signal);
      if (signal?.aborted) throw canceled(signal);
    }
  }

  /**
   * Removes an item, if the key's connector can remove items. Resolves when the removal is on disk.
   * @param {string} stream
   * @param {string} key
   * @param {CallOptions & SubmitOptions} [options]
   * @returns {Promise<Receipt>}
   */
  async remove(stream, key, { idempotencyKey = uuid4(), timeout, signal } = {}) {
    const { "idempotency-key": kept } = submission(undefined, idempotencyKey);
    const path = `/api/streams/${segment(stream)}/items/${segment(key)}`;
    return this.#receipt(await this.#caller.call({ method: "DELETE", path, headers: { "idempotency-key": kept } }, { timeout, signal }));
  }

  /** @param {import("./verdict.js").Answer} answer @returns {Receipt} */
  #receipt(answer) {
    const receipt = answer.status === 202 ? receiptOf(answer) : undefined;
    if (!receipt) throw answer.error(this.#caller.clock.wall());
    return receipt;
  }

  /** Replaces the key for all later requests; blocked batchers retry with it immediately. @param {string} key an ingest key */
  setKey(key) {
    this.#caller.setKey(key);
  }

  /**
   * Flushes and closes its batchers.
   * @returns {Promise<void>}
   */
  async close() {
    await Promise.all(Array.from(this.#batchers, (batcher) => batcher.close()));
  }

  /** For `await using`. @returns {Promise<void>} */
  async [Symbol.asyncDispose]() {
    await this.close();
  }

  toString() {
    return `headgate.Client(${this.#caller.transport.shown})`;
  }

  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.toString();
  }
}

/** @param {object | Iterable<object>} items */
function encoded(items) {
  if (typeof items !== "object" || items === null) throw invalid("the items must be one object or several");
  const several = !(items instanceof Map || items instanceof RawJson) && Symbol.iterator in items;
  if (!several) return { text: encodeItem(items), count: undefined };
  const texts = Array.from(/** @type {Iterable<object>} */ (items), (item, index) => {
    try {
      return encodeItem(item);
    } catch (error) {
      if (error instanceof HeadgateError) throw invalid(`item ${index}: ${error.message}`);
      throw error;
    }
  });
  return { text: bodyOf(texts), count: texts.length };
}

/** Whether a request does not leave its state by itself. @param {RequestState} state */
function isFinal({ status, sinks, processedAt }) {
  return status !== "accepted" && !(status === "removed" && sinks.length && processedAt === undefined);
}
