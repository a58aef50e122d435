export type HeadgateError = import("./errors.js").HeadgateError;
export type Receipt = import("./wire.js").Receipt;
/** @typedef {import("./errors.js").HeadgateError} HeadgateError */
/** @typedef {import("./wire.js").Receipt} Receipt */
export declare const BODY_BYTES_MAX = 1048576;
export type BatcherOptions = {
    /**
     * the field that identifies each item
     */
    itemKey?: string;
    /**
     * the connector's configuration names it
     */
    connectorHasItemKey?: boolean;
    /**
     * of a batch: 1,000
     */
    maxItems?: number;
    /**
     * of a request with several items: 1,000,000
     */
    maxBytes?: number;
    /**
     * how long an item waits for others: 100
     */
    linger?: number;
    /**
     * of items that wait: 16 MiB
     */
    queueBytes?: number;
    /**
     * what `add` does when the queue is full; default: `wait`. `dropOldest` is not allowed with a spool
     */
    whenFull?: "wait" | "fail" | "dropOldest";
    /**
     * an item that waits is replaced in its place by a newer one with the same key
     */
    latestOnly?: boolean;
    /**
     * a directory that keeps batches across crashes; requires a file system. One batcher per directory
     */
    spool?: string;
    /**
     * maximum size of the spool: 1 GiB
     */
    spoolBytes?: number;
    onAccepted?: (receipt: Receipt, items: any[]) => unknown;
    onRejected?: (items: any[], error: HeadgateError) => unknown;
    /**
     * told when the state of the connection changes; with the
     * code `SPOOL` it is about the disk under the spool
     */
    onState?: (state: State, code: string | undefined) => unknown;
};
export type State = "ok" | "retrying" | "blocked";
export type FlushResult = {
    done: boolean;
    queued: number;
    inFlight: number;
    spooled: number;
    state: State;
    /**
     * of the last failure
     */
    code: string | undefined;
};
export type Stats = {
    queued: number;
    inFlight: number;
    accepted: number;
    /**
     * with those dropped
     */
    rejected: number;
    dropped: number;
    replaced: number;
    retries: number;
    /**
     * milliseconds that the oldest item has waited
     */
    oldest: number;
    spooled: number;
    spooledBytes: number;
    /**
     * invalid files of the spool, which were renamed
     */
    damaged: number;
    /**
     * files of `rejected` that were deleted, because there were too many
     */
    rejectedLost: number;
    state: State;
    code: string | undefined;
};
export type Settled = Required<Pick<BatcherOptions, "maxItems" | "maxBytes" | "linger" | "queueBytes" | "whenFull" | "latestOnly" | "spoolBytes">> & BatcherOptions;
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
export declare function settled(options: BatcherOptions): Settled;
