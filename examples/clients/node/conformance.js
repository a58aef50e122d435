// The runner of the conformance kit: tests/clients/README.md says what it is told.

import { createInterface } from "node:readline";
import { inspect } from "node:util";
import { Client, HeadgateError, Reader, parse, stringify } from "@headgate/client";
import { Time, attempt, opened } from "./simulated.js";

/** @type {any} */
const S = { last: undefined, cancels: new Map(), time: undefined, client: undefined, batcher: undefined, reader: undefined, views: new Map() };

const SPECIAL = new Map(Object.entries({ nan: Number.NaN, inf: Infinity, "-inf": -Infinity, not_unicode: "a\ud800", time: new Date("2026-03-01T12:30:00+02:00") }));

/** What a user would have: exact numbers, and what JSON lacks. @param {any} value @returns {any} */
function special(value) {
  if (Array.isArray(value)) return value.map(special);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const names = Object.keys(value);
  if (names.length === 1 && names[0] === "$") return SPECIAL.get(value.$);
  return Object.fromEntries(names.map((name) => [name, special(value[name])]));
}

/** @param {any} op */
const items = (op) => op.items.map((/** @type {string} */ text) => special(parse(text, { exact: true })));

/** The members of a line that are there, under the names of the library. @param {any} op @param {Record<string, string>} names */
const options = (op, names) => Object.fromEntries(Object.entries(names).flatMap(([name, own]) => (name in op ? [[own, op[name]]] : [])));

const CONNECTION = { timeout_ms: "timeout", attempt_timeout_ms: "attemptTimeout", backoff_ms: "backoff", backoff_max_ms: "backoffMax", user_agent: "userAgent", silence_ms: "silence" };
const SEND = { item_key: "itemKey", idempotency_key: "idempotencyKey", stream: "stream", timeout_ms: "timeout" };
const BATCHER = {
  item_key: "itemKey", connector_has_item_key: "connectorHasItemKey", max_items: "maxItems", max_bytes: "maxBytes", linger_ms: "linger",
  queue_bytes: "queueBytes", latest_only: "latestOnly", spool: "spool", spool_bytes: "spoolBytes",
};
const FULL = { wait: "wait", fail: "fail", drop_oldest: "dropOldest" };

/** @param {any} got */
function receipt(got) {
  S.last = got;
  return { stream: got.stream, items_received: got.itemsReceived, request_id: got.requestId, replayed: got.replayed };
}

/** @param {any} got */
const state = ({ status, errors, sinks }) => ({ status, errors, sinks });

/** @param {any} op */
async function add(op) {
  let added = 0;
  const one = async (/** @type {any} */ item) => {
    await S.batcher.add(item);
    added++;
  };
  try {
    if (op.concurrently) await Promise.all(items(op).map(one));
    else for (const item of items(op)) await one(item);
  } catch (error) {
    throw Object.assign(/** @type {any} */ (error), { added });
  }
  return { added };
}

