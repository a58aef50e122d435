import { Delivery } from "./delivery.js";
import { HeadgateError } from "./errors.js";
export type Caller = import("./caller.js").Caller;
export type FlushResult = import("./options.js").FlushResult;
export type Settled = import("./options.js").Settled;
export type Stats = import("./options.js").Stats;
export type Entry = import("./queue.js").Entry;
export type Spool = import("./spool.js").Spool;
export type Waiter = {
    entry: Entry;
    end: (error?: HeadgateError) => void;
};
export type Host = {
    log: (message: string) => void;
    spool?: Spool;
    /**
     * whose program may end
     */
    batcher: import("./leave.js").Leaving;
    /**
     * somebody else takes the turns
     */
    still?: boolean;
};
export declare class Engine {
    #private;
    delivery: Delivery;
    /** @param {Caller} caller @param {Settled} options @param {Host} host */
    constructor(caller: Caller, options: Settled, host: Host);
    /** The place of an item among all that were ever added. */
    place(): number;
    /** @param {Entry} entry @param {AbortSignal} [signal] @returns {Promise<void>} */
    add(entry: Entry, signal?: AbortSignal): Promise<void>;
    /** @param {number} timeout @returns {Promise<FlushResult>} */
    flush(timeout: number): Promise<FlushResult>;
    /** What waits goes without its linger; the place of the last of it. */
    flushAll(): number;
    /** @param {number} target */
    flushed(target: number): boolean;
    /** @param {number} target @returns {FlushResult} */
    result(target: number): FlushResult;
    /** @param {number} timeout @returns {Promise<FlushResult>} */
    close(timeout: number): Promise<FlushResult>;
    beginClose(): void;
    /** What is in memory only is handed over, but what waits for the disk: that is still written. */
    stop(): void;
    /** @param {FlushResult} result @returns {Promise<FlushResult>} */
    finish(result: FlushResult): Promise<FlushResult>;
    /** @returns {Stats} */
    get stats(): Stats;
    /** Something has changed: lets items in, lets the pumps see what is due, tells who waits. */
    step: () => void;
    /** The client has another key. */
    tryNow: () => void;
    /** When a batch is to be sent. */
    sendDue(): number;
    sendTurn(): Promise<void>;
    /** When a batch is to be cut or written, or the folder looked at. */
    writeDue(): number;
    writeTurn(): Promise<void>;
}
