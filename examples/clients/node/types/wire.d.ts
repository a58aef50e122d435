export type Receipt = {
    stream: string;
    itemsReceived: number;
    requestId: string;
    /**
     * it had been taken before, and was not processed again
     */
    replayed: boolean;
};
export type RequestState = {
    requestId: string;
    /**
     * `accepted` until every sink has it; then `processed`, `failed`, `stale`, …
     */
    status: string;
    errors: string[];
    sinks: Record<string, any>[];
    stream?: string;
    itemsReceived?: number;
    processedAt?: string;
};
export type Item = {
    key: string;
    fields: Record<string, any>;
    updated_at: string;
    seq: number;
};
export type Answer = import("./verdict.js").Answer;
/**
 * What Headgate has taken: it is on disk.
 * @typedef {object} Receipt
 * @property {string} stream
 * @property {number} itemsReceived
 * @property {string} requestId
 * @property {boolean} replayed it had been taken before, and was not processed again
 */
/**
 * What became of a request.
 * @typedef {object} RequestState
 * @property {string} requestId
 * @property {string} status `accepted` until every sink has it; then `processed`, `failed`, `stale`, …
 * @property {string[]} errors
 * @property {Record<string, any>[]} sinks
 * @property {string} [stream]
 * @property {number} [itemsReceived]
 * @property {string} [processedAt]
 */
/**
 * An item of the data pool, as Headgate writes it.
 * @typedef {object} Item
 * @property {string} key
 * @property {Record<string, any>} fields
 * @property {string} updated_at
 * @property {number} seq
 */
/** @typedef {import("./verdict.js").Answer} Answer */
/**
 * The headers of a request that submits.
 * @param {string | undefined} itemKey
 * @param {string} idempotencyKey
 * @returns {Record<string, string>}
 */
export declare function submission(itemKey: string | undefined, idempotencyKey: string): Record<string, string>;
/** Where items go; another stream of the key than this one is refused. @param {string | undefined} stream */
export declare const ingestPath: (stream: string | undefined) => string;
/**
 * What an answer says of a request.
 * @param {Answer} answer
 * @param {string} requestId
 * @returns {RequestState}
 */
export declare function requestState(answer: Answer, requestId: string): RequestState;
/**
 * Whether it is an item.
 * @param {any} value
 * @returns {value is Item}
 */
export declare function isItem(value: any): value is Item;
/** @param {unknown} value @returns {value is Record<string, any>} */
export declare function isObject(value: unknown): value is Record<string, any>;
/**
 * A name as one part of a path.
 * @param {string} name
 */
export declare function segment(name: string): string;
