// What goes into requests, and what is read from answers.

/**
 * What Headgate has taken: it is on disk.
 * @typedef {object} Receipt
 * @property {string} stream
 * @property {number} itemsReceived
 * @property {string} requestId
 * @property {boolean} replayed it had been taken before, and was not processed again
 */

/**
 * What became of a request.
 * @typedef {object} RequestState
 * @property {string} requestId
 * @property {string} status `accepted` until every sink has it; then `processed`, `failed`, `stale`, …
 * @property {string[]} errors
 * @property {Record<string, any>[]} sinks
 * @property {string} [stream]
 * @property {number} [itemsReceived]
 * @property {string} [processedAt]
 */

/**
 * An item of the data pool, as Headgate writes it.
 * @typedef {object} Item
 * @property {string} key
 * @property {Record<string, any>} fields
 * @property {string} updated_at
 * @property {number} seq
 */

/** @typedef {import("./verdict.js").Answer} Answer */

/**
 * The headers of a request that submits.
 * @param {string | undefined} itemKey
 * @param {string} idempotencyKey
 * @returns {Record<string, string>}
 */
export function submission(itemKey, idempotencyKey) {
  if (typeof idempotencyKey !== "string" || !/^[!-~]{1,255}$/.test(idempotencyKey)) throw new TypeError("an idempotency key must have 1 to 255 visible ASCII characters");
  /** @type {Record<string, string>} */
  const headers = { "content-type": "application/json", "idempotency-key": idempotencyKey };
  if (itemKey !== undefined) {
    if (typeof itemKey !== "string" || !itemKey.trim() || /[\p{Cc}\p{Cs}]/u.test(itemKey)) throw new TypeError("itemKey must be the name of a field, without control characters");
    // A header is made of bytes: those of UTF-8.
    headers["x-item-key"] = String.fromCharCode(...new TextEncoder().encode(itemKey));
  }
  return headers;
}

/** Where items go; another stream of the key than this one is refused. @param {string | undefined} stream */
export const ingestPath = (stream) => (stream === undefined ? "/api/ingest" : `/api/ingest?stream=${encodeURIComponent(stream)}`);

/**
 * What an answer says of a request.
 * @param {Answer} answer
 * @param {string} requestId
 * @returns {RequestState}
 */
export function requestState(answer, requestId) {
  const data = answer.own()?.data;
  if (answer.status !== 200 || !isObject(data) || typeof data.status !== "string") throw answer.error(Date.now());
  return {
    requestId: typeof data.request_id === "string" ? data.request_id : requestId,
    status: data.status,
    errors: Array.isArray(data.errors) ? data.errors : [],
    sinks: Array.isArray(data.sinks) ? data.sinks : [],
    stream: data.stream ?? undefined,
    itemsReceived: data.items_received ?? undefined,
    processedAt: data.processed_at ?? undefined,
  };
}

/**
 * Whether it is an item.
 * @param {any} value
 * @returns {value is Item}
 */
export function isItem(value) {
  return isObject(value) && typeof value.key === "string" && isObject(value.fields) && Number.isInteger(value.seq);
}

/** @param {unknown} value @returns {value is Record<string, any>} */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * A name as one part of a path.
 * @param {string} name
 */
export function segment(name) {
  if (typeof name !== "string" || name === "." || name === ".." || /\p{Cs}/u.test(name)) {
    throw new TypeError('a name is text; "." and ".." cannot be part of an address here, for fetch takes them away');
  }
  return encodeURIComponent(name);
}
