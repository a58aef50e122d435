import { HeadgateError } from "./errors.js";
import { Answer } from "./verdict.js";
export declare const VERSION = "0.1.0";
/** Of an answer no more is read. */
export declare const ANSWER_BYTES_MAX: number;
export declare const PAGE_BYTES_MAX: number;
export type Through = (url: string, init: any) => Promise<Response>;
export type Request = {
    method: string;
    path: string;
    headers?: Record<string, string>;
    body?: Uint8Array;
};
/** Where a Headgate is, and how it is spoken to. */
export declare class Transport {
    #private;
    /** The address, as errors show it. */
    shown: string;
    /** How often the key was changed. */
    changes: number;
    /**
     * @param {string} url
     * @param {string} key
     * @param {string | undefined} userAgent
     * @param {typeof fetch} [own]
     */
    constructor(url: string, key: string, userAgent: string | undefined, own?: typeof fetch);
    /** Requests have this key from now on. @param {string} key */
    setKey(key: string): void;
    /**
     * Sends a request; the head of its answer.
     * @param {Request} request
     * @param {AbortSignal} signal
     * @param {Through} [through] instead of `fetch`, if the program has none of its own
     * @param {() => Promise<unknown>} [leaving] called before the first byte leaves
     * @returns {Promise<Response>}
     */
    begin(request: Request, signal: AbortSignal, through?: Through, leaving?: () => Promise<unknown>): Promise<Response>;
    /**
     * One request, and its answer.
     * @param {Request} request
     * @param {object} options
     * @param {number} options.timeout
     * @param {AbortSignal} [options.signal]
     * @param {number} [options.bytesMax]
     * @param {boolean} [options.background]
     * @param {Through} [options.through]
     * @param {() => unknown} [options.leaving] called before the first byte leaves
     * @returns {Promise<Answer>}
     */
    call(request: Request, { timeout, signal, bytesMax, background, through, leaving }: {
        timeout: number;
        signal?: AbortSignal;
        bytesMax?: number;
        background?: boolean;
        through?: Through;
        leaving?: () => unknown;
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
