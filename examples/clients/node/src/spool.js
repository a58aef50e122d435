// Batches on disk: written before they are sent, deleted when they are answered.
//
// A file is `<UUIDv7>.json`: a line that says whose it is, then the body. It is the same in every library.

import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync } from "node:fs";
import { open, rename, rm, unlink } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "./json.js";
import { saw } from "./uuid.js";
import { isObject, submission } from "./wire.js";

const NAME = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json$/;

/**
 * A batch that an earlier life has left.
 * @typedef {object} Kept
 * @property {string} path
 * @property {string} idempotencyKey
 * @property {string | undefined} itemKey
 * @property {number} created in milliseconds since 1970
 * @property {string} body
 * @property {any[]} items
 */

/** A folder of batches. One batcher a folder. */
export class Spool {
  #folder;
  #log;

  /**
   * @param {string} folder
   * @param {(message: string) => void} log
   */
  constructor(folder, log) {
    this.#folder = folder;
    this.#log = log;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /**
   * Puts a batch on disk; its path.
   * @param {import("./queue.js").Batch} batch
   */
  async write({ idempotencyKey, itemKey, born, text }) {
    const head = JSON.stringify({ v: 1, idempotency_key: idempotencyKey, item_key: itemKey ?? null, created: Math.floor(born) });
    const path = join(this.#folder, `${idempotencyKey}.json`);
    const part = `${path}.part`;
    try {
      const file = await open(part, "w", 0o600);
      try {
        await file.writeFile(`${head}\n${text}`);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(part, path);
      await this.#flush();
    } catch (error) {
      await rm(part, { force: true }).catch(() => {}); // what there was room for is room again
      throw error;
    }
    return path;
  }

  /**
   * Takes a batch away that was answered.
   * @param {string} path
   */
  async delete(path) {
    try {
      await unlink(path);
    } catch (/** @type {any} */ error) {
      if (error.code === "ENOENT") return;
      this.#log(`${path} was answered, and cannot be deleted; the next start repeats it: ${error.message}`);
    }
  }

  /**
   * What lies there, in order. A file that cannot be read is set aside, and said.
   * @returns {Kept[]}
   */
  left() {
    const found = [];
    for (const name of readdirSync(this.#folder).sort()) {
      const path = join(this.#folder, name);
      if (name.endsWith(".json.part")) rmSync(path, { force: true }); // never finished, and so never sent
      if (!NAME.test(name)) continue;
      saw(name);
      const kept = read(path);
      if (kept) found.push(kept);
      else {
        this.#log(`${path} is no spooled batch; it is set aside as ${name}.damaged`);
        renameSync(path, `${path}.damaged`);
      }
    }
    return found;
  }

  /** The names are on disk, too, where folders can be flushed. */
  async #flush() {
    const folder = await open(this.#folder, "r").catch(() => undefined);
    try {
      await folder?.sync();
    } catch (/** @type {any} */ error) {
      if (!["EINVAL", "EPERM", "EISDIR", "ENOTSUP", "EBADF"].includes(error.code)) throw error;
    } finally {
      await folder?.close();
    }
  }
}

/** @param {string} path @returns {Kept | undefined} */
function read(path) {
  const bytes = readFileSync(path);
  try {
    const [head, body = ""] = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).split("\n");
    const { v, idempotency_key: idempotencyKey, item_key: itemKey, created } = JSON.parse(head);
    const items = parse(body, { exact: true });
    if (v !== 1 || !Array.isArray(items) || !items.every(isObject) || !Number.isFinite(created)) return undefined;
    submission(itemKey ?? undefined, idempotencyKey);
    return { path, idempotencyKey, itemKey: itemKey ?? undefined, created, body, items };
  } catch {
    return undefined;
  }
}
