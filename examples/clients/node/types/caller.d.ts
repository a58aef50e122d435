import { HeadgateError } from "./errors.js";
import { Transport } from "./transport.js";
export type Answer = import("./verdict.js").Answer;
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
export type Clock = {
    /**
     * is never set
     */
    mono: () => number;
    /**
     * since 1970
     */
    wall: () => number;
    /**
     * goes on while the machine sleeps; undefined: the system's
     */
    lived?: () => number;
};
/** Calls a Headgate, with pauses between attempts. */
export declare class Caller {
    #private;
    transport: Transport;
    attemptTimeout: number;
    /** @type {Clock} */
    clock: Clock;
    random: () => number;
    /** Called when the key has changed. @type {Set<() => void>} */
    keyed: Set<() => void>;
    /**
     * @param {string | undefined} url
     * @param {string | undefined} key
     * @param {string} variable where the key stands in the environment
     * @param {ConnectionOptions} options
     */
    constructor(url: string | undefined, key: string | undefined, variable: string, { timeout, attemptTimeout, backoff, backoffMax, userAgent, fetch }: ConnectionOptions);
    /** Requests have this key from now on. @param {string} key */
    setKey(key: string): void;
    /** What so many failures in a row cost: half to all of a pause that doubles. @param {number} failures */
    backoff(failures: number): number;
    /**
     * How long to wait before the next attempt.
     * @param {HeadgateError} error
     * @param {number} failures
     */
    pause(error: HeadgateError, failures: number): number;
    /** How long an attempt may take: a long body takes longer where the line is slow. @param {Uint8Array} [body] */
    within(body?: Uint8Array): number;
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
