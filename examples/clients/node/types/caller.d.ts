import { HeadgateError } from "./errors.js";
import { Transport } from "./transport.js";
export type Answer = import("./transport.js").Answer;
export type Request = import("./transport.js").Request;
export type ConnectionOptions = {
    /**
     * of a call with all its attempts: 30,000
     */
    timeout?: number;
    /**
     * of one attempt: 10,000
     */
    attemptTimeout?: number;
    /**
     * the first pause, which doubles: 250
     */
    backoff?: number;
    /**
     * the longest pause: 30,000
     */
    backoffMax?: number;
    /**
     * added to the library's own
     */
    userAgent?: string;
    /**
     * an HTTP stack of your own, for proxies and Unix sockets
     */
    fetch?: typeof globalThis.fetch;
};
/** @typedef {import("./transport.js").Answer} Answer */
/** @typedef {import("./transport.js").Request} Request */
/**
 * All times are in milliseconds.
 * @typedef {object} ConnectionOptions
 * @property {number} [timeout] of a call with all its attempts: 30,000
 * @property {number} [attemptTimeout] of one attempt: 10,000
 * @property {number} [backoff] the first pause, which doubles: 250
 * @property {number} [backoffMax] the longest pause: 30,000
 * @property {string} [userAgent] added to the library's own
 * @property {typeof globalThis.fetch} [fetch] an HTTP stack of your own, for proxies and Unix sockets
 */
/** Calls a Headgate, with pauses between attempts. */
export declare class Caller {
    #private;
    transport: Transport;
    attemptTimeout: number;
    /**
     * @param {string | undefined} url
     * @param {string | undefined} key
     * @param {string} variable where the key stands in the environment
     * @param {ConnectionOptions} options
     */
    constructor(url: string | undefined, key: string | undefined, variable: string, { timeout, attemptTimeout, backoff, backoffMax, userAgent, fetch }: ConnectionOptions);
    /**
     * How long to wait before the next attempt; the first one is 0.
     * @param {HeadgateError} error
     * @param {number} attempt
     */
    pause(error: HeadgateError, attempt: number): number;
    /**
     * @param {Request} request
     * @param {{ timeout?: number, signal?: AbortSignal, bytesMax?: number }} [options]
     * @returns {Promise<Answer>}
     */
    call(request: Request, { timeout, signal, bytesMax }?: {
        timeout?: number;
        signal?: AbortSignal;
        bytesMax?: number;
    }): Promise<Answer>;
}
