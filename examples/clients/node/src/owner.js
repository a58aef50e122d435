// One program a spool: who has it, and whether that program is still there.
//
// The claim is for the order of items and for counts; nothing is lost without it.

import { linkSync, openSync, closeSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { HeadgateError } from "./errors.js";
import { uuid4 } from "./uuid.js";

const FOREIGN_MS = 600_000;
const BROKEN_MS = 60_000;

/** The claim of this process to a folder. */
export class Owner {
  #folder;
  #path;
  #id = uuid4();

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder;
    this.#path = join(folder, ".owner");
    for (let attempt = 0; attempt < 2; attempt++) {
      if (this.#make()) return;
      const found = read(this.#path);
      if (found === undefined) continue; // it has gone meanwhile
      if (!this.#isDead(found) || !this.#takeOver(found)) break;
    }
    throw new HeadgateError("SPOOL_IN_USE", `the spool ${folder} is used by another program or batcher; give each its own directory`);
  }

  #make() {
    const { pid } = process;
    // There is no flock here: what others may hold as well is not held.
    const told = { host: hostname(), boot: boot(), pid, started: started(pid), lock: false, id: this.#id };
    let file;
    try {
      file = openSync(this.#path, "wx", 0o600);
    } catch (/** @type {any} */ error) {
      if (error.code === "EEXIST") return false;
      throw error;
    }
    writeSync(file, `${JSON.stringify(told)}\n`);
    closeSync(file);
    return true;
  }

  /** @param {string} found */
  #isDead(found) {
    let told;
    try {
      told = JSON.parse(found);
    } catch {
      told = undefined;
    }
    if (!Number.isInteger(told?.pid)) return this.#areOld([".owner"], BROKEN_MS);
    if (told.host !== hostname()) return this.#areOld(readdirSync(this.#folder), FOREIGN_MS);
    if (typeof told.boot === "string" && told.boot !== boot()) return true;
    return !lives(told);
  }

  /** Whether none of these files is younger. @param {string[]} names @param {number} milliseconds */
  #areOld(names, milliseconds) {
    try {
      return names.every((name) => name === ".lock" || Date.now() - statSync(join(this.#folder, name)).mtimeMs >= milliseconds);
    } catch {
      return false;
    }
  }

  /** @param {string} judged */
  #takeOver(judged) {
    const aside = `${this.#path}.${this.#id}`;
    try {
      renameSync(this.#path, aside);
    } catch {
      return false;
    }
    const taken = read(aside);
    try {
      if (taken !== judged) linkSync(aside, this.#path); // somebody else was faster: it is his
    } catch {
      // and has it again
    }
    rmSync(aside, { force: true });
    return taken === judged;
  }

  /** Whether the folder is still this batcher's. */
  holds() {
    return read(this.#path)?.includes(this.#id) ?? false;
  }

  /** Another program may have the folder. */
  release() {
    try {
      if (this.holds()) rmSync(this.#path, { force: true });
    } catch {
      // whoever comes next sees that this process is gone
    }
  }
}

/** @param {string} path */
function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (/** @type {any} */ error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

function boot() {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return null;
  }
}

/** @param {number} pid @returns {string | null} */
function started(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 1).trim().split(/\s+/)[19] ?? null;
  } catch {
    return null;
  }
}

/** Whether the process is there that has written this, on this machine. @param {{ pid: number, started?: unknown }} told */
function lives({ pid, started: began }) {
  try {
    process.kill(pid, 0);
  } catch (/** @type {any} */ error) {
    if (error.code === "ESRCH") return false;
  }
  const now = started(pid);
  return typeof began !== "string" || now === null || now === began;
}
