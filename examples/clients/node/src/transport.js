// One request and its answer over `fetch`, or what stands for it, with a deadline and cancellation.
//
// The key goes into `Authorization` and nowhere else; redirects are answers like others.

import { HeadgateError, RETRYABLE_STATUSES } from "./errors.js";
import { parse } from "./json.js";
import { after, soon } from "./time.js";
import { isObject } from "./wire.js";

export const VERSION = "0.1.0";
/** Of an answer no more is read. */
export const ANSWER_BYTES_MAX = 1 << 20;
export const PAGE_BYTES_MAX = 64 << 20;
const RETRY_AFTER_MS_MAX = 300_000;
const DATE = /^[A-Z][a-z]{2,8},? [\d A-Za-z:-]+ GMT$/;

/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {Record<string, string>} [headers]
 * @property {Uint8Array} [body]
 */

/** An answer, read to its end. */
export class Answer {
  #shown;

  /**
   * @param {number} status
   * @param {Headers} headers
   * @param {string | undefined} body undefined: it was longer than what is read, or no text
   * @param {string} shown the address
   */
  constructor(status, headers, body, shown) {
    this.status = status;
    this.headers = headers;
    this.body = body;
    this.#shown = shown;
  }

  /**
   * The body; undefined if it is no JSON.
   * @param {(text: string) => any} [reading]
   * @returns {any}
   */
  json(reading = JSON.parse) {
    try {
      return this.body === undefined ? undefined : reading(this.body);
    } catch {
      return undefined;
    }
  }

  /** What this answer says, which is not the one that was hoped for. */
  error() {
    const status = this.status;
    const told = this.json(parse)?.error;
    const retryable = RETRYABLE_STATUSES.has(status);
    const known = isObject(told) && typeof told.code === "string" && status >= 400;
    const error = known
      ? new HeadgateError(told.code, typeof told.message === "string" ? told.message : "", {
          status,
          requestId: typeof told.request_id === "string" ? told.request_id : undefined,
          details: Array.isArray(told.details) ? told.details.filter(isObject) : [],
          retryable,
        })
      : new HeadgateError("UNEXPECTED_ANSWER", `status ${status} of ${this.#shown}, and not an answer of Headgate's; is the address right?`, { status, retryable });
    error.retryAfter = retryAfter(this.headers.get("retry-after"));
    return error;
  }
}

/** @param {string | null} value @returns {number | undefined} */
function retryAfter(value) {
  const text = value?.trim() ?? "";
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, RETRY_AFTER_MS_MAX);
  const at = DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - Date.now(), 0), RETRY_AFTER_MS_MAX);
}

/** Where a Headgate is, and how it is spoken to. */
export class Transport {
  #base;
  /** @type {Record<string, string>} */
  #headers;
  #own;

  /**
   * @param {string} url
   * @param {string} key
   * @param {string | undefined} userAgent
   * @param {typeof fetch} [own]
   */
  constructor(url, key, userAgent, own) {
    if (!/^[!-~]+$/.test(key)) throw new TypeError("a key is made of visible ASCII characters");
    if (userAgent !== undefined && !/^[ -~]+$/.test(userAgent)) throw new TypeError("userAgent is visible ASCII text");
    this.#base = baseOf(url);
    /** The address, as errors show it. */
    this.shown = this.#base;
    this.#own = own;
    this.#headers = { authorization: `Bearer ${key}` };
    // A browser has a name of its own, and would ask the server whether it may be changed.
    if (typeof process !== "undefined" || "Deno" in globalThis) {
      this.#headers["user-agent"] = `headgate-node/${VERSION}${userAgent ? ` ${userAgent}` : ""}`;
    }
  }

  /**
   * Sends a request; the head of its answer.
   * @param {Request} request
   * @param {AbortSignal} signal
   * @param {((url: string, init: any) => Promise<Response>)} [through] instead of `fetch`, if the program has none of its own
   * @returns {Promise<Response>}
   */
  begin(request, signal, through) {
    return (this.#own ?? through ?? globalThis.fetch)(this.#base + request.path, {
      method: request.method,
      headers: { accept: "application/json", ...this.#headers, ...request.headers },
      body: /** @type {any} */ (request.body),
      redirect: "manual",
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      signal,
    });
  }

  /**
   * One request, and its answer.
   * @param {Request} request
   * @param {{ timeout: number, signal?: AbortSignal, bytesMax?: number, background?: boolean, through?: (url: string, init: any) => Promise<Response> }} options
   * @returns {Promise<Answer>}
   */
  async call(request, { timeout, signal, bytesMax = ANSWER_BYTES_MAX, background, through }) {
    const within = new Within(timeout, signal, background);
    try {
      const response = await this.begin(request, within.signal, through);
      const body = await text(response, bytesMax);
      return new Answer(response.status, response.headers, body, this.shown);
    } catch (error) {
      throw this.lost(error, within.late);
    } finally {
      within.end();
    }
  }

  /**
   * What `fetch` has failed with, in words.
   * @param {unknown} error
   * @param {boolean} late
   */
  lost(error, late) {
    if (error instanceof HeadgateError) return error;
    if (late) return new HeadgateError("TIMEOUT", `no answer from ${this.shown} in time`, { retryable: true });
    return new HeadgateError("CONNECTION", `no answer from ${this.shown}: ${reason(error)}`, { retryable: true, cause: error });
  }
}

/** A time that a request has, and the caller's signal, as one signal. */
export class Within {
  #controller = new AbortController();
  #stop = () => {};
  #outer;
  #background;
  /** Whether the time was over. */
  late = false;

  /** @param {number} timeout @param {AbortSignal} [outer] @param {boolean} [background] */
  constructor(timeout, outer, background) {
    this.#outer = outer;
    this.#background = background;
    if (outer?.aborted) this.abort();
    else outer?.addEventListener("abort", this.abort, { once: true });
    this.extend(timeout);
  }

  get signal() {
    return this.#controller.signal;
  }

  /** From now on, so long. @param {number} timeout */
  extend(timeout) {
    this.#stop();
    this.#stop = after(timeout, () => {
      // Where the program was busy for longer, an answer may be there, and not be read yet.
      this.#stop = soon(() => {
        this.late = true;
        this.abort();
      });
    }, this.#background);
  }

  /** The clock stands still: whoever takes what came is busy. */
  rest() {
    this.#stop();
  }

  abort = () => this.#controller.abort();

  end() {
    this.#stop();
    this.#outer?.removeEventListener("abort", this.abort);
  }
}

/** @param {string} url */
function baseOf(url) {
  let parts;
  try {
    parts = new URL(url);
  } catch {
    throw new TypeError("the url must look like http://host:port or https://host");
  }
  if (!/^https?:$/.test(parts.protocol) || parts.search || parts.hash) throw new TypeError("the url must look like http://host:port or https://host");
  if (parts.username || parts.password) throw new TypeError("the url must hold no user and no password");
  return parts.origin + parts.pathname.replace(/\/+$/, "");
}

/**
 * The body as text; undefined if it is longer.
 * @param {Response} response
 * @param {number} bytesMax
 */
export async function text(response, bytesMax) {
  if (!response.body) return "";
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let whole = "";
  for (let bytes = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return whole + decoder.decode();
    bytes += value.length;
    if (bytes > bytesMax) {
      reader.cancel().catch(() => {});
      return undefined;
    }
    whole += decoder.decode(value, { stream: true });
  }
}

/** @param {any} error @returns {string} */
function reason(error) {
  const inner = error?.cause?.errors?.[0] ?? error?.cause;
  return inner?.message || inner?.code || error?.message || String(error);
}
