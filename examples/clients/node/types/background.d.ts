/** Milliseconds that the machine has lived: they go on while it sleeps. */
export declare const lived: () => number;
/**
 * As much of `fetch` as a batcher needs. A redirect is an answer like others. A kept connection that turns out to be closed
 * is replaced at once.
 * @param {string} url
 * @param {Init} init
 * @returns {Promise<Response>}
 */
declare function send(url: string, init: Init): Promise<Response>;
export type Init = {
    method: string;
    headers: Record<string, string>;
    body?: Uint8Array;
    signal: AbortSignal;
    /**
     * called when it is connected, before the first byte leaves
     */
    leaving?: () => Promise<unknown>;
};
/** @type {typeof send | undefined} */
export declare const background: typeof send | undefined;
export {};
