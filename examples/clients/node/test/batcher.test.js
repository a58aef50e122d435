// What a scripted server cannot show of a batcher: items that are not awaited, callbacks, spools on disks that fail.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { stringify } from "@headgate/client";
import { Spool } from "../src/spool.js";
import { saw, uuid7 } from "../src/uuid.js";
import { LONG, accepted, batches, client, eventually, folder, refused, server } from "./helper.js";

const ids = (/** @type {{ items: any[] }[]} */ sent) => sent.flatMap(({ items }) => items.map(({ id }) => id));
const upTo = (/** @type {number} */ count) => Array.from({ length: count }, (_, id) => id);

test("items that nobody awaited are sent by flush and close, in order", async (t) => {
  const { sent, url } = await server(t, accepted);
  const batcher = client(url).batcher({ itemKey: "id", queueBytes: 100, maxItems: 7 });
  for (const id of upTo(500)) batcher.add({ id });
  assert.deepEqual(await batcher.flush(LONG), { done: true, queued: 0, inFlight: 0 });
  assert.deepEqual(ids(sent), upTo(500));
  for (const id of upTo(500)) batcher.add({ id });
  assert.equal((await batcher.close(LONG)).done, true);
  assert.deepEqual(ids(sent), [...upTo(500), ...upTo(500)]);
});

test("of items with one key the newest is last, also when they wait for room", async (t) => {
  const { sent, url } = await server(t, accepted);
  const batcher = client(url).batcher({ itemKey: "id", queueBytes: 60, latestOnly: true });
  for (const value of upTo(300)) batcher.add({ id: value % 3, value });
  await batcher.close(LONG);
  const last = new Map(sent.flatMap(({ items }) => items.map(({ id, value }) => [id, value])));
  assert.deepEqual([...last].sort(), [[0, 297], [1, 298], [2, 299]]);
});

test("an add that waits for room is canceled by its signal", async (t) => {
  const { url } = await server(t, () => "hang");
  const batcher = client(url).batcher({ itemKey: "id", queueBytes: 10, maxItems: 1 });
  await batcher.add({ id: 1 });
  await batcher.add({ id: 2 });
  const cancel = new AbortController();
  const waiting = [batcher.add({ id: 3 }, { signal: cancel.signal }), batcher.add({ id: 4 })];
  cancel.abort();
  await assert.rejects(waiting[0], { code: "CANCELED" });
  batcher.close(0);
  await assert.rejects(waiting[1], { code: "CLOSED" });
});

test("a callback may add to the full batcher, and one that fails harms nobody", async (t) => {
  const { sent, url } = await server(t, accepted);
  /** @type {string[]} */
  const said = [];
  const batcher = client(url, said).batcher({
    itemKey: "id",
    queueBytes: 10,
    maxItems: 1,
    onAccepted: async (_, [{ id }]) => {
      if (id < 20) await batcher.add({ id: id + 10 });
      throw new Error("the callback's own");
    },
  });
  for (const id of upTo(10)) await batcher.add({ id });
  await eventually("all are accepted", () => batcher.stats.accepted === 30);
  await batcher.close(LONG);
  assert.deepEqual(ids(sent).sort((a, b) => a - b), upTo(30));
  assert.equal(said.filter((message) => message.includes("the callback's own")).length, 30);
});

test("a loop that adds to a full queue lets requests go on", async (t) => {
  const { sent, url } = await server(t, accepted);
  const batcher = client(url).batcher({ itemKey: "id", queueBytes: 100, maxItems: 5, whenFull: "dropOldest" });
  for (let id = 0; batcher.stats.accepted < 50; id++) await batcher.add({ id });
  await batcher.close(LONG);
  const { accepted: count, rejected, dropped } = batcher.stats;
  assert.deepEqual([ids(sent).length, rejected], [count, dropped]);
});

test("batches are written while a request hangs", async (t) => {
  const [kept, { sent, url }] = [folder(t), await server(t, () => "hang")];
  const batcher = client(url).batcher({ itemKey: "id", spool: kept, maxItems: 2, linger: 0 });
  for (const id of upTo(6)) await batcher.add({ id });
  await eventually("six items are in files", () => batches(kept).flatMap((name) => JSON.parse(readFileSync(join(kept, name), "utf8").split("\n")[1])).length === 6);
  await eventually("one request is on its way", () => sent.length === 1);
  await batcher.close(0);
  assert.equal(batches(kept).flatMap((name) => JSON.parse(readFileSync(join(kept, name), "utf8").split("\n")[1])).length, 6);
});

