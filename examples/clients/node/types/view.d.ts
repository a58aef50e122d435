/// <reference lib="esnext.disposable" preserve="true" />
import { HeadgateError } from "./errors.js";
export type Message = import("./follow.js").Message;
export type Item = import("./wire.js").Item;
/** @typedef {import("./follow.js").Message} Message */
/** @typedef {import("./wire.js").Item} Item */
/**
 * Made by `reader.view()`: items by key, read like a Map.
 *
 * After a lost connection, until a new snapshot is complete, it keeps its items and is `stale`.
 * Invariant: the position that a connection resumes from and the items belong together, so resuming misses nothing.
 */
export declare class View {
    #private;
    stream: string;
    /**
     * @param {string} stream
     * @param {AsyncIterable<Message | undefined>} messages
     * @param {AbortController} ended
     * @param {{ onChange?: (items: Item[], removed: string[]) => unknown, log: (message: string) => void }} options
     */
    constructor(stream: string, messages: AsyncIterable<Message | undefined>, ended: AbortController, { onChange, log }: {
        onChange?: (items: Item[], removed: string[]) => unknown;
        log: (message: string) => void;
    });
    /** Whether all items of the stream are known. */
    get complete(): boolean;
    /** Whether the items may be old: the connection is lost, or the stream's source went quiet. */
    get stale(): boolean;
    /** The error that ended it: the key or the stream was rejected. */
    get error(): HeadgateError | undefined;
    get size(): number;
    /** @param {string} key */
    get(key: string): import("./wire.js").Item | undefined;
    /** @param {string} key */
    has(key: string): boolean;
    keys(): MapIterator<string>;
    values(): MapIterator<import("./wire.js").Item>;
    entries(): MapIterator<[string, import("./wire.js").Item]>;
    [Symbol.iterator](): MapIterator<[string, import("./wire.js").Item]>;
    /** @param {(item: Item, key: string, view: View) => unknown} call */
    forEach(call: (item: Item, key: string, view: View) => unknown): void;
    /**
     * Waits until the view is complete; returns whether it is. Throws the error that ended it.
     * @param {number} [timeout] in milliseconds
     * @returns {Promise<boolean>}
     */
    wait(timeout?: number): Promise<boolean>;
    /** Ends the view, which keeps its items. @returns {Promise<void>} */
    close(): Promise<void>;
    /** For `await using`. @returns {Promise<void>} */
    [Symbol.asyncDispose](): Promise<void>;
    toString(): string;
}
