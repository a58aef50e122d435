export type Kept = {
    path: string;
    idempotencyKey: string;
    itemKey: string | undefined;
    /**
     * in milliseconds since 1970
     */
    created: number;
    body: string;
    items: any[];
};
/**
 * A batch that an earlier life has left.
 * @typedef {object} Kept
 * @property {string} path
 * @property {string} idempotencyKey
 * @property {string | undefined} itemKey
 * @property {number} created in milliseconds since 1970
 * @property {string} body
 * @property {any[]} items
 */
/** A folder of batches. One batcher a folder. */
export declare class Spool {
    #private;
    /**
     * @param {string} folder
     * @param {(message: string) => void} log
     */
    constructor(folder: string, log: (message: string) => void);
    /**
     * Puts a batch on disk; its path.
     * @param {import("./queue.js").Batch} batch
     */
    write({ idempotencyKey, itemKey, born, text }: import("./queue.js").Batch): Promise<string>;
    /**
     * Takes a batch away that was answered.
     * @param {string} path
     */
    delete(path: string): Promise<void>;
    /**
     * What lies there, in order. A file that cannot be read is set aside, and said.
     * @returns {Kept[]}
     */
    left(): Kept[];
}
