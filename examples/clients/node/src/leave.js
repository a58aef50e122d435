// The normal end of a program: what batchers hold is sent, for at most five seconds.

import { hold } from "./time.js";

/**
 * What can be flushed and closed.
 * @typedef {{ flush: (timeout: number) => Promise<{ done: boolean }>, close: (timeout: number) => Promise<unknown> }} Leaving
 */

const EXIT_MS = 5000;
/** Batchers that hold something. @type {Set<Leaving>} */
const busy = new Set();
let installed = false;
let leaving = false;

/** @param {Leaving} batcher */
export function watch(batcher) {
  if (!installed && typeof process !== "undefined" && typeof process.on === "function") {
    installed = true;
    process.on("beforeExit", leave);
  }
  busy.add(batcher);
}

/** @param {Leaving} batcher */
export function unwatch(batcher) {
  busy.delete(batcher);
}

/** Called again when it is done: then nothing is left, for what could not be sent was given up. */
async function leave() {
  if (leaving || !busy.size) return;
  leaving = true;
  const release = hold();
  await Promise.all(
    Array.from(busy, async (batcher) => {
      const { done } = await batcher.flush(EXIT_MS);
      if (!done) await batcher.close(0);
    }),
  );
  leaving = false;
  release();
}
