// One request and its answer over `fetch`, or what stands for it, with a deadline and cancellation.
//
// The key goes into `Authorization` and nowhere else; redirects are answers like others.

import { HeadgateError } from "./errors.js";
import { after, soon } from "./time.js";
import { Answer } from "./verdict.js";

export const VERSION = "0.1.0";
/** Of an answer no more is read. */
export const ANSWER_BYTES_MAX = 1 << 20;
export const PAGE_BYTES_MAX = 64 << 20;

/**
 * Sends as `fetch` does, and calls `leaving` when it is connected.
 * @typedef {(url: string, init: any) => Promise<Response>} Through
 */

/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {Record<string, string>} [headers]
 * @property {Uint8Array} [body]
 */

/** What `fetch` fails with before a byte of a request has left. */
const NOT_LEFT = /^(ECONNREFUSED|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ENOENT|EACCES|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_\w+|ERR_SSL_\w+|CERT_\w+|UNABLE_TO_\w+|SELF_SIGNED_\w+|DEPTH_ZERO_\w+)$/;

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
    if (userAgent !== undefined && !/^[ -~]+$/.test(userAgent)) throw new TypeError("userAgent must be visible ASCII text");
    this.#base = baseOf(url);
    /** The address, as errors show it. */
    this.shown = this.#base;
    this.#own = own;
    this.#headers = {};
    /** How often the key was changed. */
    this.changes = 0;
    this.setKey(key);
    // A browser has a name of its own, and would ask the server whether it may be changed.
    if (typeof process !== "undefined" || "Deno" in globalThis) {
      this.#headers["user-agent"] = `headgate-node/${VERSION}${userAgent ? ` ${userAgent}` : ""}`;
    }
  }

  /** Requests have this key from now on. @param {string} key */
  setKey(key) {
    if (!/^[!-~]+$/.test(key)) throw new TypeError("a key must consist of visible ASCII characters");
    this.#headers = { ...this.#headers, authorization: `Bearer ${key}` };
    this.changes++;
  }

  /**
   * Sends a request; the head of its answer.
   * @param {Request} request
   * @param {AbortSignal} signal
   * @param {Through} [through] instead of `fetch`, if the program has none of its own
   * @param {() => Promise<unknown>} [leaving] called before the first byte leaves
   * @returns {Promise<Response>}
   */
  async begin(request, signal, through, leaving) {
    const own = this.#own ?? through ?? globalThis.fetch;
    const knows = own === through;
    if (!knows) await leaving?.();
    return own(this.#base + request.path, {
      ...(knows ? { leaving } : {}),
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
   * @param {object} options
   * @param {number} options.timeout
   * @param {AbortSignal} [options.signal]
   * @param {number} [options.bytesMax]
   * @param {boolean} [options.background]
   * @param {Through} [options.through]
   * @param {() => unknown} [options.leaving] called before the first byte leaves
   * @returns {Promise<Answer>}
   */
  async call(request, { timeout, signal, bytesMax = ANSWER_BYTES_MAX, background, through, leaving }) {
    const within = new Within(timeout, signal, background);
    let left = false;
    const leaves = async () => {
      left = true;
      await leaving?.();
    };
    try {
      const response = await this.begin(request, within.signal, through, leaves);
      const body = await text(response, bytesMax);
      if (body === undefined) {
        throw Object.assign(new HeadgateError("UNEXPECTED_ANSWER", `the response from ${this.shown} is longer than ${bytesMax} bytes`, { status: response.status, retryable: true }), { unknown: true });
      }
      const answer = new Answer(response.status, response.headers, body, this.shown);
      if (!answer.own()) discard(response);
      return answer;
    } catch (error) {
      const known = this.lost(error, within.late);
      known.unknown ||= left && !NOT_LEFT.test(codeOf(error));
      throw known;
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
    if (late) return new HeadgateError("TIMEOUT", `no response from ${this.shown} in time`, { retryable: true });
    return new HeadgateError("CONNECTION", `no response from ${this.shown}: ${reason(error)}`, { retryable: true, cause: error });
  }
}

/** Where that can be said, a connection that gave an answer that is not Headgate's is not used again. @param {any} response */
function discard(response) {
  response.discard?.();
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
    throw new TypeError("the URL must be http://host:port or https://host");
  }
  if (!/^https?:$/.test(parts.protocol) || parts.search || parts.hash) throw new TypeError("the URL must be http://host:port or https://host");
  if (parts.username || parts.password) throw new TypeError("the URL must not have a user or a password; pass the key separately");
  return parts.origin + parts.pathname.replace(/\/+$/, "");
}

/**
 * The body as text; undefined if it is longer.
 * @param {Response} response
 * @param {number} bytesMax
 */
export async function text(response, bytesMax) {
  if (!response.body) return "";
  // A byte order mark stays: what begins with one is no JSON.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
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

/** @param {any} error @returns {any} */
const innermost = (error) => error?.cause?.errors?.[0] ?? error?.errors?.[0] ?? error?.cause;

/** @param {any} error @returns {string} */
const codeOf = (error) => innermost(error)?.code ?? error?.code ?? "";

/** @param {any} error @returns {string} */
function reason(error) {
  const inner = innermost(error);
  return inner?.message || inner?.code || error?.message || String(error);
}
