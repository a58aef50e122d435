// Timers, and what keeps a process alive: only what the program waits for.

/** Timers know no longer time; a longer one would end at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
let held = 0;
/** @type {any} */
let holding;

/**
 * Keeps the process alive until the answer is called.
 * @returns {() => void}
 */
export function hold() {
  if (held++ === 0) holding = setInterval(() => {}, TIMER_MS_MAX);
  let released = false;
  return () => {
    if (released) return;
    released = true;
    if (--held === 0) clearInterval(holding);
  };
}

/**
 * Calls once, later; with `background`, without keeping the process alive.
 * @param {() => void} call
 * @param {number} milliseconds
 * @param {boolean} [background]
 * @returns {() => void} takes it back
 */
export function after(milliseconds, call, background = false) {
  /** @type {any} */
  const timer = setTimeout(call, Math.min(Math.max(milliseconds, 0), TIMER_MS_MAX));
  if (background) timer.unref?.();
  return () => clearTimeout(timer);
}

/**
 * Calls once, when what has come in meanwhile was read.
 * @param {() => void} call
 * @returns {() => void} takes it back
 */
export function soon(call) {
  if (typeof setImmediate === "undefined") return after(0, call);
  const immediate = setImmediate(call);
  return () => clearImmediate(immediate);
}

/**
 * Waits, or until the signal ends it.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @param {boolean} [background] whether the process may end meanwhile
 * @returns {Promise<void>}
 */
export function sleep(milliseconds, signal, background = false) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      stop();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const stop = after(milliseconds, end, background);
    signal?.addEventListener("abort", end, { once: true });
  });
}
