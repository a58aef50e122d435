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
 * @property {"wait" | "fail" | "dropOldest"} [whenFull] what `add` does when the queue is full; default: `wait`. `dropOldest` is not allowed with a spool
 * @property {boolean} [latestOnly] an item that waits is replaced in its place by a newer one with the same key
 * @property {string} [spool] a directory that keeps batches across crashes; requires a file system. One batcher per directory
 * @property {number} [spoolBytes] maximum size of the spool: 1 GiB
 * @property {(receipt: Receipt, items: any[]) => unknown} [onAccepted]
 * @property {(items: any[], error: HeadgateError) => unknown} [onRejected]
 * @property {(state: State, code: string | undefined) => unknown} [onState] told when the state of the connection changes; with the
 * code `SPOOL` it is about the disk under the spool
 */

/** @typedef {"ok" | "retrying" | "blocked"} State */

/**
 * Whether all items were accepted or rejected, and the rest: items in memory, batches on disk.
 * @typedef {object} FlushResult
 * @property {boolean} done
 * @property {number} queued
 * @property {number} inFlight
 * @property {number} spooled
 * @property {State} state
 * @property {string | undefined} code of the last failure
 */

/**
 * The counters of a batcher, in items; `retries` in requests, `spooled` and `spooledBytes` on disk in batches.
 * @typedef {object} Stats
 * @property {number} queued
 * @property {number} inFlight
 * @property {number} accepted
 * @property {number} rejected with those dropped
 * @property {number} dropped
 * @property {number} replaced
 * @property {number} retries
 * @property {number} oldest milliseconds that the oldest item has waited
 * @property {number} spooled
 * @property {number} spooledBytes
 * @property {number} damaged invalid files of the spool, which were renamed
 * @property {number} rejectedLost files of `rejected` that were deleted, because there were too many
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
    throw new TypeError("itemKey is missing; set it, or connectorHasItemKey: true if the connector has one");
  }
  if (all.latestOnly && itemKey === undefined) throw new TypeError("latestOnly requires itemKey; set it");
  if (!(maxItems >= 1 && maxBytes >= 2 && maxBytes <= BODY_BYTES_MAX && queueBytes >= 1 && spoolBytes >= 1 && linger >= 0)) {
    throw new RangeError(`maxItems, maxBytes (at most ${BODY_BYTES_MAX}), queueBytes and spoolBytes must be positive, and linger must not be negative`);
  }
  if (!["wait", "fail", "dropOldest"].includes(whenFull)) throw new TypeError('whenFull is "wait", "fail" or "dropOldest"');
  if (whenFull === "dropOldest" && all.spool !== undefined) throw new TypeError("dropOldest is not allowed with a spool; use wait or fail");
  submission(itemKey, "checks-the-item-key");
  return all;
}
