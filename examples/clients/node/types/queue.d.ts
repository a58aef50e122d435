export type Entry = {
    item: unknown;
    /**
     * as JSON
     */
    text: string;
    /**
     * of that in UTF-8
     */
    bytes: number;
    /**
     * what identifies it, where only the latest of it goes
     */
    key: string | undefined;
    /**
     * its place among all that were ever added
     */
    place: number;
    /**
     * when, by the monotonic clock
     */
    added: number;
};
export type Content = {
    items: unknown[];
    /**
     * each item as JSON; none: it comes from the spool, and is cut when that is needed
     */
    texts?: string[];
    /**
     * the body
     */
    text: string;
    itemKey: string | undefined;
    stream: string | undefined;
};
/**
 * An item that waits.
 * @typedef {object} Entry
 * @property {unknown} item
 * @property {string} text as JSON
 * @property {number} bytes of that in UTF-8
 * @property {string | undefined} key what identifies it, where only the latest of it goes
 * @property {number} place its place among all that were ever added
 * @property {number} added when, by the monotonic clock
 */
/**
 * The items of a batch.
 * @typedef {object} Content
 * @property {unknown[]} items
 * @property {string[]} [texts] each item as JSON; none: it comes from the spool, and is cut when that is needed
 * @property {string} text the body
 * @property {string | undefined} itemKey
 * @property {string | undefined} stream
 */
/** What a file of this size takes of the room. @param {number} bytes */
export declare const cost: (bytes: number) => number;
/** @param {string[]} texts */
export declare const bodyOf: (texts: string[]) => string;
/** What goes as one request, under one idempotency key for all its attempts: in memory, on disk, or both. */
export declare class Batch {
    key: string;
    first: number;
    added: number;
    count: number;
    bytes: number;
    content: Content | undefined;
    written: boolean;
    writing: boolean;
    /** Ends when what is being written is. @type {Promise<unknown> | undefined} */
    whenWritten: Promise<unknown> | undefined;
    /**
     * @param {object} told
     * @param {string} told.key
     * @param {number} told.first the place of its first item among all that were ever added; -1: an earlier life has left it
     * @param {number} told.added when that came, by the client's clock
     * @param {number} told.count items; 0: it was not read yet
     * @param {number} told.bytes of the file, or of the body that has none yet
     * @param {Content} [told.content] none: it is on disk only
     */
    constructor({ key, first, added, count, bytes, content }: {
        key: string;
        first: number;
        added: number;
        count: number;
        bytes: number;
        content?: Content;
    });
}
/**
 * Some of the items of a batch, as JSON.
 * @param {Content} content
 * @param {number} start
 * @param {number} count
 */
export declare function slice(content: Content, start: number, count: number): string;
export type Part = [number, number];
/**
 * The parts of a part that was refused: the named items (counted in it) stand alone, else it is halved.
 * @param {Part} part
 * @param {number[]} named
 * @returns {Part[]}
 */
export declare function cuts([start, count]: Part, named: number[]): Part[];
/** Items in order, and how many bytes they are. */
export declare class Queue {
    #private;
    bytes: number;
    get length(): number;
    /** The oldest. @returns {Entry | undefined} */
    get first(): Entry | undefined;
    /** Puts an item in the place of the one with the same key, if one waits. @param {Entry} entry */
    replace(entry: Entry): boolean;
    /** Adds one at the end. @param {Entry} entry */
    push(entry: Entry): void;
    /** Takes the oldest. */
    pop(): Entry;
    /** Whether a whole batch waits. @param {number} maxItems @param {number} maxBytes */
    fills(maxItems: number, maxBytes: number): boolean;
    /** The items of the next batch; one at least, however long it is. @param {number} maxItems @param {number} maxBytes */
    take(maxItems: number, maxBytes: number): Entry[];
}
