/// <reference lib="esnext.disposable" preserve="true" />
import { HeadgateError } from "./errors.js";
export type Message = import("./follow.js").Message;
export type Item = import("./wire.js").Item;
/** @typedef {import("./follow.js").Message} Message */
/** @typedef {import("./wire.js").Item} Item */
/**
 * Made by `reader.view()`: items by key, read like a Map.
 *
 * After a lost connection, and while a new snapshot comes, it goes on showing what it has, as `stale`.
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
    /** Whether the whole content is known. */
    get complete(): boolean;
    /** Whether it may be behind: it is cut off, or the stream's source went quiet. */
    get stale(): boolean;
    /** What ended it: the key or the stream was refused. */
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
     * Waits until it is complete; whether it is. What ended it is thrown.
     * @param {number} [timeout] in milliseconds
     * @returns {Promise<boolean>}
     */
    wait(timeout?: number): Promise<boolean>;
    /** Ends it; it keeps its items. @returns {Promise<void>} */
    close(): Promise<void>;
    /** For `await using`. @returns {Promise<void>} */
    [Symbol.asyncDispose](): Promise<void>;
    toString(): string;
}
