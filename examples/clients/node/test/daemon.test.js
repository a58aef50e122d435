// The library against the real daemon: sending, waiting, reading, following, the README's lines, and kills.
//
// Without HEADGATE_PROGRAM these tests are skipped. What is waited for has a bound that only a hang reaches.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client, RawJson, Reader } from "@headgate/client";
import { Daemon, KEY, READ_KEY, skip } from "./daemon.js";
import { LONG, PACKAGE, eventually, run } from "./helper.js";

const [ITEMS, KILLS] = [10_000, 5];

/** @template T @param {AsyncIterable<T>} all @returns {Promise<T[]>} */
async function list(all) {
  const found = [];
  for await (const each of all) found.push(each);
  return found;
}

test("send, wait, read back, follow, view, remove", { skip }, async (t) => {
  const daemon = await Daemon.start(t);
  const client = new Client(daemon.url, KEY);
  const reader = new Reader(daemon.url, READ_KEY, { exactNumbers: true });
  const sent = { id: "a/b", total: new RawJson("1.10"), big: 2n ** 70n, größe: "ü😀" };
  const receipt = await client.send(sent, { itemKey: "id", idempotencyKey: "first" });
  assert.deepEqual({ ...receipt, requestId: "" }, { stream: "orders", itemsReceived: 1, requestId: "", replayed: false });
  const again = await client.send(sent, { itemKey: "id", idempotencyKey: "first" });
  assert.deepEqual(again, { ...receipt, replayed: true });
  assert.equal((await client.wait(receipt, { timeout: LONG })).status, "processed");
  assert.deepEqual((await reader.item("orders", "a/b"))?.fields, sent);
  assert.equal(await reader.item("orders", "none"), undefined);
  await assert.rejects(reader.follow(["none"]).next(), (/** @type {any} */ error) => [403, 404].includes(error.status));

  const following = reader.follow(["orders"]);
  const { value: first } = await following.next();
  assert.ok(first && first.type === "snapshot" && first.complete && first.items?.[0].key === "a/b");
  const view = reader.view("orders");
  assert.ok(await view.wait(LONG));
  assert.deepEqual([...view.keys()], ["a/b"]);
  const many = Array.from({ length: 250 }, (_, größe) => ({ größe }));
  await client.wait(await client.send(many, { itemKey: "größe" }), { timeout: LONG });
  await eventually("the view has what was sent", () => view.size === 251 && !view.stale);
  let last;
  for (const told = new Set(); told.size < 250; ) {
    const { value: message } = await following.next();
    assert.ok(message && message.type === "update");
    for (const { key } of message.items ?? []) told.add(key);
    last = message.id;
  }
  await following.return();
  assert.equal((await client.wait(await client.remove("orders", "7"), { timeout: LONG })).status, "removed");
  await eventually("the view knows what was removed", () => !view.has("7"));
  await view.close();
  const { value: removed } = await reader.follow(["orders"], { since: last }).next();
  assert.deepEqual([removed?.type, removed?.keys], ["remove", ["7"]]);
  const keys = (await list(reader.items("orders", { page: 100 }))).map(({ key }) => key);
  assert.deepEqual([keys.length, new Set(keys).size], [250, 250]);
});

test("the lines of the README, as they stand there, but for address and keys", { skip }, async (t) => {
  const daemon = await Daemon.start(t);
  const text = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const blocks = [...text.matchAll(/```js\n(.*?)```/gs)].map(([, lines]) => lines);
  assert.equal(blocks.length, 2);
  mkdirSync(join(daemon.folder, "node_modules/@headgate"), { recursive: true });
  symlinkSync(PACKAGE, join(daemon.folder, "node_modules/@headgate/client"));
  for (const [index, end] of ["processed", "complete"].entries()) {
    assert.match(blocks[index], /"http:\/\/127\.0\.0\.1:8080", "[ir]k_live_…"/);
    const lines = blocks[index].replace("http://127.0.0.1:8080", daemon.url).replace("ik_live_…", KEY).replace("rk_live_…", READ_KEY);
    const file = join(daemon.folder, `readme${index}.mjs`);
    writeFileSync(file, lines);
    const done = await run(process.execPath, [file], { cwd: daemon.folder });
    assert.equal(done.code, 0, done.stderr);
    assert.ok(done.stdout.includes(end) && !done.stderr, done.stdout + done.stderr);
  }
  const found = await list(new Reader(daemon.url, READ_KEY).items("orders", { page: 1000 }));
  assert.equal(found.length, 10_000);
});

test("every item arrives, once and with its last value, however often the daemon is killed", { skip }, async (t) => {
  const daemon = await Daemon.start(t);
  const client = new Client(daemon.url, KEY, { backoffMax: 1000, log: () => {} });
  const reader = new Reader(daemon.url, READ_KEY);
  const numbers = Array.from({ length: ITEMS }, (_, id) => id);
  for (let start = 0; start < ITEMS; start += 1000) await client.send(numbers.slice(start, start + 1000).map((id) => ({ id, value: "old" })), { itemKey: "id" });
  /** @type {unknown[]} */
  const givenUp = [];
  const batcher = client.batcher({ itemKey: "id", maxItems: 100, linger: 20, onRejected: (items, error) => givenUp.push([items.length, error]) });
  const add = (/** @type {number} */ id) => batcher.add({ id, value: `new ${id}` });
  const half = ITEMS / 2;
  const share = half / KILLS;
  for (const id of numbers.slice(0, half)) await add(id);
  for (let kill = 0; kill < KILLS; kill++) {
    const before = batcher.stats;
    await eventually("items are accepted", () => batcher.stats.accepted > before.accepted || batcher.stats.queued === 0);
    await daemon.kill();
    for (const id of numbers.slice(half + kill * share, half + (kill + 1) * share)) await add(id);
    await eventually("a request has failed", () => batcher.stats.retries > before.retries);
    await daemon.again();
  }
  const flushed = await batcher.flush(LONG);
  const { accepted, rejected, retries } = batcher.stats;
  assert.deepEqual([flushed.done, givenUp, accepted, rejected], [true, [], ITEMS, 0]);
  assert.ok(retries >= KILLS, `${retries}`);
  const expected = new Map(numbers.map((id) => [`${id}`, `new ${id}`]));
  await eventually("the pool has the last values", async () => {
    const found = await list(reader.items("orders", { page: 1000 }));
    return found.length === ITEMS && found.every(({ key, fields }) => expected.get(key) === fields.value);
  });
  t.diagnostic(`${accepted} items accepted over ${KILLS} kills, with ${retries} retries`);
});
