/**
 * As much of `fetch` as a batcher needs. A redirect is an answer like others.
 * @param {string} url
 * @param {{ method: string, headers: Record<string, string>, body?: Uint8Array, signal: AbortSignal }} request
 * @returns {Promise<Response>}
 */
declare function send(url: string, { method, headers, body, signal }: {
    method: string;
    headers: Record<string, string>;
    body?: Uint8Array;
    signal: AbortSignal;
}): Promise<Response>;
/** @type {typeof send | undefined} */
export declare const background: typeof send | undefined;
export {};
