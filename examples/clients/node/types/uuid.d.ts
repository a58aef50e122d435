/**
 * A UUIDv7; those of one process grow, also within a millisecond and when the clock goes back.
 * @param {number} [now] by the wall clock
 * @returns {string}
 */
export declare function uuid7(now?: number): string;
/**
 * After a UUIDv7 of an earlier life, later ones are greater.
 * @param {string} text
 */
export declare function saw(text: string): void;
/** A random UUID, also where there is no `crypto.randomUUID` (pages that came without TLS). */
export declare function uuid4(): string;
