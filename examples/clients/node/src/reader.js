// The reader: the items of streams, once or as they change. It works in browsers, too.

import { Caller } from "./caller.js";
import { HeadgateError } from "./errors.js";
import { messages } from "./follow.js";
import { RawJson, parse } from "./json.js";
import { PAGE_BYTES_MAX } from "./transport.js";
import { View } from "./view.js";
import { isItem, isObject, segment } from "./wire.js";

export { HeadgateError, RawJson, View, parse };

/** @typedef {import("./caller.js").ConnectionOptions} ConnectionOptions */
/** @typedef {import("./follow.js").Message} Message */
/** @typedef {import("./wire.js").Item} Item */

/**
 * @typedef {object} ReaderOptions
 * @property {number} [silence] milliseconds after which a silent connection is replaced: 40,000
 * @property {boolean} [exactNumbers] returns numbers that JavaScript would change (`1.10`, `1e400`) as {@link RawJson}
 * @property {(message: string) => void} [log] for warnings: `console.warn`
 */

/**
 * @typedef {object} FollowOptions
 * @property {string} [since] the `id` of a message to resume from
 * @property {AbortSignal} [signal] ends it
 */

/**
 * Reads streams of a Headgate. Where they are missing, the environment has `url` and `key`: `HEADGATE_URL`,
 * `HEADGATE_READ_KEY`. All times are in milliseconds. An integer that a number would round comes as a `bigint`.
 */
export class Reader {
  #caller;
  #silence;
  #exact;
  #log;

  /**
   * @param {string} [url] like `http://host:port` or `https://host`
   * @param {string} [key] a read key
   * @param {ConnectionOptions & ReaderOptions} [options]
   */
  constructor(url, key, { silence = 40_000, exactNumbers = false, log = (message) => console.warn(`headgate: ${message}`), ...options } = {}) {
    this.#caller = new Caller(url, key, "HEADGATE_READ_KEY", options);
    if (!(silence > 0)) throw new RangeError("silence must be a number of milliseconds");
    this.#silence = silence;
    this.#exact = exactNumbers;
    this.#log = log;
  }

  /**
   * Returns all items of a stream, ordered by key. Fetches pages of `page` items as needed.
   * @param {string} stream
   * @param {{ page?: number, signal?: AbortSignal }} [options]
   * @returns {AsyncGenerator<Item, void, undefined>}
   */
  async *items(stream, { page, signal } = {}) {
    const path = `/api/streams/${segment(stream)}/items`;
    /** @type {string | undefined} */
    let cursor;
    do {
      const query = [];
      if (page !== undefined) query.push(`limit=${page}`);
      if (cursor !== undefined) query.push(`cursor=${encodeURIComponent(cursor)}`);
      const { answer, value } = await this.#get(query.length ? `${path}?${query.join("&")}` : path, signal);
      if (!Array.isArray(value.data) || !value.data.every(isItem)) throw this.#wrong(answer);
      yield* value.data;
      cursor = typeof value.next === "string" ? value.next : undefined;
    } while (cursor !== undefined);
  }

  /**
   * Returns one item, or undefined if it does not exist.
   * @param {string} stream
   * @param {string} key
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<Item | undefined>}
   */
  async item(stream, key, { signal } = {}) {
    try {
      const { answer, value } = await this.#get(`/api/streams/${segment(stream)}/items/${segment(key)}`, signal);
      if (!isItem(value.data)) throw this.#wrong(answer);
      return value.data;
    } catch (error) {
      if (error instanceof HeadgateError && error.code === "ITEM_NOT_FOUND") return undefined;
      throw error;
    }
  }

  /**
   * Returns the messages of these streams, or of all streams of the key, without end.
   *
   * Reconnects after lost connections, and resumes with the last `id`. `heartbeat` and `bye` are not returned. Ends with the signal,
   * with `break`, or with an error if the key or a stream is rejected.
   * @param {readonly string[]} [streams]
   * @param {FollowOptions} [options]
   * @returns {AsyncGenerator<Message, void, undefined>}
   */
  async *follow(streams, { since, signal } = {}) {
    for await (const message of this.#messages(streams, since, signal)) {
      if (message && message.type !== "heartbeat") yield message;
    }
  }

  /**
   * Returns the items of a stream as a map that stays current until it is closed. An open view keeps the program running.
   * @param {string} stream
   * @param {{ onChange?: (items: Item[], removed: string[]) => unknown }} [options]
   * @returns {View}
   */
  view(stream, { onChange } = {}) {
    const ended = new AbortController();
    return new View(stream, this.#messages([stream], undefined, ended.signal), ended, { onChange, log: this.#log });
  }

  toString() {
    return `headgate.Reader(${this.#caller.transport.shown})`;
  }

  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.toString();
  }

  /** @param {string} path @param {AbortSignal} [signal] */
  async #get(path, signal) {
    const answer = await this.#caller.call({ method: "GET", path }, { signal, bytesMax: PAGE_BYTES_MAX });
    const value = answer.own((text) => parse(text, { exact: this.#exact }));
    if (!value) throw this.#wrong(answer);
    return { answer, value };
  }

  /** For an answer that has something else than what was asked for. @param {import("./verdict.js").Answer} answer */
  #wrong(answer) {
    return answer.error(this.#caller.clock.wall());
  }

  /** @param {readonly string[] | undefined} streams @param {string | undefined} since @param {AbortSignal} [signal] */
  #messages(streams, since, signal) {
    if (streams !== undefined && !Array.isArray(streams)) throw new TypeError("streams must be a list of names, not one name");
    const names = streams?.map((name) => encodeURIComponent(name)).join(",");
    const path = names === undefined ? "/api/live" : `/api/live?streams=${names}`;
    return messages({ caller: this.#caller, silence: this.#silence, exact: this.#exact, path, since, signal });
  }
}
