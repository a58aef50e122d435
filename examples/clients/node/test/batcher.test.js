// What a scripted server cannot show of a batcher: items that are not awaited, callbacks, spools on disks that fail.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { stringify } from "@headgate/client";
import { Time, opened } from "../simulated.js";
import { Spool } from "../src/spool.js";
import { saw, uuid7 } from "../src/uuid.js";
import { LONG, accepted, batches, client, eventually, folder, refused, server } from "./helper.js";

const ids = (/** @type {{ items: any[] }[]} */ sent) => sent.flatMap(({ items }) => items.map(({ id }) => id));
const upTo = (/** @type {number} */ count) => Array.from({ length: count }, (_, id) => id);

test("items that nobody awaited are sent by flush and close, in order", async (t) => {
  const { sent, url } = await server(t, accepted);
  const batcher = client(url).batcher({ itemKey: "id", queueBytes: 100, maxItems: 7 });
  for (const id of upTo(500)) batcher.add({ id });
  assert.deepEqual(await batcher.flush(LONG), { done: true, queued: 0, inFlight: 0, spooled: 0, state: "ok", code: undefined });
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

test("what the disk does not take is sent from memory, and that is told of", async (t) => {
  const [kept, { sent, url }] = [join(folder(t), "spool"), await server(t, accepted)];
  /** @type {unknown[]} */
  const told = [];
  const batcher = client(url).batcher({ itemKey: "id", spool: kept, linger: 0, onState: (...state) => told.push(state) });
  rmSync(kept, { recursive: true });
  await batcher.add({ id: 0 });
  await eventually("it is accepted", () => batcher.stats.accepted === 1);
  assert.deepEqual([batcher.stats.queued, batcher.stats.retries, told], [0, 0, [["retrying", "SPOOL"]]]);
  mkdirSync(kept);
  await batcher.add({ id: 1 });
  assert.equal((await batcher.close(LONG)).done, true);
  assert.deepEqual(ids(sent), [0, 1]);
  assert.deepEqual(told, [["retrying", "SPOOL"], ["ok", "SPOOL"]]);
  assert.deepEqual(batches(kept), []);
});

test("what a disk never took is handed over at the end", async (t) => {
  const [kept, { url }] = [join(folder(t), "spool"), await server(t, () => "hang")];
  /** @type {number[]} */
  const lost = [];
  const batcher = client(url).batcher({ itemKey: "id", spool: kept, maxItems: 2, linger: 0, onRejected: (items) => lost.push(...items.map(({ id }) => id)) });
  rmSync(kept, { recursive: true });
  for (const id of upTo(5)) await batcher.add({ id });
  assert.equal((await batcher.close(50)).done, false);
  assert.deepEqual([lost, batcher.stats.rejected], [upTo(5), 5]);
});

/** A batch of an earlier life; its key. @param {string} kept @param {string} text */
function leave(kept, text) {
  const key = uuid7();
  writeFileSync(join(kept, `${key}.json`), `{"v":1,"idempotency_key":"${key}","item_key":"id","created":1}\n${text}`);
  return key;
}

test("a file stays until all parts are settled, and the next life goes on with those that are left", async (t) => {
  const kept = folder(t);
  const key = leave(kept, '[{"id":1},{"id":2},{"id":3},{"id":4}]');
  const lives = [];
  for (const life of [1, 2]) {
    const { sent, url } = await server(t, (items) => (items.length > 1 ? refused : life === 1 && items[0].id === 3 ? "hang" : accepted(items)));
    const batcher = client(url).batcher({ itemKey: "id", spool: kept, onRejected: (items, error) => assert.fail(`${stringify(items)} ${error}`) });
    await eventually("the third is on its way", () => sent.some(({ items }) => items.length === 1 && items[0].id === 3));
    if (life === 1) assert.deepEqual(batches(kept), [`${key}.json`]);
    await batcher.close(life === 1 ? 0 : LONG);
    lives.push(new Map(sent.map(({ key, items }) => [`${items.map(({ id }) => id)}`, key])));
  }
  assert.deepEqual(batches(kept), []);
  const [first, second] = lives;
  assert.equal(first.get("3"), `${key}/2/1`);
  assert.deepEqual([...second], [["3", `${key}/2/1`], ["4", `${key}/3/1`]]);
});

test("what was spooled keeps its digits, and what is damaged is set aside", async (t) => {
  const kept = folder(t);
  const text = `[{"id":-0,"a":1.10,"b":1E+400,"c":${"9".repeat(5000)}}]`;
  const [whole, damaged] = [leave(kept, text), leave(kept, '[{"id":')];
  writeFileSync(join(kept, `${uuid7()}.json.part`), "never finished");
  writeFileSync(join(kept, "notes.json"), "another's");
  const spool = new Spool(kept, 2 ** 30, () => {});
  assert.deepEqual(spool.left.map(({ key }) => key), [whole, damaged]);
  const found = await spool.read(whole);
  assert.ok(found && typeof found !== "string");
  assert.equal(stringify(found.items), text);
  assert.equal(typeof (await spool.read(damaged)), "string");
  assert.equal(await spool.read(uuid7()), undefined);
  assert.deepEqual(batches(kept), [`${whole}.json`, "notes.json"].sort());
  assert.ok(existsSync(join(kept, `${damaged}.json.damaged`)));
  await spool.close();
});

test("a large spool is not read before its turn", async (t) => {
  const [kept, { sent, url }] = [folder(t), await server(t, () => "hang")];
  leave(kept, '[{"id":1}]');
  for (let count = 0; count < 300; count++) truncateSync(join(kept, `${leave(kept, "")}.json`), 4 << 20); // a hole: it would be 4 MiB in memory
  const before = process.memoryUsage.rss();
  const batcher = client(url).batcher({ itemKey: "id", spool: kept });
  await eventually("the first is on its way", () => sent.length);
  assert.deepEqual([batcher.stats.spooled, batcher.stats.spooledBytes], [300, 300 * (4 << 20)]);
  assert.ok(process.memoryUsage.rss() - before < 300 << 20, `${before} ${process.memoryUsage.rss()}`);
  await batcher.close(0);
  assert.equal(batches(kept).length, 301);
});

test("a mark that makes no sense says nothing", async (t) => {
  const kept = folder(t);
  const spool = new Spool(kept, 2 ** 30, () => {});
  const nothing = { tried: undefined, parts: undefined };
  assert.deepEqual(spool.marked("k", 4), nothing);
  await spool.mark("k", { tried: 7500, parts: [[1, 1], [2, 2]] });
  assert.deepEqual(spool.marked("k", 4), { tried: 7500, parts: [[1, 1], [2, 2]] });
  assert.deepEqual([spool.marked("k", 3), spool.marked("other", 4)], [nothing, nothing]);
  assert.equal(statSync(join(kept, ".state")).size, 4096);
  await spool.close();
});

test("refusals are kept once, also after a line that was cut", async (t) => {
  const kept = folder(t);
  const path = join(kept, "rejected", "k.json");
  const line = { v: 1, idempotency_key: "k/0/1", item_key: null, error: { code: "INVALID_PAYLOAD" } };
  const first = new Spool(kept, 2 ** 30, () => {});
  await first.reject("k", line, '[{"id":1}]');
  await first.close();
  writeFileSync(path, `${readFileSync(path, "utf8")}{"v":1,"idemp`);
  const second = new Spool(kept, 2 ** 30, () => {});
  await second.reject("k", line, '[{"id":1}]');
  await second.reject("k", { ...line, idempotency_key: "k/1/1" }, '[{"id":2}]');
  await second.close();
  const lines = readFileSync(path, "utf8").trimEnd().split("\n").map((text) => JSON.parse(text));
  assert.deepEqual(lines.map(({ idempotency_key: key, items }) => [key, items]), [["k/0/1", [{ id: 1 }]], ["k/1/1", [{ id: 2 }]]]);
});

test("the oldest refusals go, and what was not refused stays", async (t) => {
  const kept = folder(t);
  /** @type {string[]} */
  const said = [];
  const spool = new Spool(kept, 10 * 3 * 4096, (message) => said.push(message));
  /** @type {string[]} */
  const keys = [];
  for (const code of ["INVALID_PAYLOAD", "EXPIRED", "INVALID_PAYLOAD", "MISMATCH", "INVALID_PAYLOAD"]) {
    keys.push(uuid7());
    await spool.reject(keys[keys.length - 1], { v: 1, idempotency_key: keys[keys.length - 1], item_key: null, error: { code } }, '[{"id":1}]');
  }
  assert.deepEqual([spool.rejectedLost, said.length], [2, 1]);
  assert.deepEqual(batches(join(kept, "rejected")), [1, 3, 4].map((index) => `${keys[index]}.json`));
  await spool.close();
});

test("a file that cannot be read now is read later", async (t) => {
  const [kept, { sent, url }] = [folder(t), await server(t, accepted)];
  const key = leave(kept, '[{"id":1}]');
  const { read } = Spool.prototype;
  t.after(() => void (Spool.prototype.read = read));
  let failures = 2;
  Spool.prototype.read = async function (name) {
    if (failures-- > 0) throw Object.assign(new Error("too many open files"), { code: "EMFILE", syscall: "open" });
    return read.call(this, name);
  };
  /** @type {unknown[]} */
  const told = [];
  const batcher = client(url).batcher({ itemKey: "id", spool: kept, onState: (...state) => told.push(state) });
  await eventually("it is sent", () => sent.length);
  assert.equal((await batcher.close(LONG)).done, true);
  assert.deepEqual([sent.map((each) => each.key), told], [[key], [["retrying", "SPOOL"], ["ok", "SPOOL"]]]);
});

test("a batcher stops when its folder was taken over", async (t) => {
  const kept = folder(t);
  const time = new Time(Date.now(), 0);
  const batcher = opened(time, "ik_live_x", { itemKey: "id", spool: kept }, () => Promise.reject(new Error("nothing is sent")));
  rmSync(join(kept, ".owner"));
  await time.go(batcher, 10_000);
  await assert.rejects(batcher.add({ id: 1 }), { code: "CLOSED" });
});

test("names of batches grow, also after those of a clock that went ahead", () => {
  const names = Array.from({ length: 10_000 }, uuid7);
  assert.deepEqual([...names].sort(), names);
  saw("ffff0000-0000-7000-8000-000000000000");
  const later = Array.from({ length: 10_000 }, uuid7);
  assert.deepEqual([...later].sort(), later);
  assert.ok(later[0] > "ffff0000-0000-7000-8000-000000000000" && later.every((name) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(name)));
});
