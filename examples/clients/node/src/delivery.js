// The sender of a batcher: one request at a time, in order, each batch until Headgate has accepted or refused it.
//
// What is done and when is in `due` and `turn`; whoever has the time calls them.

import { bytesOf } from "./encode.js";
import { HeadgateError } from "./errors.js";
import { cost, cuts, slice } from "./queue.js";
import { judge, lost, pause } from "./verdict.js";
import { ingestPath, submission } from "./wire.js";
import { background, lived } from "#background";

/** @typedef {import("./queue.js").Batch} Batch */
/** @typedef {import("./queue.js").Content} Content */
/** @typedef {import("./queue.js").Part} Part */
/** @typedef {import("./verdict.js").Verdict} Verdict */
/** @typedef {import("./wire.js").Receipt} Receipt */
/** @typedef {import("./options.js").Settled} Settled */

/**
 * A batch, or a part of one, as it goes out.
 * @typedef {object} Submission
 * @property {string | undefined} itemKey
 * @property {string} key
 * @property {string | undefined} stream
 * @property {string} text
 * @property {number} count
 */

/**
 * @typedef {object} Host
 * @property {(message: string) => void} log
 * @property {import("./spool.js").Spool} [spool]
 * @property {(batch: Batch) => void} landed a batch is settled
 * @property {() => void} changed
 */

/** Headgate knows idempotency keys for 24 hours: what it may have taken must not come again after that. */
const UNKNOWN_MS_MAX = 23 * 3600 * 1000;
/** Both clocks may come apart by this much before the time of a mark is corrected. */
const JUMP_MS = 60_000;
const BODY_BYTES_MIN = 4096;
const PARTS_MAX = 200;
const TROUBLE_MS = 1000;

/** The batch that is being sent. */
class Hand {
  /** Since when Headgate may have taken what is to be sent, by the client's clock. @type {number | undefined} */
  tried;
  /** What is left of it, once it was cut. @type {Part[] | undefined} */
  parts;

  /** @param {Batch} batch @param {Content} content */
  constructor(batch, content) {
    this.batch = batch;
    this.content = content;
  }

  /** What is to be sent: first item and number of items. @returns {Part} */
  get part() {
    return this.parts ? this.parts[0] : [0, this.batch.count];
  }

  /** Its idempotency key: the same whenever the same part is cut out of the same batch. */
  get key() {
    return this.parts ? `${this.batch.key}/${this.part.join("/")}` : this.batch.key;
  }

  get items() {
    const [start, count] = this.part;
    return this.content.items.slice(start, start + count);
  }

  get text() {
    return slice(this.content, ...this.part);
  }

  /** @returns {Submission} */
  submission() {
    const { itemKey, stream } = this.content;
    return { itemKey, key: this.key, stream, text: this.text, count: this.part[1] };
  }
}

export class Delivery {
  /** In order, the next one first. @type {Batch[]} */
  line = [];
  /** @type {Hand | undefined} */
  hand;
  accepted = 0;
  rejected = 0;
  retries = 0;
  damaged = 0;
  /** Batches on disk, with the one in hand, and what they take of the room. */
  files = 0;
  fileBytes = 0;
  stopped = false;
  /** @type {import("./options.js").State} */
  state = "ok";
  /** @type {string | undefined} */
  code;
  /** No longer bodies go through a proxy on the way. */
  bytesMax = Infinity;
  /** The stream of the key, once Headgate has said it. @type {string | undefined} */
  stream;
  /** No attempt before this, by the client's clock. */
  resume = -Infinity;
  #caller;
  #o;
  #host;
  #ended = new AbortController();
  #failures = 0;
  /** @type {Set<string>} */
  #blocked = new Set();
  #drift = 0;
  #losing = false;
  /** What the disk fails at. @type {Set<string>} */
  #disk = new Set();

  /** @param {import("./caller.js").Caller} caller @param {Settled} options @param {Host} host */
  constructor(caller, options, host) {
    this.#caller = caller;
    this.#o = options;
    this.#host = host;
  }

