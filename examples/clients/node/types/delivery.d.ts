import { HeadgateError } from "./errors.js";
export type Batch = import("./queue.js").Batch;
export type Receipt = import("./wire.js").Receipt;
export type Settled = import("./options.js").Settled;
export type Host = {
    /**
     * milliseconds of the wall clock
     */
    clock: () => number;
    log: (message: string) => void;
    spool?: import("./spool.js").Spool;
    changed: () => void;
    landed: () => void;
};
export declare class Delivery {
    #private;
    /** Cut, and, with a spool, on disk. @type {Batch[]} */
    pending: Batch[];
    /** The batch that is on its way, or what it was cut into. @type {Batch[]} */
    current: Batch[];
    accepted: number;
    rejected: number;
    retries: number;
    stopped: boolean;
    /** @param {import("./caller.js").Caller} caller @param {Settled} options @param {Host} host */
    constructor(caller: import("./caller.js").Caller, options: Settled, host: Host);
    now(): number;
    /** Whether there is nothing to send. */
    idle(): boolean;
    flying(): number;
    /** Sends what is pending, unless that goes on already. */
    go(): Promise<void>;
    /** Ends it; what is on its way and not on disk is handed back, in order. */
    stop(): unknown[][];
    /** Hands items over that will not be sent any more. @param {unknown[]} items @param {HeadgateError} error */
    reject(items: unknown[], error: HeadgateError): void;
    /** @param {unknown[]} items */
    giveUp(items: unknown[]): void;
    /** Writes a batch to the spool; its path, or undefined: it was closed before that, and the items are handed over. @param {Batch} batch */
    write(batch: Batch): Promise<void | string>;
}
