export type Part = import("./queue.js").Part;
export type Kept = {
    itemKey: string | undefined;
    stream: string | undefined;
    /**
     * the body
     */
    text: string;
    items: any[];
};
export type Mark = {
    /**
     * since when Headgate may have taken it, by the wall clock; undefined: it has not
     */
    tried: number | undefined;
    /**
     * what is left of a batch that was cut
     */
    parts: Part[] | undefined;
};
/**
 * A batch that was read from its file.
 * @typedef {object} Kept
 * @property {string | undefined} itemKey
 * @property {string | undefined} stream
 * @property {string} text the body
 * @property {any[]} items
 */
/**
 * What is in hand.
 * @typedef {object} Mark
 * @property {number | undefined} tried since when Headgate may have taken it, by the wall clock; undefined: it has not
 * @property {Part[] | undefined} parts what is left of a batch that was cut
 */
/** A folder of batches. One batcher a folder. */
export declare class Spool {
    #private;
    folder: string;
    /** Batches that an earlier life has left, in order, and their bytes. */
    left: {
        key: string;
        bytes: number;
    }[];
    rejectedLost: number;
    /**
     * @param {string} folder
     * @param {number} room
     * @param {(message: string) => void} log
     */
    constructor(folder: string, room: number, log: (message: string) => void);
    /** Whether the folder is still this program's. While it cannot be looked at, it is. */
    holds(): boolean;
    /** Another batcher may use the folder. */
    close(): Promise<void>;
    /**
     * Puts a batch on disk; its bytes there.
     * @param {string} key
     * @param {import("./queue.js").Content} content
     * @param {number} created
     */
    write(key: string, { itemKey, stream, text }: import("./queue.js").Content, created: number): Promise<number>;
    /**
     * A batch; what is wrong with its file, which is set aside then; undefined, if it is gone.
     * @param {string} key
     * @returns {Promise<Kept | string | undefined>}
     */
    read(key: string): Promise<Kept | string | undefined>;
    /** Takes a batch away that was answered. @param {string} key */
    delete(key: string): Promise<void>;
    /** Says what is in hand, in the room that was taken for it. @param {string} key @param {Mark} mark */
    mark(key: string, { tried, parts }: Mark): Promise<void>;
    /**
     * What was said of a batch of so many items; nothing, where that is of another one, or makes no sense.
     * @param {string} key
     * @param {number} count
     * @returns {Mark}
     */
    marked(key: string, count: number): Mark;
    /**
     * Keeps a refused part of a batch: one file for the batch, each key once.
     * @param {string} key
     * @param {Record<string, unknown> & { idempotency_key: string }} line
     * @param {string} items
     */
    reject(key: string, line: Record<string, unknown> & {
        idempotency_key: string;
    }, items: string): Promise<void>;
}
