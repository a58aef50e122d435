/// <reference lib="esnext.disposable" preserve="true" />
export type Caller = import("./caller.js").Caller;
export type BatcherOptions = import("./options.js").BatcherOptions;
export type FlushResult = import("./options.js").FlushResult;
export type Stats = import("./options.js").Stats;
export type Entry = import("./queue.js").Entry;
/**
 * Made by `client.batcher()`.
 *
 * **What it holds is in memory: a crash loses it, unless there is a spool.** What waits when the program ends normally is
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
     * Puts an item into the queue. It is encoded here, so that one that cannot be sent fails here. When the queue is full
     * this waits (or what `whenFull` says): await it.
     * @param {object} item
     * @param {{ signal?: AbortSignal }} [options]
     * @returns {Promise<void>}
     */
    add(item: object, { signal }?: {
        signal?: AbortSignal;
    }): Promise<void>;
    /**
     * Everything added before is accepted or rejected, or the time is over: it says which, and fails at nothing.
     * @param {number} [timeout]
     * @returns {Promise<FlushResult>}
     */
    flush(timeout?: number): Promise<FlushResult>;
    /**
     * Flushes and stops. What is left stays in the spool; what is not there is rejected with `CLOSED`.
     * @param {number} [timeout]
     * @returns {Promise<FlushResult>}
     */
    close(timeout?: number): Promise<FlushResult>;
    /** Counts, and how long the oldest item has been here. @returns {Stats} */
    get stats(): Stats;
    toString(): string;
    /** For `await using`. @returns {Promise<void>} */
    [Symbol.asyncDispose](): Promise<void>;
}
