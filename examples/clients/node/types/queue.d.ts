export type HeadgateError = import("./errors.js").HeadgateError;
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
export type File = {
    path: string;
    parts: number;
};
/** What goes as one request, under one idempotency key for all its attempts. */
export declare class Batch {
    #private;
    items: unknown[];
    texts: string[] | undefined;
    text: string;
    bytes: number;
    itemKey: string | undefined;
    idempotencyKey: string;
    first: number;
    added: number;
    born: number;
    /**
     * Where it is on disk.
     * @type {File | undefined}
     */
    file: File | undefined;
    /** What it is a part of: the key of that batch, and the place of its own first item there. */
    whole: string;
    offset: number;
    /**
     * @param {object} told
     * @param {unknown[]} told.items
     * @param {string[]} [told.texts] each item as JSON; none: it comes from the spool, and is cut when that is needed
     * @param {string} [told.body]
     * @param {string | undefined} told.itemKey
     * @param {string} told.idempotencyKey
     * @param {number} told.first the place of its first item among all that were ever added
     * @param {number} told.added when that came, by the monotonic clock
     * @param {number} told.born since when its key is in use, by the wall clock
     * @param {number} [told.bytes]
     */
    constructor({ items, texts, body, itemKey, idempotencyKey, first, added, born, bytes }: {
        items: unknown[];
        texts?: string[];
        body?: string;
        itemKey: string | undefined;
        idempotencyKey: string;
        first: number;
        added: number;
        born: number;
        bytes?: number;
    });
    /** The bytes that go out: the same for every attempt. */
    body(): Uint8Array<ArrayBufferLike>;
    /**
     * The parts of a batch that was refused; none, if it is no more than one item.
     *
     * A part has the same key whenever it is cut out of the same batch: one that was accepted before a crash is known when
     * the batch comes from its file again.
     * @param {HeadgateError} error
     */
    cut(error: HeadgateError): (Batch & {
        file: File | undefined;
        whole: string;
        offset: number;
    })[];
}
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