  get #clock() {
    return { lived, ...this.#caller.clock };
  }

  /** When the next turn is; infinite: when something changes. */
  due() {
    return this.stopped || (!this.hand && (!this.line.length || this.line[0].writing)) ? Infinity : this.resume;
  }

  /** The key has changed: no pause counts. */
  tryNow() {
    this.#failures = 0;
    this.resume = -Infinity;
  }

  /** Makes the next attempt, or finds that there is none to be made. */
  async turn() {
    try {
      const hand = this.hand ?? (await this.#take());
      if (!hand || this.stopped) return;
      if (hand.tried !== undefined && this.#clock.lived() - hand.tried > UNKNOWN_MS_MAX) {
        await this.#layAside(hand, new HeadgateError("EXPIRED", "Headgate may have accepted it more than 23 hours ago, and may no longer detect the duplicate; check the item before you send it again"), 0);
      } else await this.#attempt(hand);
      this.disk("send", undefined);
    } catch (/** @type {any} */ error) {
      if (this.stopped) return;
      if (error.syscall) this.disk("send", error);
      else this.#host.log(`cannot send a batch now, retrying: ${error}`);
      this.#rest(Math.max(this.#caller.backoff(++this.#failures), TROUBLE_MS));
    }
  }

  /** Tells that the spool cannot be read or written, and when it can be again. @param {string} use @param {unknown} why */
  disk(use, why) {
    const before = this.#disk.size > 0;
    if (why) this.#disk.add(use);
    else this.#disk.delete(use);
    const after = this.#disk.size > 0;
    if (before === after) return;
    this.#host.log(why ? `cannot write a batch to the spool, or read one from it, retrying: ${why}` : "the spool works again");
    this.#tell(this.#o.onState, after ? "retrying" : "ok", "SPOOL");
  }

  /** @param {number} milliseconds */
  #rest(milliseconds) {
    this.resume = this.#clock.mono() + milliseconds;
  }

  /** The next batch; none, if its file is gone or damaged. @returns {Promise<Hand | undefined>} */
  async #take() {
    const [batch] = this.line;
    if (!batch || batch.writing) return undefined;
    const content = batch.content ?? (await this.#read(batch));
    if (!content || this.stopped) return undefined;
    const hand = new Hand(batch, content);
    if (this.#host.spool && batch.first < 0) {
      const { tried, parts } = this.#host.spool.marked(batch.key, batch.count);
      hand.parts = parts;
      if (tried !== undefined) hand.tried = this.#clock.lived() - Math.max(this.#clock.wall() - tried, 0);
      this.#drift = this.#clock.wall() - this.#clock.lived();
    }
    this.line.shift();
    this.hand = hand;
    return hand;
  }

