// The reader in a browser: a page of another origin lists, views and follows streams of the real daemon.
//
// Without HEADGATE_PROGRAM, or without chromium, this is skipped.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "@headgate/client";
import { Daemon, KEY, READ_KEY, skip } from "./daemon.js";
import { LONG, PACKAGE, eventually, folder } from "./helper.js";

const missing = skip || (spawnSync("chromium", ["--version"]).status === 0 ? false : "there is no chromium");

/** What the page does. It says on its own server what it found. @param {string} url */
const page = (url) => `<!doctype html><script type="module">
  import { Reader } from "/src/reader.js";
  const tell = (found) => fetch("/told", { method: "POST", body: JSON.stringify(found) });
  try {
    const reader = new Reader("${url}", "${READ_KEY}", { backoff: 20 });
    const listed = [];
    for await (const { key } of reader.items("orders", { page: 2 })) listed.push(key);
    const view = reader.view("orders");
    await view.wait();
    const following = reader.follow(["orders"]);
    const { type } = (await following.next()).value;
    await tell({ listed, viewed: [...view.keys()], big: String(view.get("1").fields.big), type });
    for await (const message of following) if (message.items?.some(({ key }) => key === "last")) break;
    while (!view.has("last")) await new Promise((resolve) => setTimeout(resolve, 10));
    await tell({ viewed: [...view.keys()] });
    await view.close();
    await new Reader("${url}", "rk_live_which_is_none_at_all").item("orders", "1").catch((error) => tell({ code: error.code }));
  } catch (error) {
    await tell({ failed: String(error) });
  }
</script>`;

test("a page reads a daemon of another origin, also after that was killed", { skip: missing }, async (t) => {
  const daemon = await Daemon.start(t);
  const client = new Client(daemon.url, KEY, { log: () => {} });
  await client.wait(await client.send(["1", "2", "3"].map((id) => ({ id, big: 2n ** 60n + 1n })), { itemKey: "id" }), { timeout: LONG });
  /** @type {any[]} */
  const told = [];
  const pages = createServer(async (request, response) => {
    let text = "";
    for await (const part of request.setEncoding("utf8")) text += part;
    if (request.method === "POST") told.push(JSON.parse(text));
    const path = String(request.url);
    const script = /^\/src\/\w+\.js$/.test(path);
    response.writeHead(path === "/favicon.ico" ? 404 : 200, { "content-type": script ? "text/javascript" : "text/html" });
    response.end(script ? readFileSync(join(PACKAGE, path)) : page(daemon.url));
  });
  await new Promise((/** @type {(value?: undefined) => void} */ tell) => pages.listen(0, "127.0.0.1", tell));
  t.after(() => pages.close());
  const { port } = /** @type {import("node:net").AddressInfo} */ (pages.address());
  const profile = folder(t);
  const browser = spawn("chromium", ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", `--user-data-dir=${profile}`, `http://127.0.0.1:${port}/`], { stdio: "ignore", detached: true });
  const gone = new Promise((tell) => browser.once("exit", tell));
  try {
    await eventually("the page has read", () => told.length === 1);
    assert.deepEqual(told[0], { listed: ["1", "2", "3"], viewed: ["1", "2", "3"], big: `${2n ** 60n + 1n}`, type: "snapshot" });
    await daemon.kill();
    await daemon.again();
    await client.send({ id: "last" }, { itemKey: "id" });
    await eventually("the page has followed", () => told.length === 3);
    assert.deepEqual(told.slice(1), [{ viewed: ["1", "2", "3", "last"] }, { code: "UNAUTHORIZED" }]);
  } finally {
    process.kill(-Number(browser.pid), "SIGKILL");
    await gone;
    pages.closeAllConnections();
  }
});
