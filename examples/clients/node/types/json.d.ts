/**
 * JSON text that goes out as it is, but for white space: a number with all its digits, a value, or a whole item.
 *
 *     await client.send({ id: 7, price: new RawJson("1.10") }, { itemKey: "id" });
 */
export declare class RawJson {
    /**
     * The text.
     * @readonly
     * @type {string}
     */
    readonly text: string;
    /** @param {string} text a JSON text; what is none is a {@link HeadgateError} */
    constructor(text: string);
    toString(): string;
    /** For `JSON.stringify`, which keeps the digits where the runtime can (`JSON.rawJSON`). */
    toJSON(): any;
}
/**
 * Whether a text has no half of a surrogate pair.
 * @param {string} text
 * @returns {boolean}
 */
export declare function wellFormed(text: string): boolean;
/**
 * Reads JSON. An integer that a number would round becomes a `bigint`. With `exact`, every other number that would not be
 * written again with the same digits (`1.10`, `1e400`, `-0`) becomes a {@link RawJson}.
 * @param {string} text
 * @param {{ exact?: boolean }} [options]
 * @returns {any}
 */
export declare function parse(text: string, { exact }?: {
    exact?: boolean;
}): any;