test("a disk that fails is told of and tried again, and nothing is lost", async (t) => {
  const [kept, { sent, url }] = [join(folder(t), "spool"), await server(t, accepted)];
  /** @type {string[]} */
  const told = [];
  const batcher = client(url).batcher({ itemKey: "id", spool: kept, linger: 0, onRetry: ({ code }) => told.push(code) });
  rmSync(kept, { recursive: true });
  await batcher.add({ id: 0 });
  await eventually("three attempts have failed", () => told.length >= 3);
  assert.deepEqual([sent.length, batcher.stats.queued, batcher.stats.retries], [0, 1, 0]);
  mkdirSync(kept);
  await batcher.add({ id: 1 });
  assert.equal((await batcher.close(LONG)).done, true);
  assert.deepEqual(ids(sent), [0, 1]);
  assert.deepEqual([...new Set(told)], ["SPOOL"]);
  assert.deepEqual(batches(kept), []);
});

test("what a disk never took is handed over at the end", async (t) => {
  const [kept, { sent, url }] = [join(folder(t), "spool"), await server(t, accepted)];
  /** @type {number[]} */
  const lost = [];
  const batcher = client(url).batcher({ itemKey: "id", spool: kept, maxItems: 2, linger: 0, onRejected: (items) => lost.push(...items.map(({ id }) => id)) });
  rmSync(kept, { recursive: true });
  for (const id of upTo(5)) await batcher.add({ id });
  assert.equal((await batcher.close(50)).done, false);
  assert.deepEqual([lost, sent, batcher.stats.rejected], [upTo(5), [], 5]);
});

test("a file stays until all parts are settled, and parts keep their keys", async (t) => {
  const kept = folder(t);
  const name = `${uuid7()}.json`;
  writeFileSync(join(kept, name), `{"v":1,"idempotency_key":"k","item_key":"id","created":${Date.now()}}\n[{"id":1},{"id":2},{"id":3},{"id":4}]`);
  const lives = [];
  for (const life of [1, 2]) {
    const { sent, url } = await server(t, (items) => (items.length > 1 ? refused : life === 1 && items[0].id === 3 ? "hang" : accepted(items)));
    const batcher = client(url).batcher({ itemKey: "id", spool: kept, onRejected: (items, error) => assert.fail(`${stringify(items)} ${error}`) });
    await eventually("the third is on its way", () => sent.some(({ items }) => items.length === 1 && items[0].id === 3));
    if (life === 1) assert.deepEqual(batches(kept), [name]);
    await batcher.close(life === 1 ? 0 : LONG);
    lives.push(new Map(sent.map(({ key, items }) => [`${items.map(({ id }) => id)}`, key])));
  }
  assert.deepEqual(batches(kept), []);
  const [first, second] = lives;
  for (const [part, key] of first) assert.equal(second.get(part), key);
  assert.equal(new Set(second.values()).size, second.size);
  assert.equal(second.get("3"), "k/2/1");
});

test("what was spooled keeps its digits, and what is damaged is set aside", (t) => {
  const kept = folder(t);
  const text = `[{"id":-0,"a":1.10,"b":1E+400,"c":${"9".repeat(5000)}}]`;
  const names = [uuid7(), uuid7(), uuid7()].map((name) => `${name}.json`);
  writeFileSync(join(kept, names[0]), `{"v":1,"idempotency_key":"k","item_key":null,"created":1}\n${text}\n`);
  writeFileSync(join(kept, names[1]), '{"v":1,"idempotency_key":"k","item_key":null,"created":1}\n[{"id":');
  writeFileSync(join(kept, `${names[2]}.part`), "never finished");
  writeFileSync(join(kept, "notes.json"), "another's");
  /** @type {string[]} */
  const said = [];
  const found = new Spool(kept, (message) => said.push(message)).left();
  assert.equal(stringify(found[0].items), text);
  assert.deepEqual([found.length, said.length, batches(kept)], [1, 1, [names[0], "notes.json"].sort()]);
  renameSync(join(kept, `${names[1]}.damaged`), join(kept, "there"));
});

test("names of batches grow, also after those of a clock that went ahead", () => {
  const names = Array.from({ length: 10_000 }, uuid7);
  assert.deepEqual([...names].sort(), names);
  saw("ffff0000-0000-7000-8000-000000000000");
  const later = Array.from({ length: 10_000 }, uuid7);
  assert.deepEqual([...later].sort(), later);
  assert.ok(later[0] > "ffff0000-0000-7000-8000-000000000000" && later.every((name) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(name)));
});
