// Following streams: messages as they come, over one connection after the other.

import { HeadgateError } from "./errors.js";
import { Parser } from "./events.js";
import { parse } from "./json.js";
import { sleep } from "./time.js";
import { Within, text } from "./transport.js";
import { Answer } from "./verdict.js";
import { isObject } from "./wire.js";

/**
 * A message, as Headgate writes it. `type` is `snapshot`, `update`, `remove`, `stale`, `fresh` or `reset`; others may come
 * with newer Headgates.
 * @typedef {object} Message
 * @property {string} type
 * @property {string} [stream] which it is about; a `reset` is about all
 * @property {string} [id] the position to resume from, once the message was applied
 * @property {import("./wire.js").Item[]} [items] of a `snapshot` or an `update`
 * @property {boolean} [complete] a snapshot ends with this message
 * @property {string[]} [keys] of a `remove`
 * @property {string} [reason] of a `reset`
 * @property {string} [updated_at] how old the newest data of a `stale` stream is
 * @property {number} [retry_ms]
 */

/**
 * @typedef {object} Following
 * @property {import("./caller.js").Caller} caller
 * @property {number} silence
 * @property {boolean} exact
 * @property {string} path
 * @property {string} [since]
 * @property {AbortSignal} [signal]
 */

/** A connection that lived so long begins anew with the shortest pause. */
const LIVED_MS = 5000;
const BYE_MS_MAX = 600_000;
/** Position 0 stands for snapshots that are not complete yet. */
const RESUMABLE = /^[0-9]+:[1-9][0-9]*$/;

/** @param {string | undefined} id */
export const resumable = (id) => (id !== undefined && RESUMABLE.test(id) ? id : undefined);

/**
 * All messages but `bye`, for ever; undefined where a connection ended.
 * @param {Following} following
 * @returns {AsyncGenerator<Message | undefined, void, undefined>}
 */
export async function* messages({ since, ...following }) {
  const { caller, signal } = following;
  for (let attempt = 0; !signal?.aborted; ) {
    const connection = new Connection(following, resumable(since));
    let pause;
    try {
      yield* connection.messages();
      pause = connection.bye ?? 0;
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof HeadgateError) || !error.retryable) throw error;
      pause = caller.pause(error, attempt + 1);
    }
    since = connection.since;
    yield undefined;
    attempt = connection.bye !== undefined || connection.lived > LIVED_MS ? 0 : attempt + 1;
    await sleep(pause, signal);
  }
}

/** One connection of a follower. */
class Connection {
  #following;
  /** For how many milliseconds messages came. */
  lived = 0;
  /** The pause that a `bye` wants. @type {number | undefined} */
  bye;

  /** @param {Omit<Following, "since">} following @param {string | undefined} since what the next one resumes from */
  constructor(following, since) {
    this.#following = following;
    this.since = since;
  }

  /** Until it ends: with `bye`, or with an error. @returns {AsyncGenerator<Message, void, undefined>} */
  async *messages() {
    const { caller, silence, signal } = this.#following;
    const within = new Within(Math.min(caller.attemptTimeout, silence), signal);
    try {
      const response = await this.#begin(within);
      const began = performance.now();
      const parser = new Parser();
      const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
      while (this.bye === undefined) {
        within.extend(silence);
        const { done, value } = await reader.read();
        within.rest();
        if (done) throw new HeadgateError("CONNECTION", "the connection was closed", { retryable: true });
        for (const event of parser.feed(value)) {
          const message = this.#message(event.data);
          this.lived = performance.now() - began;
          if (message.type === "bye") {
            this.bye = byeOf(message.retry_ms);
            return;
          }
          if (event.id !== undefined) this.since = resumable(event.id);
          yield message;
        }
      }
    } catch (error) {
      throw caller.transport.lost(error, within.late);
    } finally {
      within.end();
      within.abort();
    }
  }

  /** @param {Within} within */
  async #begin(within) {
    const { caller, path } = this.#following;
    /** @type {Record<string, string>} */
    const headers = { accept: "text/event-stream" };
    if (this.since !== undefined) headers["last-event-id"] = this.since;
    const response = await caller.transport.begin({ method: "GET", path, headers }, within.signal);
    const kind = response.headers.get("content-type") ?? "";
    if (response.status === 200 && kind.includes("text/event-stream") && response.body) return response;
    throw new Answer(response.status, response.headers, (await text(response, 1 << 20)) ?? "", caller.transport.shown).error(caller.clock.wall());
  }

  /** @param {string} data @returns {Message} */
  #message(data) {
    const message = parse(data, { exact: this.#following.exact });
    if (!isObject(message) || typeof message.type !== "string") throw new Error("a message is not from Headgate");
    return /** @type {Message} */ (message);
  }
}

/** @param {unknown} milliseconds */
function byeOf(milliseconds) {
  return typeof milliseconds === "number" && milliseconds > 0 ? Math.min(milliseconds, BYE_MS_MAX) : 0;
}
