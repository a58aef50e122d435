// What an answer means for the items that were sent: the one place that decides it.
//
// Only Headgate's own word takes anything from a queue. Everything else, whoever said it, is a state of the connection:
// the batch waits, and is sent again.

import { HeadgateError } from "./errors.js";
import { parse } from "./json.js";
import { isObject } from "./wire.js";

/** @typedef {import("./wire.js").Receipt} Receipt */

/**
 * How an attempt has ended.
 * @typedef {object} Verdict
 * @property {"accepted" | "refused" | "mismatch" | "blocked" | "retrying"} kind
 * @property {HeadgateError} [error]
 * @property {Receipt} [receipt]
 * @property {boolean} [unknown] whether Headgate may have taken it, although this is not known
 * @property {number[]} [items] those that a refusal names, in order
 * @property {boolean} [shrink] whether a proxy on the way finds the body too large
 */

/** Headgate's own statuses below 500 that may pass by themselves. */
const PASSING = [408, 425, 429];
const RETRY_AFTER_MS_MAX = 300_000;
const DATE = /^[A-Z][a-z]{2,8},? [\d A-Za-z:-]+ GMT$/;
const BLOCKED_MS = 5000;
const REFUSED_MS = 100;

/** @param {unknown} value */
const isText = (value) => typeof value === "string" && value !== "";

/** An answer, read to its end. */
export class Answer {
  #shown;
  /** @type {{ own: Record<string, any> | undefined } | undefined} */
  #read;

  /**
   * @param {number} status
   * @param {Headers} headers what came more than once is joined with commas
   * @param {string} body
   * @param {string} shown the address
   */
  constructor(status, headers, body, shown) {
    this.status = status;
    this.headers = headers;
    this.body = body;
    this.#shown = shown;
  }

  /**
   * Headgate's envelope; undefined, if this is not its answer.
   * @param {(text: string) => any} [reading]
   * @returns {Record<string, any> | undefined}
   */
  own(reading) {
    if (reading) return this.#own(reading);
    this.#read ??= { own: this.#own(parse) };
    return this.#read.own;
  }

  /** @param {(text: string) => any} reading */
  #own(reading) {
    const kind = this.headers.get("content-type") ?? "";
    if (kind.split(";")[0].trim().toLowerCase() !== "application/json") return undefined;
    let value;
    try {
      value = reading(this.body);
    } catch {
      return undefined;
    }
    if (!isObject(value)) return undefined;
    const { success, error } = value;
    if (success === false) return isObject(error) && isText(error.code) && isText(error.request_id) ? value : undefined;
    return success === true && "data" in value ? value : undefined;
  }

  /** Whether Headgate says that it has done what was asked. */
  get succeeds() {
    return this.own()?.success === true;
  }

  /** What this answer says, which is not the one that was hoped for. @param {number} wall */
  error(wall) {
    const { status } = this;
    const own = this.own();
    const error =
      own?.success === false
        ? new HeadgateError(own.error.code, typeof own.error.message === "string" ? own.error.message : "", {
            status,
            requestId: own.error.request_id,
            details: Array.isArray(own.error.details) ? own.error.details.filter(isObject) : [],
            retryable: PASSING.includes(status) || status < 400 || status >= 500,
          })
        : new HeadgateError("UNEXPECTED_ANSWER", `status ${status} from ${this.#shown} is not from Headgate, but from a proxy or another server; check the URL`, { status, retryable: true });
    error.retryAfter = retryAfter(this.headers, wall);
    return error;
  }
}

/** @param {Headers} headers @param {number} wall @returns {number | undefined} */
function retryAfter(headers, wall) {
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, RETRY_AFTER_MS_MAX);
  const at = date(text);
  if (at === undefined) return undefined;
  return Math.min(Math.max(at - (date(headers.get("date") ?? "") ?? wall), 0), RETRY_AFTER_MS_MAX);
}

/** @param {string} text */
function date(text) {
  const at = DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/**
 * What Headgate says that it has taken, whatever the status.
 * @param {Answer} answer
 * @returns {Receipt | undefined}
 */
export function receiptOf(answer) {
  const own = answer.own();
  if (own?.success !== true || !isObject(own.data)) return undefined;
  const { stream, items_received: itemsReceived, request_id: requestId } = own.data;
  if (!isText(stream) || !isText(requestId) || !Number.isInteger(itemsReceived)) return undefined;
  const replayed = (answer.headers.get("idempotent-replayed") ?? "").split(",").some((value) => value.trim().toLowerCase() === "true");
  return { stream, itemsReceived, requestId, replayed };
}

/**
 * How an attempt has ended that was answered.
 * @param {Answer} answer
 * @param {number} sent so many items went out
 * @param {number} wall
 * @returns {Verdict}
 */
export function judge(answer, sent, wall) {
  const { status } = answer;
  const receipt = receiptOf(answer);
  if (receipt && status === 202) {
    return receipt.itemsReceived === sent ? { kind: "accepted", receipt } : { kind: "mismatch", error: mismatch(receipt, sent) };
  }
  const error = answer.error(wall);
  if (receipt) return { kind: "retrying", error, unknown: status >= 200 && status < 300 };
  if (error.code === "UNEXPECTED_ANSWER") {
    return { kind: "retrying", error, unknown: status === 202 || status >= 500, shrink: status === 413 };
  }
  if (error.retryable) return { kind: "retrying", error, unknown: status < 300 || (status >= 500 && status !== 503) };
  return refusesItems(error) ? { kind: "refused", error, items: named(error, sent) } : { kind: "blocked", error };
}

/** How an attempt has ended that was not answered. @param {HeadgateError} error @returns {Verdict} */
export const lost = (error) => ({ kind: "retrying", error, unknown: error.unknown });

/** For a key under which Headgate has taken something else. @param {Receipt} receipt @param {number} sent */
export function mismatch({ itemsReceived, requestId }, sent) {
  const message = `the idempotency key belongs to another request with ${itemsReceived} items, but ${sent} were sent; use a new key`;
  return new HeadgateError("MISMATCH", message, { status: 202, requestId });
}

/** @param {HeadgateError} error */
function refusesItems({ status, code, details }) {
  if (status === 413) return code === "PAYLOAD_TOO_LARGE";
  return status === 400 && code === "INVALID_PAYLOAD" && !details.some((each) => "header" in each);
}

/** @param {HeadgateError} error @param {number} sent */
function named({ details }, sent) {
  const items = details.map(({ item }) => item).filter((item) => Number.isInteger(item) && item >= 0 && item < sent);
  return [...new Set(items)].sort((a, b) => a - b);
}

/**
 * Milliseconds until the next attempt.
 * @param {Verdict} verdict
 * @param {number} backoff what the failures in a row say
 */
export function pause({ kind, error }, backoff) {
  if (kind === "accepted" || kind === "mismatch") return 0;
  if (kind === "refused") return REFUSED_MS;
  return Math.max(backoff, error?.retryAfter ?? 0, kind === "blocked" ? BLOCKED_MS : 0);
}
