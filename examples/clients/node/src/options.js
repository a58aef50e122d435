// What a batcher can be told, and what it tells.

import { submission } from "./wire.js";

/** @typedef {import("./errors.js").HeadgateError} HeadgateError */
/** @typedef {import("./wire.js").Receipt} Receipt */

export const BODY_BYTES_MAX = 1_048_576;

/**
 * What identifies items is demanded: `itemKey`, or the word that the connector has one. All times are in milliseconds.
 * @typedef {object} BatcherOptions
 * @property {string} [itemKey] the field that identifies each item
 * @property {boolean} [connectorHasItemKey] the connector's configuration names it
 * @property {number} [maxItems] of a batch: 1,000
 * @property {number} [maxBytes] of a request with several items: 1,000,000
 * @property {number} [linger] how long an item waits for others: 100
 * @property {number} [queueBytes] of items that wait: 16 MiB
 * @property {"wait" | "fail" | "dropOldest"} [whenFull] what `add` does then: it waits. `dropOldest` is for a queue in memory
 * @property {boolean} [latestOnly] an item that waits is replaced in its place by a newer one with the same key
 * @property {string} [spool] a folder for batches, which outlives a crash; where there is a file system. One batcher a folder
 * @property {number} [spoolBytes] what may lie in it: 1 GiB
 * @property {(receipt: Receipt, items: any[]) => unknown} [onAccepted]
 * @property {(items: any[], error: HeadgateError) => unknown} [onRejected]
 * @property {(state: State, code: string | undefined) => unknown} [onState] told when the state of the connection changes; with the
 * code `SPOOL` it is about the disk under the spool
 */

/** @typedef {"ok" | "retrying" | "blocked"} State */

/**
 * Whether everything was answered, and what is still open: items in memory, batches on disk.
 * @typedef {object} FlushResult
 * @property {boolean} done
 * @property {number} queued
 * @property {number} inFlight
 * @property {number} spooled
 * @property {State} state
 * @property {string | undefined} code of the last failure
 */

/**
 * What a batcher has done, in items; `retries` in requests, `spooled` and `spooledBytes` on disk in batches.
 * @typedef {object} Stats
 * @property {number} queued
 * @property {number} inFlight
 * @property {number} accepted
 * @property {number} rejected with those dropped
 * @property {number} dropped
 * @property {number} replaced
 * @property {number} retries
 * @property {number} oldest how many milliseconds the oldest item has been here
 * @property {number} spooled
 * @property {number} spooledBytes
 * @property {number} damaged files of the spool that were no batch, and were set aside
 * @property {number} rejectedLost files of `rejected` that were let go, because there were too many
 * @property {State} state
 * @property {string | undefined} code
 */

/** @typedef {Required<Pick<BatcherOptions, "maxItems" | "maxBytes" | "linger" | "queueBytes" | "whenFull" | "latestOnly" | "spoolBytes">> & BatcherOptions} Settled */

/**
 * @param {BatcherOptions} options
 * @returns {Settled}
 */
export function settled(options) {
  const told = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  /** @type {Settled} */
  const all = { maxItems: 1000, maxBytes: 1_000_000, linger: 100, queueBytes: 16 << 20, whenFull: "wait", latestOnly: false, spoolBytes: 2 ** 30, ...told };
  const { itemKey, maxItems, maxBytes, queueBytes, spoolBytes, linger, whenFull } = all;
  if ((itemKey === undefined) !== (all.connectorHasItemKey === true)) {
    throw new TypeError("give itemKey, or say connectorHasItemKey: true if the connector has one");
  }
  if (all.latestOnly && itemKey === undefined) throw new TypeError("latestOnly needs itemKey");
  if (!(maxItems >= 1 && maxBytes >= 2 && maxBytes <= BODY_BYTES_MAX && queueBytes >= 1 && spoolBytes >= 1 && linger >= 0)) {
    throw new RangeError(`maxItems, maxBytes (at most ${BODY_BYTES_MAX}), queueBytes and spoolBytes are positive, linger is not negative`);
  }
  if (!["wait", "fail", "dropOldest"].includes(whenFull)) throw new TypeError('whenFull is "wait", "fail" or "dropOldest"');
  if (whenFull === "dropOldest" && all.spool !== undefined) throw new TypeError("dropOldest is for a queue in memory: nothing is dropped from a spool");
  submission(itemKey, "checks-the-item-key");
  return all;
}