/** @type {Record<string, (op: any, signal?: AbortSignal) => any>} */
const OPS = {
  client(op) {
    S.where = { url: op.url, key: op.key, ...options(op, CONNECTION) };
    S.client = new Client(op.url, op.key, options(op, CONNECTION));
    return {};
  },
  async send(op, signal) {
    const all = items(op);
    return receipt(await S.client.send(op.one ? all[0] : all, { signal, ...options(op, SEND) }));
  },
  request: async (op) => state(await S.client.request(op.id)),
  wait: async (op) => state(await S.client.wait(op.id ?? S.last, options(op, { timeout_ms: "timeout" }))),
  remove: async (op) => receipt(await S.client.remove(op.stream, op.key)),
  cancel(op) {
    S.cancels.get(op.of).abort();
    return {};
  },
  batcher(op) {
    /** @type {any} */
    const told = { accepted: [], rejected: [], states: [] };
    S.batcher = S.client.batcher({
      ...batching(op),
      onAccepted: (/** @type {any} */ got, /** @type {any[]} */ sent) => told.accepted.push({ items: sent.length, replayed: got.replayed }),
      onRejected: (/** @type {any[]} */ sent, /** @type {HeadgateError} */ error) =>
        told.rejected.push({ items: sent.map((item) => item.id ?? null), code: error.code, status: error.status }),
      onState: (/** @type {string} */ state, /** @type {string | undefined} */ code) => told.states.push([state, code ?? null]),
    });
    S.events = told;
    return {};
  },
  attempt: (op) => attempt(S.where, items(op), op.failures, op.wall_ms),
  open(op) {
    S.time = new Time(op.wall_ms, op.mono_ms);
    S.batcher = opened(S.time, op.key, batching(op), nextLine);
    return {};
  },
  async pass(op) {
    await S.time.go(S.batcher, op.ms);
    return {};
  },
  wall(op) {
    S.time.ahead += op.ms;
    return {};
  },
  set_key(op) {
    (S.time ? S.batcher : S.client).setKey(op.key);
    return {};
  },
  disk(op) {
    S.batcher.disk.full = op.full;
    return {};
  },
  add,
  flush: async (op) => flushed(await S.batcher.flush(op.timeout_ms)),
  close: async (op) => flushed(await S.batcher.close(op.timeout_ms)),
  stats() {
    const { inFlight, oldest, spooledBytes, ...stats } = S.batcher.stats;
    return { ...stats, in_flight: inFlight, oldest_ms: oldest, spooled_bytes: spooledBytes };
  },
  events: () => S.events,
  reader(op) {
    S.reader = new Reader(op.url, op.key, options(op, CONNECTION));
    return {};
  },
  async items(op) {
    const found = [];
    for await (const item of S.reader.items(op.stream, options(op, { page: "page" }))) found.push(item);
    return { items: found };
  },
  item: async (op) => ({ item: (await S.reader.item(op.stream, op.key)) ?? null }),
  async follow(op) {
    const messages = [];
    for await (const message of S.reader.follow(op.streams, { since: op.since })) {
      messages.push(message);
      if (messages.length === op.count) break;
    }
    return { messages };
  },
  view(op) {
    S.views.set(op.stream, S.reader.view(op.stream));
    return {};
  },
  viewed(op) {
    const view = S.views.get(op.stream);
    const fields = Object.fromEntries(Array.from(view, ([key, item]) => [key, item.fields]));
    return { items: fields, complete: view.complete, stale: view.stale };
  },
  async unview(op) {
    await S.views.get(op.stream).close();
    return {};
  },
  show: () => ({ text: [S.client, S.batcher, S.reader].map((each) => `${each} ${inspect(each, { showHidden: true, depth: 9 })} ${JSON.stringify(each)}`).join() }),
  exit: () => ({}),
};

/** @param {any} got */
const flushed = ({ inFlight, ...others }) => ({ ...others, in_flight: inFlight });

/** The options of a batcher. @param {any} op */
const batching = (op) => ({ ...options(op, BATCHER), ...("when_full" in op ? { whenFull: /** @type {any} */ (FULL)[op.when_full] } : {}) });

/** @param {any} error */
function failed(error) {
  const text = `${error} ${inspect(error)} ${error?.stack} ${JSON.stringify(error)}`;
  if (!(error instanceof HeadgateError)) return { code: error instanceof TypeError || error instanceof RangeError ? "USAGE" : "BROKEN", text };
  const { code, status = null, message, requestId, details, retryable, added } = /** @type {any} */ (error);
  return { code, status, message, request_id: requestId, details, retryable, added, text };
}

/** @param {any} op @param {AbortSignal} [signal] */
async function answer(op, signal) {
  let result;
  try {
    if (!(op.op in OPS)) throw new HeadgateError("UNKNOWN_OP", op.op);
    result = { ok: await OPS[op.op](op, signal) };
  } catch (error) {
    result = { error: failed(error) };
  }
  process.stdout.write(`${stringify({ n: op.n, ...result })}\n`);
}

const lines = createInterface({ input: process.stdin, crlfDelay: Infinity })[Symbol.asyncIterator]();

/** What the kit says next. */
async function nextLine() {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
}

for (let op = await nextLine(); op; op = await nextLine()) {
  if (op.op === "kill") process.kill(process.pid, "SIGKILL");
  if ("as" in op) {
    const cancel = new AbortController();
    S.cancels.set(op.as, cancel);
    answer(op, cancel.signal);
    continue;
  }
  await answer(op);
  if (op.op === "exit") break;
}
process.stdin.destroy();
