// Batches on disk: written before they are sent, deleted when they are answered, kept apart when they are refused.
//
// A file is `<UUIDv7>.json`: a line that says whose it is, then the body. It is the same in every library.

import { closeSync, existsSync, fstatSync, fsync, fsyncSync, mkdirSync, openSync, readSync, readdirSync, rmSync, statSync, write, writeSync, constants } from "node:fs";
import { mkdir, open, readFile, rename, rm, stat, truncate, unlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { parse } from "./json.js";
import { Owner } from "./owner.js";
import { cost } from "./queue.js";
import { saw } from "./uuid.js";
import { isObject, submission } from "./wire.js";

/** @typedef {import("./queue.js").Part} Part */

const [writing, flushing] = [promisify(write), promisify(fsync)];
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
const NAME = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json$/;
const STATE_BYTES = 4096;
/** Lines of `rejected` with these codes stay: Headgate has not refused what they hold. */
const KEPT_CODES = ["EXPIRED", "MISMATCH"];
/** What says that a file is no business of this process, and will not be by waiting. */
const CLOSED = ["EACCES", "EPERM", "EISDIR", "ELOOP"];

/**
 * A batch that was read from its file.
 * @typedef {object} Kept
 * @property {string | undefined} itemKey
 * @property {string | undefined} stream
 * @property {string} text the body
 * @property {any[]} items
 */

/**
 * What is in hand.
 * @typedef {object} Mark
 * @property {number | undefined} tried since when Headgate may have taken it, by the wall clock; undefined: it has not
 * @property {Part[] | undefined} parts what is left of a batch that was cut
 */

/** A folder of batches. One batcher a folder. */
export class Spool {
  #room;
  #rejected;
  #log;
  #owner;
  #state;
  #closed = false;
  /** @type {Promise<void> | undefined} */
  #marking;
  /** Files of refusals, and their bytes. @type {Map<string, number>} */
  #refusals = new Map();
  /** Keys that are kept of the batch in hand. @type {{ key: string, keys: Set<string> }} */
  #told = { key: "", keys: new Set() };
  rejectedLost = 0;

  /**
   * @param {string} folder
   * @param {number} room
   * @param {(message: string) => void} log
   */
  constructor(folder, room, log) {
    this.folder = folder;
    this.#room = room;
    this.#log = log;
    this.#rejected = join(folder, "rejected");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#owner = new Owner(folder);
    try {
      this.#state = openState(join(folder, ".state"));
      /** Batches that an earlier life has left, in order, and their bytes. */
      this.left = this.#scan();
      this.#scanRejected();
    } catch (error) {
      this.#owner.release();
      throw error;
    }
  }

  #scan() {
    /** @type {{ key: string, bytes: number }[]} */
    const found = [];
    for (const name of readdirSync(this.folder).sort()) {
      if (UUID.test(name)) saw(name);
      if (name.endsWith(".json.part")) rmSync(join(this.folder, name), { force: true }); // never finished, and so never sent
      else if (NAME.test(name)) found.push({ key: name.slice(0, -5), bytes: statSync(join(this.folder, name)).size });
    }
    return found;
  }

  #scanRejected() {
    if (!existsSync(this.#rejected)) return;
    for (const name of readdirSync(this.#rejected).sort()) {
      if (!NAME.test(name)) continue;
      saw(name);
      this.#refusals.set(name, statSync(join(this.#rejected, name)).size);
    }
  }

  /** Whether the folder is still this program's. While it cannot be looked at, it is. */
  holds() {
    try {
      return this.#owner.holds() || !existsSync(this.folder);
    } catch {
      return true;
    }
  }

  /** Another batcher may use the folder. */
  async close() {
    if (this.#closed) return;
    this.#closed = true;
    await this.#marking?.catch(() => {});
    closeSync(this.#state);
    this.#owner.release();
  }

  /** @param {string} key */
  #path(key) {
    return join(this.folder, `${key}.json`);
  }

  /**
   * Puts a batch on disk; its bytes there.
   * @param {string} key
   * @param {import("./queue.js").Content} content
   * @param {number} created
   */
  async write(key, { itemKey, stream, text }, created) {
    const head = JSON.stringify({ v: 1, idempotency_key: key, item_key: itemKey ?? null, stream: stream ?? null, created: Math.floor(created) });
    const bytes = Buffer.from(`${head}\n${text}`);
    const path = this.#path(key);
    const part = `${path}.part`;
    try {
      const file = await open(part, "w", 0o600);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(part, path);
      await flush(this.folder);
    } catch (error) {
      await rm(part, { force: true }).catch(() => {}); // what there was room for is room again
      throw error;
    }
    return bytes.length;
  }

  /**
   * A batch; what is wrong with its file, which is set aside then; undefined, if it is gone.
   * @param {string} key
   * @returns {Promise<Kept | string | undefined>}
   */
  async read(key) {
    const path = this.#path(key);
    let kept;
    try {
      kept = parsed(await readFile(path), key);
    } catch (/** @type {any} */ error) {
      if (error.code === "ENOENT") return undefined;
      if (!CLOSED.includes(error.code)) throw error;
      kept = /** @type {string} */ (error.message);
    }
    if (typeof kept === "string") await rename(path, `${path}.damaged`);
    return kept;
  }

  /** Takes a batch away that was answered. @param {string} key */
  async delete(key) {
    try {
      await unlink(this.#path(key));
    } catch (/** @type {any} */ error) {
      if (error.code === "ENOENT") return;
      this.#log(`${this.#path(key)} was answered, but cannot be deleted; the next start sends it again, without creating duplicates: ${error.message}`);
    }
  }

  /** Says what is in hand, in the room that was taken for it. @param {string} key @param {Mark} mark */
  async mark(key, { tried, parts }) {
    if (this.#closed) return;
    const text = JSON.stringify({ batch: key, tried: tried === undefined ? null : Math.floor(tried), parts: parts ?? null });
    this.#marking = overwrite(this.#state, Buffer.from(`${text.padEnd(STATE_BYTES - 1)}\n`));
    await this.#marking;
  }

  /**
   * What was said of a batch of so many items; nothing, where that is of another one, or makes no sense.
   * @param {string} key
   * @param {number} count
   * @returns {Mark}
   */
  marked(key, count) {
    try {
      const bytes = Buffer.alloc(STATE_BYTES * 2);
      const { batch, tried, parts } = JSON.parse(bytes.toString("utf8", 0, readSync(this.#state, bytes, 0, bytes.length, 0)));
      if (batch === key && (tried === null || Number.isInteger(tried)) && (parts === null || areWhole(parts, count))) {
        return { tried: tried ?? undefined, parts: parts ?? undefined };
      }
    } catch {
      // as if nothing was said
    }
    return { tried: undefined, parts: undefined };
  }

  /**
   * Keeps a refused part of a batch: one file for the batch, each key once.
   * @param {string} key
   * @param {Record<string, unknown> & { idempotency_key: string }} line
   * @param {string} items
   */
  async reject(key, line, items) {
    const name = `${key}.json`;
    const path = join(this.#rejected, name);
    await mkdir(this.#rejected, { recursive: true, mode: 0o700 });
    if (this.#told.key !== key) {
      const { lines, whole, size } = await linesOf(path);
      if (size !== whole) await truncate(path, whole); // a line that was never finished
      this.#told = { key, keys: new Set(lines.map((each) => String(each.idempotency_key))) };
    }
    if (this.#told.keys.has(line.idempotency_key)) return;
    this.#refusals.set(name, await this.#append(path, `${JSON.stringify(line).slice(0, -1)},"items":${items}}\n`));
    this.#told.keys.add(line.idempotency_key);
    await this.#makeRoom(name);
  }

  /** @param {string} path @param {string} text */
  async #append(path, text) {
    const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND, 0o600);
    try {
      const { size } = await file.stat();
      try {
        await file.writeFile(text);
        await file.sync();
      } catch (error) {
        await file.truncate(size); // half a line is none
        throw error;
      }
      if (!size) await flush(this.#rejected);
      return size + Buffer.byteLength(text);
    } finally {
      await file.close();
    }
  }

  /** Lets the oldest refusals go that are too many. @param {string} newest */
  async #makeRoom(newest) {
    let taken = 0;
    for (const bytes of this.#refusals.values()) taken += cost(bytes);
    for (const name of [...this.#refusals.keys()].sort()) {
      if (taken <= this.#room / 10) return;
      const path = join(this.#rejected, name);
      if (name === newest || (await linesOf(path)).lines.some(({ error }) => KEPT_CODES.includes(error?.code))) continue;
      await rm(path, { force: true });
      taken -= cost(this.#refusals.get(name) ?? 0);
      this.#refusals.delete(name);
      if (++this.rejectedLost === 1) this.#log(`${this.#rejected} is full, so its oldest files are deleted; to keep more, raise spoolBytes`);
    }
  }
}

/** @param {string} path */
function openState(path) {
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  if (fstatSync(file).size < STATE_BYTES) {
    // Its room is taken now, so that a full disk does not matter later.
    writeSync(file, `${" ".repeat(STATE_BYTES - 1)}\n`, 0);
    fsyncSync(file);
  }
  return file;
}

/** @param {number} file @param {Buffer} bytes */
async function overwrite(file, bytes) {
  await writing(file, bytes, 0, bytes.length, 0);
  await flushing(file);
}

/** The names are on disk, too, where folders can be flushed. @param {string} path */
async function flush(path) {
  const folder = await open(path, "r").catch(() => undefined);
  try {
    await folder?.sync();
  } catch (/** @type {any} */ error) {
    if (!["EINVAL", "EPERM", "EISDIR", "ENOTSUP", "EBADF"].includes(error.code)) throw error;
  } finally {
    await folder?.close();
  }
}

/** Whether parts are the rest of a batch. @param {any} parts @param {number} count */
function areWhole(parts, count) {
  let at = parts[0]?.[0] ?? -1;
  for (const [start, size] of parts) {
    if (start !== at || !Number.isInteger(start) || !Number.isInteger(size) || size < 1) return false;
    at += size;
  }
  return at === count;
}

/** @param {Buffer} bytes @param {string} key @returns {Kept | string} */
function parsed(bytes, key) {
  try {
    const [head, text = ""] = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).split("\n");
    const { v, idempotency_key: idempotencyKey, item_key: itemKey, stream } = JSON.parse(head);
    const items = parse(text, { exact: true });
    if (v !== 1 || idempotencyKey !== key) return "its version is unknown, or its key is not its file name";
    if (!Array.isArray(items) || !items.length || !items.every(isObject)) return "its second line is not a list of items";
    if (stream !== undefined && stream !== null && typeof stream !== "string") return "its first line is wrong";
    submission(itemKey ?? undefined, idempotencyKey);
    return { itemKey: itemKey ?? undefined, stream: stream || undefined, text, items };
  } catch (error) {
    return String(error);
  }
}

/**
 * The lines of a file of refusals; how many bytes those are that were finished, and how many all.
 * @param {string} path
 * @returns {Promise<{ lines: Record<string, any>[], whole: number, size: number }>}
 */
async function linesOf(path) {
  if (!(await stat(path).catch(() => undefined))) return { lines: [], whole: 0, size: 0 };
  const bytes = await readFile(path);
  const whole = bytes.lastIndexOf("\n") + 1;
  const lines = bytes.toString("utf8", 0, whole).split("\n").flatMap((text) => {
    try {
      const line = JSON.parse(text);
      return isObject(line) ? [line] : [];
    } catch {
      return [];
    }
  });
  return { lines, whole, size: bytes.length };
}
