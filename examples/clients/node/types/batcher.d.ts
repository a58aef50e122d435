/// <reference lib="esnext.disposable" preserve="true" />
export type Caller = import("./caller.js").Caller;
export type BatcherOptions = import("./options.js").BatcherOptions;
export type FlushResult = import("./options.js").FlushResult;
export type Stats = import("./options.js").Stats;
export type Entry = import("./queue.js").Entry;
/**
 * Made by `client.batcher()`.
 *
 * **Items are in memory: a crash loses them, unless there is a spool.** What waits when the program ends normally is
 * flushed for at most 5 seconds. Callbacks are not awaited.
 */
export declare class Batcher {
    #private;
    /**
     * @param {Caller} caller
     * @param {BatcherOptions} options
     * @param {(message: string) => void} log
     * @param {(batcher: Batcher) => void} closed told when it is
     */
    constructor(caller: Caller, options: BatcherOptions, log: (message: string) => void, closed: (batcher: Batcher) => void);
    /**
     * Adds an item to the queue, and fails if the item cannot be sent. When the queue is full,
     * it waits, or does what `whenFull` sets: await it.
     * @param {object} item
     * @param {{ signal?: AbortSignal }} [options]
     * @returns {Promise<void>}
     */
    add(item: object, { signal }?: {
        signal?: AbortSignal;
    }): Promise<void>;
    /**
     * Waits until all items added before are accepted or rejected, or the time is over; returns which, and never throws.
     * @param {number} [timeout]
     * @returns {Promise<FlushResult>}
     */
    flush(timeout?: number): Promise<FlushResult>;
    /**
     * Flushes and stops. Unsent batches stay in the spool; items outside it are rejected with `CLOSED`.
     * @param {number} [timeout]
     * @returns {Promise<FlushResult>}
     */
    close(timeout?: number): Promise<FlushResult>;
    /** Returns counters, and how long the oldest item has waited. @returns {Stats} */
    get stats(): Stats;
    toString(): string;
    /** For `await using`. @returns {Promise<void>} */
    [Symbol.asyncDispose](): Promise<void>;
}
