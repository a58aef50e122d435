export type ErrorOptions = {
    status?: number;
    requestId?: string;
    details?: Record<string, any>[];
    retryable?: boolean;
    cause?: unknown;
};
/**
 * @typedef {object} ErrorOptions
 * @property {number} [status]
 * @property {string} [requestId]
 * @property {Record<string, any>[]} [details]
 * @property {boolean} [retryable]
 * @property {unknown} [cause]
 */
/**
 * Every error of Headgate and of this library.
 *
 * `code` is a constant: one of Headgate's (`INVALID_PAYLOAD`, `UNAUTHORIZED`, …), or one of the library's own:
 * `CONNECTION`, `TIMEOUT`, `UNEXPECTED_ANSWER`, `TOO_LARGE`, `FULL`, `DROPPED`, `CLOSED`, `CANCELED`, `SPOOL`, `SPOOL_IN_USE`,
 * `EXPIRED`, `MISMATCH`.
 */
export declare class HeadgateError extends Error {
    code: string;
    /** The HTTP status, if there was an answer. */
    status: number | undefined;
    /** The request's id in Headgate's log. */
    requestId: string | undefined;
    /** Places in the rejected body. */
    details: Record<string, any>[];
    /** Whether the same request may succeed later. */
    retryable: boolean;
    /**
     * Milliseconds that the server wants to be left alone.
     * @type {number | undefined}
     */
    retryAfter: number | undefined;
    /** Whether the request began to leave, and no answer came. */
    unknown: boolean;
    /**
     * @param {string} code
     * @param {string} message
     * @param {ErrorOptions} [options]
     */
    constructor(code: string, message: string, { status, requestId, details, retryable, cause }?: ErrorOptions);
    /** @override */
    toString(): string;
}
/**
 * An item that cannot be sent as it is.
 * @param {string} message
 */
export declare const invalid: (message: string) => HeadgateError;
/** For what a closed batcher takes no more. */
export declare const closed: () => HeadgateError;
/**
 * For a call that its signal has ended.
 * @param {AbortSignal} signal
 */
export declare const canceled: (signal: AbortSignal) => HeadgateError;
