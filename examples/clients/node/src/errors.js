// The one error of the library, and what the library finds itself.

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
export class HeadgateError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(code, message, { status, requestId, details = [], retryable = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "HeadgateError";
    this.code = code;
    /** The HTTP status, if there was an answer. */
    this.status = status;
    /** The request's id in Headgate's log. */
    this.requestId = requestId;
    /** Places in the rejected body. */
    this.details = details;
    /** Whether the same request may succeed later. */
    this.retryable = retryable;
    /**
     * Milliseconds that the server wants to be left alone.
     * @type {number | undefined}
     */
    this.retryAfter = undefined;
    /** Whether the request began to leave, and no answer came. */
    this.unknown = false;
  }

  /** @override */
  toString() {
    const status = this.status === undefined ? "" : ` (${this.status})`;
    const request = this.requestId === undefined ? "" : ` [request ${this.requestId}]`;
    return `${this.code}${status}: ${this.message}${request}`;
  }
}

/**
 * An item that cannot be sent as it is.
 * @param {string} message
 */
export const invalid = (message) => new HeadgateError("INVALID_PAYLOAD", message);

/** For what a closed batcher takes no more. */
export const closed = () => new HeadgateError("CLOSED", "the batcher is closed");

/**
 * For a call that its signal has ended.
 * @param {AbortSignal} signal
 */
export const canceled = (signal) =>
  new HeadgateError("CANCELED", "the call was canceled; Headgate may have accepted the request", { cause: signal.reason });
