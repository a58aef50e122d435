import { HeadgateError } from "./errors.js";
import { RawJson, parse } from "./json.js";
import { View } from "./view.js";
export { HeadgateError, RawJson, View, parse };
export type ConnectionOptions = import("./caller.js").ConnectionOptions;
export type Message = import("./follow.js").Message;
export type Item = import("./wire.js").Item;
export type ReaderOptions = {
    /**
     * milliseconds after which a silent connection is replaced: 40,000
     */
    silence?: number;
    /**
     * returns numbers that JavaScript would change (`1.10`, `1e400`) as {@link RawJson}
     */
    exactNumbers?: boolean;
    /**
     * for warnings: `console.warn`
     */
    log?: (message: string) => void;
};
export type FollowOptions = {
    /**
     * the `id` of a message to resume from
     */
    since?: string;
    /**
     * ends it
     */
    signal?: AbortSignal;
};
/** @typedef {import("./caller.js").ConnectionOptions} ConnectionOptions */
/** @typedef {import("./follow.js").Message} Message */
/** @typedef {import("./wire.js").Item} Item */
/**
 * @typedef {object} ReaderOptions
 * @property {number} [silence] milliseconds after which a silent connection is replaced: 40,000
 * @property {boolean} [exactNumbers] returns numbers that JavaScript would change (`1.10`, `1e400`) as {@link RawJson}
 * @property {(message: string) => void} [log] for warnings: `console.warn`
 */
/**
 * @typedef {object} FollowOptions
 * @property {string} [since] the `id` of a message to resume from
 * @property {AbortSignal} [signal] ends it
 */
/**
 * Reads streams of a Headgate. Where they are missing, the environment has `url` and `key`: `HEADGATE_URL`,
 * `HEADGATE_READ_KEY`. All times are in milliseconds. An integer that a number would round comes as a `bigint`.
 */
export declare class Reader {
    #private;
    /**
     * @param {string} [url] like `http://host:port` or `https://host`
     * @param {string} [key] a read key
     * @param {ConnectionOptions & ReaderOptions} [options]
     */
    constructor(url?: string, key?: string, { silence, exactNumbers, log, ...options }?: ConnectionOptions & ReaderOptions);
    /**
     * Returns all items of a stream, ordered by key. Fetches pages of `page` items as needed.
     * @param {string} stream
     * @param {{ page?: number, signal?: AbortSignal }} [options]
     * @returns {AsyncGenerator<Item, void, undefined>}
     */
    items(stream: string, { page, signal }?: {
        page?: number;
        signal?: AbortSignal;
    }): AsyncGenerator<Item, void, undefined>;
    /**
     * Returns one item, or undefined if it does not exist.
     * @param {string} stream
     * @param {string} key
     * @param {{ signal?: AbortSignal }} [options]
     * @returns {Promise<Item | undefined>}
     */
    item(stream: string, key: string, { signal }?: {
        signal?: AbortSignal;
    }): Promise<Item | undefined>;
    /**
     * Returns the messages of these streams, or of all streams of the key, without end.
     *
     * Reconnects after lost connections, and resumes with the last `id`. `heartbeat` and `bye` are not returned. Ends with the signal,
     * with `break`, or with an error if the key or a stream is rejected.
     * @param {readonly string[]} [streams]
     * @param {FollowOptions} [options]
     * @returns {AsyncGenerator<Message, void, undefined>}
     */
    follow(streams?: readonly string[], { since, signal }?: FollowOptions): AsyncGenerator<Message, void, undefined>;
    /**
     * Returns the items of a stream as a map that stays current until it is closed. An open view keeps the program running.
     * @param {string} stream
     * @param {{ onChange?: (items: Item[], removed: string[]) => unknown }} [options]
     * @returns {View}
     */
    view(stream: string, { onChange }?: {
        onChange?: (items: Item[], removed: string[]) => unknown;
    }): View;
    toString(): string;
}
