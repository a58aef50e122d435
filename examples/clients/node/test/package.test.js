// The package: its types are those of its sources and of use to others, its reader needs nothing that browsers lack, and
// it leaves a program when that has ended.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { test } from "node:test";
import { Spool } from "../src/no_spool.js";
import { PACKAGE, accepted, folder, run, server } from "./helper.js";

const TSC = join(PACKAGE, "node_modules/typescript/bin/tsc");
const skip = existsSync(TSC) ? false : "typescript is not there: npm ci";
if (skip && process.env.CI) throw new Error(skip);

test("the types in the folder are those of the sources", { skip }, async (t) => {
  const fresh = folder(t);
  const done = await run(process.execPath, [TSC, "--project", join(PACKAGE, "tsconfig.build.json"), "--outDir", fresh]);
  assert.equal(done.code, 0, done.stdout);
  const names = readdirSync(fresh).sort();
  assert.deepEqual(readdirSync(join(PACKAGE, "types")).sort(), names);
  for (const name of names) assert.equal(readFileSync(join(PACKAGE, "types", name), "utf8"), readFileSync(join(fresh, name), "utf8"), `${name}: npm run build`);
});

const USER = `
import { Client, HeadgateError, Reader, RawJson, type BatcherOptions, type Item, type Receipt } from "@headgate/client";
import { View } from "@headgate/client/reader";
interface Order { id: number; total: bigint; at: Date }
const options: BatcherOptions = { itemKey: "id", whenFull: "dropOldest", onRejected: (items, error) => error.code + items.length };
export async function main(order: Order): Promise<string> {
  const client = new Client("http://localhost", "ik", { timeout: 5 });
  const receipt: Receipt = await client.send([order, { price: new RawJson("1.10") }], { itemKey: "id", signal: new AbortController().signal });
  const batcher = client.batcher(options);
  await batcher.add(order);
  const { done, inFlight } = await batcher.close(5);
  for await (const message of new Reader().follow(["a"])) if (message.items?.length) break;
  const view: View = new Reader().view("a", { onChange: (items: Item[]) => items[0].fields.x });
  const error: unknown = view.error;
  // @ts-expect-error: there is no such choice
  client.batcher({ itemKey: "id", whenFull: "never" });
  // @ts-expect-error: an item is no text
  await batcher.add("text");
  // @ts-expect-error: streams are a list
  new Reader().follow("a");
  return error instanceof HeadgateError ? error.code : \`\${receipt.itemsReceived + inFlight} \${done}\`;
}
`;

test("a program in TypeScript compiles with them", { skip }, async (t) => {
  const place = folder(t);
  mkdirSync(join(place, "node_modules/@headgate"), { recursive: true });
  symlinkSync(PACKAGE, join(place, "node_modules/@headgate/client"));
  writeFileSync(join(place, "user.ts"), USER);
  writeFileSync(join(place, "package.json"), '{"type":"module"}');
  for (const [lib, module] of [["es2022,dom", "nodenext"], ["es2022,dom", "esnext"]]) {
    const moduleResolution = module === "esnext" ? "bundler" : module;
    const args = ["--noEmit", "--strict", "--target", "es2022", "--lib", lib, "--module", module, "--moduleResolution", moduleResolution, "--types", "", "user.ts"];
    const done = await run(process.execPath, [TSC, ...args], { cwd: place });
    assert.equal(done.code, 0, done.stdout);
  }
});

test("the reader needs no other package, and nothing of Node's", () => {
  const seen = new Set([join(PACKAGE, "src/reader.js")]);
  for (const file of seen) {
    for (const [, from] of readFileSync(file, "utf8").matchAll(/^(?:import|export) .*from "([^"]+)";$/gm)) {
      assert.match(from, /^\.\//, `${file} imports ${from}`);
      seen.add(resolve(dirname(file), from));
    }
  }
  assert.ok(seen.size > 5, `${seen.size}`);
});

test("where there is no file system, a spool is refused", () => {
  assert.throws(() => new Spool(), TypeError);
});

test("what waits is sent when the program ends, also what came when it was ending", async (t) => {
  const { sent, url } = await server(t, accepted);
  const script = `
    import { Client } from "@headgate/client";
    const batcher = new Client(process.argv[1], "ik_live_x").batcher({ itemKey: "id", linger: 3_600_000 });
    for (let id = 0; id < 5; id++) batcher.add({ id });
    process.once("beforeExit", () => setTimeout(() => batcher.add({ id: 5 }), 1));
  `;
  const done = await run(process.execPath, ["--input-type=module", "--eval", script, url], { cwd: PACKAGE });
  assert.deepEqual([done.code, done.stdout, done.stderr], [0, "", ""]);
  assert.deepEqual(sent.flatMap(({ items }) => items.map(({ id }) => id)), [0, 1, 2, 3, 4, 5]);
});

test("a program that has ended is not kept by a request that hangs", async (t) => {
  const { sent, url } = await server(t, () => "hang");
  const script = `
    import { Client } from "@headgate/client";
    const client = new Client(process.argv[1], "ik_live_x", { attemptTimeout: 3_600_000, log: () => {} });
    const batcher = client.batcher({ itemKey: "id", maxItems: 1, onRejected: ([{ id }], { code }) => console.log(id, code) });
    for (let id = 0; id < 2; id++) await batcher.add({ id });
  `;
  const done = await run(process.execPath, ["--input-type=module", "--eval", script, url], { cwd: PACKAGE });
  assert.deepEqual([done.code, done.stdout, done.stderr, sent.length], [0, "0 CLOSED\n1 CLOSED\n", "", 1]);
});
