/** The length in UTF-8. @type {(text: string) => number} */
export declare const bytesOf: (text: string) => number;
/**
 * The value as compact JSON. A `bigint` and a {@link RawJson} (or `JSON.rawJSON`) go out digit for digit, a `Date` as
 * ISO 8601 in UTC, a `Map` as an object; a member that is `undefined` is left out. NaN, infinities, halves of surrogate
 * pairs and what is no JSON (functions, sets, typed arrays, …) are a `HeadgateError` that names the path.
 * @param {unknown} value
 * @returns {string}
 */
export declare function stringify(value: unknown): string;
/**
 * An item as JSON: an object.
 * @param {unknown} item
 */
export declare function encodeItem(item: unknown): string;
/**
 * The text of the field that identifies an item, looked up as Headgate does: in the flattened item.
 * @param {unknown} item
 * @param {string} field
 * @returns {string}
 */
export declare function keyOf(item: unknown, field: string): string;
