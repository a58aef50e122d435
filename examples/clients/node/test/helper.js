// What the tests share: a server that answers as a function says, folders, programs.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@headgate/client";

export const PACKAGE = dirname(dirname(fileURLToPath(import.meta.url)));
/** What is waited for has a bound that only a hang reaches. */
export const LONG = 120_000;

/**
 * @typedef {{ status?: number, body?: unknown } | "hang"} Told
 * @typedef {{ key: string, items: any[] }} Sent
 */

/** @param {any[]} items */
export const accepted = (items) => ({ status: 202, body: { success: true, data: { stream: "orders", items_received: items.length, request_id: "r" } } });
export const refused = { status: 400, body: { success: false, error: { code: "INVALID_PAYLOAD", message: "refused", request_id: "r" } } };

/**
 * A server, and what it was sent.
 * @param {import("node:test").TestContext} t
 * @param {(items: any[]) => Told | Promise<Told>} answer
 */
export async function server(t, answer) {
  /** @type {Sent[]} */
  const sent = [];
  const listener = createServer(async (request, response) => {
    let text = "";
    for await (const part of request.setEncoding("utf8")) text += part;
    const items = JSON.parse(text);
    sent.push({ key: String(request.headers["idempotency-key"]), items });
    const told = await answer(items);
    if (told === "hang") return;
    response.writeHead(told.status ?? 202, { "content-type": "application/json" });
    response.end(JSON.stringify(told.body));
  });
  await new Promise((/** @type {(value?: undefined) => void} */ resolve) => listener.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    listener.close();
    listener.closeAllConnections();
  });
  const { port } = /** @type {import("node:net").AddressInfo} */ (listener.address());
  return { sent, url: `http://127.0.0.1:${port}` };
}

/** @param {string} url @param {string[]} [said] */
export const client = (url, said = []) => new Client(url, "ik_live_x", { backoff: 5, backoffMax: 20, log: (message) => said.push(message) });

/** A folder that is gone after the test. @param {import("node:test").TestContext} t */
export function folder(t) {
  const path = mkdtempSync(join(tmpdir(), "headgate-node-"));
  t.after(() => rmSync(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  return path;
}

/** The batches in a folder. @param {string} path */
export const batches = (path) => readdirSync(path).filter((name) => name.endsWith(".json")).sort();

/** Waits for what happens by itself. @param {string} what @param {() => unknown} holds */
export async function eventually(what, holds) {
  for (const end = performance.now() + LONG; ; ) {
    const found = await holds();
    if (found) return found;
    if (performance.now() > end) throw new Error(`not within ${LONG} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/**
 * Runs a program to its end.
 * @param {string} program
 * @param {string[]} args
 * @param {import("node:child_process").SpawnOptions} [options]
 * @returns {Promise<{ code: number | null, stdout: string, stderr: string }>}
 */
export function run(program, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    let [stdout, stderr] = ["", ""];
    child.stdout?.on("data", (data) => (stdout += data));
    child.stderr?.on("data", (data) => (stderr += data));
    const late = setTimeout(() => child.kill("SIGKILL"), LONG);
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(late);
      resolve({ code, stdout, stderr });
    });
  });
}
