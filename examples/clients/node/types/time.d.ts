/**
 * Keeps the process alive until the answer is called.
 * @returns {() => void}
 */
export declare function hold(): () => void;
/**
 * Calls once, later; with `background`, without keeping the process alive.
 * @param {() => void} call
 * @param {number} milliseconds
 * @param {boolean} [background]
 * @returns {() => void} takes it back
 */
export declare function after(milliseconds: number, call: () => void, background?: boolean): () => void;
/**
 * Calls once, when what has come in meanwhile was read.
 * @param {() => void} call
 * @returns {() => void} takes it back
 */
export declare function soon(call: () => void): () => void;
/**
 * Waits, or until the signal ends it.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @param {boolean} [background] whether the process may end meanwhile
 * @returns {Promise<void>}
 */
export declare function sleep(milliseconds: number, signal?: AbortSignal, background?: boolean): Promise<void>;
