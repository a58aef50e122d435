import { HeadgateError } from "./errors.js";
export declare const VERSION = "0.1.0";
/** Of an answer no more is read. */
export declare const ANSWER_BYTES_MAX: number;
export declare const PAGE_BYTES_MAX: number;
export type Request = {
    method: string;
    path: string;
    headers?: Record<string, string>;
    body?: Uint8Array;
};
/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {Record<string, string>} [headers]
 * @property {Uint8Array} [body]
 */
/** An answer, read to its end. */
export declare class Answer {
    #private;
    status: number;
    headers: Headers;
    body: string | undefined;
    /**
     * @param {number} status
     * @param {Headers} headers
     * @param {string | undefined} body undefined: it was longer than what is read, or no text
     * @param {string} shown the address
     */
    constructor(status: number, headers: Headers, body: string | undefined, shown: string);
    /**
     * The body; undefined if it is no JSON.
     * @param {(text: string) => any} [reading]
     * @returns {any}
     */
    json(reading?: (text: string) => any): any;
    /** What this answer says, which is not the one that was hoped for. */
    error(): HeadgateError;
}
/** Where a Headgate is, and how it is spoken to. */
export declare class Transport {
    #private;
    /** The address, as errors show it. */
    shown: string;
    /**
     * @param {string} url
     * @param {string} key
     * @param {string | undefined} userAgent
     * @param {typeof fetch} [own]
     */
    constructor(url: string, key: string, userAgent: string | undefined, own?: typeof fetch);
    /**
     * Sends a request; the head of its answer.
     * @param {Request} request
     * @param {AbortSignal} signal
     * @param {((url: string, init: any) => Promise<Response>)} [through] instead of `fetch`, if the program has none of its own
     * @returns {Promise<Response>}
     */
    begin(request: Request, signal: AbortSignal, through?: ((url: string, init: any) => Promise<Response>)): Promise<Response>;
    /**
     * One request, and its answer.
     * @param {Request} request
     * @param {{ timeout: number, signal?: AbortSignal, bytesMax?: number, background?: boolean, through?: (url: string, init: any) => Promise<Response> }} options
     * @returns {Promise<Answer>}
     */
    call(request: Request, { timeout, signal, bytesMax, background, through }: {
        timeout: number;
        signal?: AbortSignal;
        bytesMax?: number;
        background?: boolean;
        through?: (url: string, init: any) => Promise<Response>;
    }): Promise<Answer>;
    /**
     * What `fetch` has failed with, in words.
     * @param {unknown} error
     * @param {boolean} late
     */
    lost(error: unknown, late: boolean): HeadgateError;
}
/** A time that a request has, and the caller's signal, as one signal. */
export declare class Within {
    #private;
    /** Whether the time was over. */
    late: boolean;
    /** @param {number} timeout @param {AbortSignal} [outer] @param {boolean} [background] */
    constructor(timeout: number, outer?: AbortSignal, background?: boolean);
    get signal(): AbortSignal;
    /** From now on, so long. @param {number} timeout */
    extend(timeout: number): void;
    /** The clock stands still: whoever takes what came is busy. */
    rest(): void;
    abort: () => void;
    end(): void;
}
/**
 * The body as text; undefined if it is longer.
 * @param {Response} response
 * @param {number} bytesMax
 */
export declare function text(response: Response, bytesMax: number): Promise<string | undefined>;
