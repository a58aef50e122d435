/// <reference lib="esnext.disposable" preserve="true" />
import { Batcher } from "./batcher.js";
export type ConnectionOptions = import("./caller.js").ConnectionOptions;
export type BatcherOptions = import("./options.js").BatcherOptions;
export type Receipt = import("./wire.js").Receipt;
export type RequestState = import("./wire.js").RequestState;
export type OwnOptions = {
    /**
     * for warnings: `console.warn`
     */
    log?: (message: string) => void;
};
export type CallOptions = {
    /**
     * in milliseconds, with all attempts
     */
    timeout?: number;
    /**
     * ends the call, with the code `CANCELED`
     */
    signal?: AbortSignal;
};
export type SubmitOptions = {
    /**
     * default: a random one for all attempts of the call
     */
    idempotencyKey?: string;
};
export type ItemOptions = {
    /**
     * the field that identifies each item
     */
    itemKey?: string;
    /**
     * only a check: a key for another stream is rejected
     */
    stream?: string;
};
/** @typedef {import("./caller.js").ConnectionOptions} ConnectionOptions */
/** @typedef {import("./options.js").BatcherOptions} BatcherOptions */
/** @typedef {import("./wire.js").Receipt} Receipt */
/** @typedef {import("./wire.js").RequestState} RequestState */
/**
 * @typedef {object} OwnOptions
 * @property {(message: string) => void} [log] for warnings: `console.warn`
 */
/**
 * @typedef {object} CallOptions
 * @property {number} [timeout] in milliseconds, with all attempts
 * @property {AbortSignal} [signal] ends the call, with the code `CANCELED`
 */
/**
 * @typedef {object} SubmitOptions
 * @property {string} [idempotencyKey] default: a random one for all attempts of the call
 */
/**
 * @typedef {object} ItemOptions
 * @property {string} [itemKey] the field that identifies each item
 * @property {string} [stream] only a check: a key for another stream is rejected
 */
/**
 * Sends items to one stream of a Headgate. Where they are missing, the environment has `url` and `key`:
 * `HEADGATE_URL`, `HEADGATE_KEY`. All times are in milliseconds.
 */
export declare class Client {
    #private;
    /**
     * @param {string} [url] like `http://host:port` or `https://host`
     * @param {string} [key] an ingest key
     * @param {ConnectionOptions & OwnOptions} [options]
     */
    constructor(url?: string, key?: string, { log, ...options }?: ConnectionOptions & OwnOptions);
    /**
     * Sends one object, or several in one request. Resolves when they are on disk.
     * @param {object | Iterable<object>} items
     * @param {CallOptions & SubmitOptions & ItemOptions} [options]
     * @returns {Promise<Receipt>}
     */
    send(items: object | Iterable<object>, { itemKey, idempotencyKey, stream, timeout, signal }?: CallOptions & SubmitOptions & ItemOptions): Promise<Receipt>;
    /**
     * Takes items one at a time, and sends them in batches in the background.
     *
     * **Items are in memory: a crash loses them, unless there is a spool.** `itemKey` is required, or
     * `connectorHasItemKey: true`: items without a key are identified by their position in a batch, and the second batch
     * would overwrite the first.
     * @param {BatcherOptions} options
     * @returns {Batcher}
     */
    batcher(options: BatcherOptions): Batcher;
    /**
     * Returns the status of a request of this key's connector.
     * @param {string} requestId
     * @param {CallOptions} [options]
     * @returns {Promise<RequestState>}
     */
    request(requestId: string, options?: CallOptions): Promise<RequestState>;
    /**
     * Waits for the final status of a request. The status `failed` is a result, not an error.
     * @param {Receipt | string} sent
     * @param {CallOptions} [options]
     * @returns {Promise<RequestState>}
     */
    wait(sent: Receipt | string, { timeout, signal }?: CallOptions): Promise<RequestState>;
    /**
     * Removes an item, if the key's connector can remove items. Resolves when the removal is on disk.
     * @param {string} stream
     * @param {string} key
     * @param {CallOptions & SubmitOptions} [options]
     * @returns {Promise<Receipt>}
     */
    remove(stream: string, key: string, { idempotencyKey, timeout, signal }?: CallOptions & SubmitOptions): Promise<Receipt>;
    /** Replaces the key for all later requests; blocked batchers retry with it immediately. @param {string} key an ingest key */
    setKey(key: string): void;
    /**
     * Flushes and closes its batchers.
     * @returns {Promise<void>}
     */
    close(): Promise<void>;
    /** For `await using`. @returns {Promise<void>} */
    [Symbol.asyncDispose](): Promise<void>;
    toString(): string;
}
