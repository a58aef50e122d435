/// <reference lib="esnext.disposable" preserve="true" />
import { HeadgateError } from "./errors.js";
export type Caller = import("./caller.js").Caller;
export type BatcherOptions = import("./options.js").BatcherOptions;
export type FlushResult = import("./options.js").FlushResult;
export type Stats = import("./options.js").Stats;
export type Entry = import("./queue.js").Entry;
export type Waiter = {
    entry: Entry;
    end: (error?: HeadgateError) => void;
};
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
     * @param {{ clock: () => number, log: (message: string) => void }} host
     * @param {(batcher: Batcher) => void} closed told when it is
     */
    constructor(caller: Caller, options: BatcherOptions, { clock, log }: {
        clock: () => number;
        log: (message: string) => void;
    }, closed: (batcher: Batcher) => void);
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
     * Flushes and stops. What is left is rejected with `CLOSED`; with a spool it stays in its files.
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
