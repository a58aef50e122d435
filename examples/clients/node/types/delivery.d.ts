import { HeadgateError } from "./errors.js";
export type Batch = import("./queue.js").Batch;
export type Content = import("./queue.js").Content;
export type Part = import("./queue.js").Part;
export type Verdict = import("./verdict.js").Verdict;
export type Receipt = import("./wire.js").Receipt;
export type Settled = import("./options.js").Settled;
export type Submission = {
    itemKey: string | undefined;
    key: string;
    stream: string | undefined;
    text: string;
    count: number;
};
export type Host = {
    log: (message: string) => void;
    spool?: import("./spool.js").Spool;
    /**
     * a batch is settled
     */
    landed: (batch: Batch) => void;
    changed: () => void;
};
/** The batch that is being sent. */
declare class Hand {
    batch: import("./queue.js").Batch;
    content: import("./queue.js").Content;
    /** Since when Headgate may have taken what is to be sent, by the client's clock. @type {number | undefined} */
    tried: number | undefined;
    /** What is left of it, once it was cut. @type {Part[] | undefined} */
    parts: Part[] | undefined;
    /** @param {Batch} batch @param {Content} content */
    constructor(batch: Batch, content: Content);
    /** What is to be sent: first item and number of items. @returns {Part} */
    get part(): Part;
    /** Its idempotency key: the same whenever the same part is cut out of the same batch. */
    get key(): string;
    get items(): unknown[];
    get text(): string;
    /** @returns {Submission} */
    submission(): Submission;
}
export declare class Delivery {
    #private;
    /** In order, the next one first. @type {Batch[]} */
    line: Batch[];
    /** @type {Hand | undefined} */
    hand: Hand | undefined;
    accepted: number;
    rejected: number;
    retries: number;
    damaged: number;
    /** Batches on disk, with the one in hand, and what they take of the room. */
    files: number;
    fileBytes: number;
    stopped: boolean;
    /** @type {import("./options.js").State} */
    state: import("./options.js").State;
    /** @type {string | undefined} */
    code: string | undefined;
    /** No longer bodies go through a proxy on the way. */
    bytesMax: number;
    /** The stream of the key, once Headgate has said it. @type {string | undefined} */
    stream: string | undefined;
    /** No attempt before this, by the client's clock. */
    resume: number;
    /** @param {import("./caller.js").Caller} caller @param {Settled} options @param {Host} host */
    constructor(caller: import("./caller.js").Caller, options: Settled, host: Host);
    /** When the next turn is; infinite: when something changes. */
    due(): number;
    /** The key has changed: no pause counts. */
    tryNow(): void;
    /** Makes the next attempt, or finds that there is none to be made. */
    turn(): Promise<void>;
    /** Tells that the spool cannot be read or written, and when it can be again. @param {string} use @param {unknown} why */
    disk(use: string, why: unknown): void;
    /**
     * One attempt; `leaving` is called before the first byte of it leaves.
     * @param {Submission} sent
     * @param {() => Promise<void>} leaving
     * @param {AbortSignal} signal
     * @returns {Promise<Verdict>}
     */
    attempt({ itemKey, key, stream, text, count }: Submission, leaving: () => Promise<void>, signal: AbortSignal): Promise<Verdict>;
    /** Tells the program of items that are not sent. @param {unknown[]} items @param {HeadgateError} error */
    giveUp(items: unknown[], error: HeadgateError): void;
    /** Ends it; what is not on disk is handed back, in order. */
    stop(): unknown[][];
    /** A batch has its file. @param {Batch} batch */
    came(batch: Batch): void;
    /** Its file is there no more. @param {Batch} batch */
    gone(batch: Batch): void;
    /** Batches on disk that are not in hand, and their bytes. */
    spooled(): {
        spooled: number;
        spooledBytes: number;
    };
}
export {};