  /** @param {Batch} batch @returns {Promise<Content | undefined>} */
  async #read(batch) {
    const { spool } = this.#host;
    const kept = await spool?.read(batch.key);
    if (this.stopped) return undefined;
    if (kept === undefined || typeof kept === "string") {
      if (kept !== undefined) {
        this.#host.log(`${spool?.folder}/${batch.key}.json is not a valid batch (${kept}); renamed to .damaged`);
        this.damaged++;
      }
      this.line.shift();
      this.gone(batch);
      this.#host.changed();
      return undefined;
    }
    batch.count = kept.items.length;
    batch.content = kept;
    return kept;
  }

  /** @param {Hand} hand */
  async #attempt(hand) {
    await this.#correct(hand);
    const { transport } = this.#caller;
    const first = hand.tried === undefined;
    const { changes } = transport;
    const leaving = async () => {
      if (this.stopped || hand.tried !== undefined) return;
      hand.tried = this.#clock.lived();
      await this.#mark(hand);
    };
    const verdict = await this.attempt(hand.submission(), leaving, this.#ended.signal);
    if (this.stopped) return;
    if (verdict.unknown) await leaving();
    else if (first && hand.tried !== undefined) {
      hand.tried = undefined;
      if (verdict.kind === "blocked" || verdict.kind === "retrying") await this.#mark(hand);
    }
    if (verdict.kind === "blocked" && transport.changes !== changes) return; // that was about the old key
    await this.#judged(hand, verdict);
  }

  /**
   * One attempt; `leaving` is called before the first byte of it leaves.
   * @param {Submission} sent
   * @param {() => Promise<void>} leaving
   * @param {AbortSignal} signal
   * @returns {Promise<Verdict>}
   */
  async attempt({ itemKey, key, stream, text, count }, leaving, signal) {
    const body = new TextEncoder().encode(text);
    const request = { method: "POST", path: ingestPath(stream), headers: submission(itemKey, key), body };
    try {
      const timeout = this.#caller.within(body);
      const answer = await this.#caller.transport.call(request, { timeout, signal, background: true, through: background, leaving });
      return judge(answer, count, this.#clock.wall());
    } catch (error) {
      if (error instanceof HeadgateError) return lost(error);
      throw error;
    }
  }

  /** @param {Hand} hand @param {Verdict} verdict */
  async #judged(hand, verdict) {
    const { kind, receipt, error } = verdict;
    if (receipt) return this.#accept(hand, receipt);
    if (!error) throw new Error("a verdict without an error");
    if (kind === "blocked" || kind === "retrying") return this.#failed(hand, verdict, error);
    this.#works();
    if (kind === "mismatch" || hand.part[1] === 1) return this.#layAside(hand, error, pause(verdict, 0));
    await this.#cut(hand, verdict.items ?? []);
    this.#rest(pause(verdict, 0));
  }

  /** @param {Hand} hand @param {Verdict} verdict @param {HeadgateError} error */
  async #failed(hand, verdict, error) {
    this.#failures++;
    this.retries++;
    this.#fails(verdict.kind === "blocked" ? "blocked" : "retrying", error);
    if (verdict.shrink && hand.tried === undefined && hand.part[1] > 1) {
      this.bytesMax = Math.max(Math.min(this.bytesMax, bytesOf(hand.text) >> 1), BODY_BYTES_MIN);
      await this.#cut(hand, []);
    }
    this.#rest(pause(verdict, this.#caller.backoff(this.#failures)));
  }

  /** The part in hand is sent in parts; which they are is on disk before the first of them is sent. @param {Hand} hand @param {number[]} named */
  async #cut(hand, named) {
    const parts = [...cuts(hand.part, named), ...(hand.parts?.slice(1) ?? [])];
    if (parts.length > PARTS_MAX) {
      const [begin] = parts[PARTS_MAX - 1]; // none of these was sent yet: they may be one
      parts.splice(PARTS_MAX - 1, Infinity, [begin, hand.batch.count - begin]);
    }
    hand.parts = parts;
    hand.tried = undefined;
    await this.#mark(hand);
  }

  /** @param {Hand} hand @param {Receipt} receipt */
  async #accept(hand, receipt) {
    this.accepted += hand.part[1];
    this.stream = receipt.stream;
    this.#losing = false;
    this.#works();
    this.#tell(this.#o.onAccepted, receipt, hand.items);
    await this.#done(hand, 0);
  }

  /**
   * Hands a part over that will not be sent any more, and keeps it beside the spool's queue.
   * @param {Hand} hand
   * @param {HeadgateError} error
   * @param {number} milliseconds
   */
  async #layAside(hand, error, milliseconds) {
    const { code, message, requestId } = error;
    const line = { v: 1, idempotency_key: hand.key, item_key: hand.content.itemKey ?? null, error: { code, message, request_id: requestId ?? null } };
    await this.#host.spool?.reject(hand.batch.key, line, hand.text);
    this.giveUp(hand.items, error);
    await this.#done(hand, milliseconds);
  }

  /** Tells the program of items that are not sent. @param {unknown[]} items @param {HeadgateError} error */
  giveUp(items, error) {
    this.rejected += items.length;
    if (!this.#losing) this.#host.log(`${items.length} items were not accepted; later ones are not logged until some are: ${error}`);
    this.#losing = true;
    this.#tell(this.#o.onRejected, items, error);
  }

  /** The part in hand is settled. @param {Hand} hand @param {number} milliseconds */
  async #done(hand, milliseconds) {
    if (hand.parts && hand.parts.length > 1) {
      hand.parts = hand.parts.slice(1);
      hand.tried = undefined;
      await this.#mark(hand);
    } else {
      await hand.batch.whenWritten;
      if (hand.batch.written) {
        await this.#host.spool?.delete(hand.batch.key);
        this.gone(hand.batch);
      }
      if (this.stopped) return;
      this.hand = undefined;
      this.#host.landed(hand.batch);
    }
    this.#rest(milliseconds);
  }

  #works() {
    this.#failures = 0;
    this.#blocked.clear();
    if (this.state === "ok") return;
    this.state = "ok";
    this.code = undefined;
    this.#host.log("batches are accepted again");
    this.#tell(this.#o.onState, "ok", undefined);
  }

  /** Says it when the state changes, or the code of what blocks. @param {"retrying" | "blocked"} state @param {HeadgateError} error */
  #fails(state, error) {
    const [before, code] = [this.state, this.code];
    this.state = state;
    this.code = error.code;
    if (before === "ok") this.#host.log(`a batch was not accepted, retrying: ${error}`);
    if (state === "blocked" && !this.#blocked.has(error.code)) {
      this.#blocked.add(error.code);
      this.#host.log(`Headgate rejects the requests of this client, which waits for another key or configuration: ${error}`);
    }
    if (before !== state || (state === "blocked" && code !== error.code)) this.#tell(this.#o.onState, state, error.code);
  }

  /** @param {Hand} hand */
  async #mark({ batch, tried, parts }) {
    const { spool } = this.#host;
    if (!spool) return;
    const clock = this.#clock;
    this.#drift = clock.wall() - clock.lived();
    try {
      await spool.mark(batch.key, { tried: tried === undefined ? undefined : clock.wall() - (clock.lived() - tried), parts });
    } catch (error) {
      this.#host.log(`cannot write the state of the current batch to ${spool.folder}/.state: ${error}`);
    }
  }

  /** The wall clock was set: a mark says by it since when the outcome is unknown. @param {Hand} hand */
  async #correct(hand) {
    const clock = this.#clock;
    if (hand.tried !== undefined && Math.abs(clock.wall() - clock.lived() - this.#drift) > JUMP_MS) await this.#mark(hand);
  }

  /** Ends it; what is not on disk is handed back, in order. */
  stop() {
    this.stopped = true;
    const left = [];
    if (this.hand && !this.hand.batch.written && !this.hand.batch.writing) left.push(this.hand.content.items.slice(this.hand.part[0]));
    for (const { content, written, writing } of this.line) if (content && !written && !writing) left.push(content.items);
    this.hand = undefined;
    this.line = [];
    this.#ended.abort();
    return left;
  }

  /** A batch has its file. @param {Batch} batch */
  came(batch) {
    batch.written = true;
    this.files++;
    this.fileBytes += cost(batch.bytes);
  }

  /** Its file is there no more. @param {Batch} batch */
  gone(batch) {
    this.files--;
    this.fileBytes -= cost(batch.bytes);
  }

  /** Batches on disk that are not in hand, and their bytes. */
  spooled() {
    const own = this.hand?.batch.written ? this.hand.batch : undefined;
    return { spooled: this.files - (own ? 1 : 0), spooledBytes: this.fileBytes - (own ? cost(own.bytes) : 0) };
  }

  /** @template {any[]} T @param {((...told: T) => unknown) | undefined} callback @param {T} told */
  #tell(callback, ...told) {
    const failed = (/** @type {unknown} */ error) => this.#host.log(`a callback of the batcher raised an error: ${error}`);
    try {
      const answer = callback?.(...told);
      if (answer instanceof Promise) answer.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}
