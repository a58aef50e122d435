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
     * what `add` does then: it waits
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
    onAccepted?: (receipt: Receipt, items: any[]) => unknown;
    onRejected?: (items: any[], error: HeadgateError) => unknown;
    onRetry?: (error: HeadgateError, pause: number) => unknown;
};
export type FlushResult = {
    done: boolean;
    queued: number;
    inFlight: number;
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
};
export type Settled = Required<Pick<BatcherOptions, "maxItems" | "maxBytes" | "linger" | "queueBytes" | "whenFull" | "latestOnly">> & BatcherOptions;
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
export declare function settled(options: BatcherOptions): Settled;
