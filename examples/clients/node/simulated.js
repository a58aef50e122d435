// What the runner of the conformance kit does for verdicts and scripts: one attempt, and hours in virtual time.
//
// Nothing here is the library's interface. No pump of a batcher runs: its turns are taken here, in order of the times at which
// they are due, and attempts are answered by the kit, over standard input and output.

import { HeadgateError, stringify } from "@headgate/client";
import { Caller } from "./src/caller.js";
import { Delivery } from "./src/delivery.js";
import { bytesOf, encodeItem } from "./src/encode.js";
import { Engine } from "./src/engine.js";
import { settled } from "./src/options.js";
import { bodyOf } from "./src/queue.js";
import { Spool } from "./src/spool.js";
import { uuid7 } from "./src/uuid.js";
import { Answer, judge, lost, pause } from "./src/verdict.js";

const say = (/** @type {unknown} */ line) => process.stdout.write(`${stringify(line)}\n`);

/** All clocks, which only the kit moves. */
export class Time {
  /** @param {number} wall @param {number} mono */
  constructor(wall, mono) {
    this.now = mono;
    this.ahead = wall - mono;
  }

  mono = () => this.now;
  lived = () => this.now;
  wall = () => this.now + this.ahead;

  /** So much goes by, and all that is due is done. @param {Simulated} batcher @param {number} milliseconds */
  async go(batcher, milliseconds) {
    await this.until(batcher, this.now + milliseconds, () => false);
  }

  /** Takes turns in order; writing goes before sending. @param {Simulated} batcher @param {number} end @param {() => boolean} done */
  async until({ engine }, end, done) {
    while (!done()) {
      const write = engine.writeDue();
      const send = engine.sendDue();
      if (Math.min(write, send) > end) {
        this.now = Math.max(this.now, end);
        return;
      }
      this.now = Math.max(this.now, Math.min(write, send));
      await (write <= Math.max(send, this.now) ? engine.writeTurn() : engine.sendTurn());
    }
  }
}

/** A batcher that takes no turn by itself. */
class Simulated {
  disk = { full: false };

  /** @param {Time} time @param {Caller} caller @param {any} options */
  constructor(time, caller, options) {
    this.time = time;
    this.caller = caller;
    const log = (/** @type {string} */ message) => process.stderr.write(`${message}\n`);
    const spool = options.spool === undefined ? undefined : new Spool(options.spool, options.spoolBytes ?? 2 ** 30, log);
    if (spool) this.#canFill(spool);
    this.engine = new Engine(caller, settled(options), { log, spool, batcher: /** @type {any} */ (this), still: true });
  }

  /** @param {any} spool */
  #canFill(spool) {
    for (const name of ["write", "reject"]) {
      const own = spool[name].bind(spool);
      spool[name] = async (/** @type {any[]} */ ...told) => {
        if (this.disk.full) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC", syscall: "write" });
        return own(...told);
      };
    }
  }

  /** @param {any} item */
  async add(item) {
    const text = encodeItem(item);
    return this.engine.add({ item, text, bytes: bytesOf(text), key: undefined, place: this.engine.place(), added: this.time.now });
  }

  /** @param {number} milliseconds */
  async flush(milliseconds) {
    const target = this.engine.flushAll();
    await this.time.until(this, this.time.now + milliseconds, () => this.engine.flushed(target));
    return this.engine.result(target);
  }

  /** @param {number} milliseconds */
  async close(milliseconds) {
    this.engine.beginClose();
    const result = await this.flush(milliseconds);
    this.engine.stop();
    while (this.engine.writeDue() < Infinity) await this.engine.writeTurn();
    return this.engine.finish(result);
  }

  get stats() {
    return this.engine.stats;
  }

  /** @param {string} key */
  setKey(key) {
    this.caller.setKey(key);
  }
}

/**
 * @param {Time} time
 * @param {string} key
 * @param {any} options
 * @param {() => Promise<any>} nextLine
 */
export function opened(time, key, options, nextLine) {
  const caller = new Caller("http://127.0.0.1:9", key, "HEADGATE_KEY", {});
  caller.clock = time;
  caller.random = () => 1;
  let auth = key;
  const { setKey } = caller.transport;
  caller.transport.setKey = function (other) {
    auth = other;
    setKey.call(this, other);
  };
  const batcher = new Simulated(time, caller, {
    ...options,
    onAccepted: (/** @type {any} */ got, /** @type {any[]} */ sent) => say({ event: ["accepted", sent.length, got.replayed] }),
    onRejected: (/** @type {any[]} */ sent, /** @type {HeadgateError} */ error) => say({ event: ["rejected", error.code, sent.map(({ id }) => id)] }),
    onState: (/** @type {string} */ state, /** @type {string | undefined} */ code) => say({ event: ["state", state, code ?? null] }),
  });
  batcher.engine.delivery.attempt = async ({ key: idempotencyKey, stream, text, count }, leaving) => {
    await leaving();
    const path = stream === undefined ? "/api/ingest" : `/api/ingest?stream=${encodeURIComponent(stream)}`;
    say({ ask: { at_ms: time.now, key: idempotencyKey, auth, path, body: text } });
    const { answer } = await nextLine();
    if ("set_key" in answer) caller.setKey(answer.set_key);
    return "no" in answer ? lost(withoutAnswer(answer.no)) : judge(answered(answer), count, time.wall());
  };
  return batcher;
}

/** @param {any} answer */
function answered({ status, headers, body }) {
  const all = new Headers();
  for (const [name, value] of headers) all.append(name, value);
  return new Answer(status, all, body, "http://127.0.0.1:9");
}

/** @param {string} why */
function withoutAnswer(why) {
  const code = { timeout: "TIMEOUT", too_long: "UNEXPECTED_ANSWER" }[why] ?? "CONNECTION";
  return Object.assign(new HeadgateError(code, why, { retryable: true }), { unknown: why !== "connection" });
}

/**
 * One request as a batcher makes it, and how its answer is judged.
 * @param {any} where
 * @param {any[]} items
 * @param {number} failures
 * @param {number} wall
 */
export async function attempt({ url, key, ...options }, items, failures, wall) {
  const caller = new Caller(url, key, "HEADGATE_KEY", options);
  caller.clock = { ...caller.clock, wall: () => wall };
  const host = { log: () => {}, landed: () => {}, changed: () => {} };
  const delivery = new Delivery(caller, settled({ itemKey: "id" }), host);
  const sent = { itemKey: "id", key: uuid7(), stream: undefined, text: bodyOf(items.map(encodeItem)), count: items.length };
  const verdict = await delivery.attempt(sent, async () => {}, new AbortController().signal);
  const pauses = [0, 1].map((lot) => {
    caller.random = () => lot;
    return pause(verdict, caller.backoff(failures));
  });
  const { kind, error, unknown = false, items: named = [], shrink = false, receipt } = verdict;
  return { kind, code: error?.code ?? null, unknown, pause_ms: pauses, items: named, shrink, replayed: receipt?.replayed ?? false };
}
