// The real daemon, for tests. HEADGATE_PROGRAM is its program; ports and folders are its own.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { openSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join, resolve } from "node:path";
import { eventually, folder } from "./helper.js";

const PROGRAM = process.env.HEADGATE_PROGRAM;
export const skip = PROGRAM ? false : "HEADGATE_PROGRAM names no daemon";
export const KEY = "ik_live_for_the_stream_of_this_test";
export const READ_KEY = "rk_live_for_the_reader_of_this_test";
const CONFIGURATION = `
[live]
origins = ["*"]

[[streams]]
name = "orders"

[[connectors]]
name = "shop"
kind = "ingest"
keys = [{ name = "main", stream = "orders", secret = "${KEY}" }]

[[read_keys]]
name = "screen"
streams = ["orders"]
secret = "${READ_KEY}"
`;

/** A daemon of a folder of its own, which can be killed and started again. */
export class Daemon {
  #child;
  #environment;
  #port;

  /** @param {import("node:test").TestContext} t */
  static async start(t) {
    const ports = await Promise.all([freePort(), freePort()]);
    const daemon = new Daemon(folder(t), ports[0], ports[1]);
    t.after(() => daemon.kill());
    await daemon.listens();
    return daemon;
  }

  /** @param {string} place @param {number} port @param {number} adminPort */
  constructor(place, port, adminPort) {
    this.folder = place;
    this.url = `http://127.0.0.1:${port}`;
    this.#port = port;
    const clean = Object.entries(process.env).filter(([name]) => !name.startsWith("HEADGATE_"));
    this.#environment = { ...Object.fromEntries(clean), HEADGATE_SERVER__LISTEN: `127.0.0.1:${port}`, HEADGATE_ADMIN__LISTEN: `127.0.0.1:${adminPort}` };
    writeFileSync(join(place, "headgate.toml"), CONFIGURATION);
    this.#child = this.#spawn();
  }

  #spawn() {
    const log = openSync(join(this.folder, "log"), "a");
    return spawn(resolve(/** @type {string} */ (PROGRAM)), ["serve", "--config", "headgate.toml"], { cwd: this.folder, env: this.#environment, stdio: ["ignore", log, log] });
  }

  listens() {
    return eventually("the daemon listens", () => {
      assert.equal(this.#child.exitCode, null, readFileSync(join(this.folder, "log"), "utf8").slice(-2000));
      return new Promise((tell) => {
        const socket = connect(this.#port, "127.0.0.1");
        socket.on("connect", () => tell(Boolean(socket.destroy())));
        socket.on("error", () => tell(false));
      });
    });
  }

  async kill() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((tell) => this.#child.once("exit", tell));
    this.#child.kill("SIGKILL");
    await gone;
  }

  async again() {
    this.#child = this.#spawn();
    await this.listens();
  }
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((tell) => {
    const listener = createServer().listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (listener.address());
      listener.close(() => tell(port));
    });
  });
}
