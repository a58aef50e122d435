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
     * what `add` does then: it waits. `dropOldest` is for a queue in memory
     */
    whenFull?: "wait" | "fail" | "dropOldest";
    /**
     * an item that waits is replaced in its place by a newer one with the same key
     */
    latestOnly?: boolean;
    /**
     * a folder for batches, which outlives a crash; where there is a file system. One batcher a folder
     */
    spool?: string;
    /**
     * what may lie in it: 1 GiB
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
     * how many milliseconds the oldest item has been here
     */
    oldest: number;
    spooled: number;
    spooledBytes: number;
    /**
     * files of the spool that were no batch, and were set aside
     */
    damaged: number;
    /**
     * files of `rejected` that were let go, because there were too many
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
export declare function settled(options: BatcherOptions): Settled;
