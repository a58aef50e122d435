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
 * @property {"wait" | "fail" | "dropOldest"} [whenFull] what `add` does then: it waits
 * @property {boolean} [latestOnly] an item that waits is replaced in its place by a newer one with the same key
 * @property {string} [spool] a folder for batches, which outlives a crash; where there is a file system. One batcher a folder
 * @property {(receipt: Receipt, items: any[]) => unknown} [onAccepted]
 * @property {(items: any[], error: HeadgateError) => unknown} [onRejected]
 * @property {(error: HeadgateError, pause: number) => unknown} [onRetry]
 */

/**
 * Whether everything was answered, and how many items are still open.
 * @typedef {object} FlushResult
 * @property {boolean} done
 * @property {number} queued
 * @property {number} inFlight
 */

/**
 * What a batcher has done, in items; `retries` in requests.
 * @typedef {object} Stats
 * @property {number} queued
 * @property {number} inFlight
 * @property {number} accepted
 * @property {number} rejected with those dropped
 * @property {number} dropped
 * @property {number} replaced
 * @property {number} retries
 * @property {number} oldest how many milliseconds the oldest item has been here
 */

/** @typedef {Required<Pick<BatcherOptions, "maxItems" | "maxBytes" | "linger" | "queueBytes" | "whenFull" | "latestOnly">> & BatcherOptions} Settled */

/**
 * @param {BatcherOptions} options
 * @returns {Settled}
 */
export function settled(options) {
  const told = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  /** @type {Settled} */
  const all = { maxItems: 1000, maxBytes: 1_000_000, linger: 100, queueBytes: 16 << 20, whenFull: "wait", latestOnly: false, ...told };
  const { itemKey, maxItems, maxBytes, queueBytes, linger, whenFull } = all;
  if ((itemKey === undefined) !== (all.connectorHasItemKey === true)) {
    throw new TypeError("give itemKey, or say connectorHasItemKey: true if the connector has one");
  }
  if (all.latestOnly && itemKey === undefined) throw new TypeError("latestOnly needs itemKey");
  if (!(maxItems >= 1 && maxBytes >= 2 && maxBytes <= BODY_BYTES_MAX && queueBytes >= 1 && linger >= 0)) {
    throw new RangeError(`maxItems, maxBytes (at most ${BODY_BYTES_MAX}) and queueBytes are positive, linger is not negative`);
  }
  if (!["wait", "fail", "dropOldest"].includes(whenFull)) throw new TypeError('whenFull is "wait", "fail" or "dropOldest"');
  submission(itemKey, "checks-the-item-key");
  return all;
}
