// Requests of a batcher in Node: unlike those of its `fetch`, they keep no program alive that has ended.

import { Agent as PlainAgent, request as plain } from "node:http";
import { Agent as TlsAgent, request as tls } from "node:https";
import { uptime } from "node:os";
import { Readable } from "node:stream";

const plainAgent = new PlainAgent({ keepAlive: true });
const tlsAgent = new TlsAgent({ keepAlive: true });
/** Milliseconds that the machine has lived: they go on while it sleeps. */
export const lived = () => uptime() * 1000;

/** Statuses of answers that have no body. */
const EMPTY = [204, 205, 304];

/**
 * As much of `fetch` as a batcher needs. A redirect is an answer like others. A kept connection that turns out to be closed
 * is replaced at once.
 * @param {string} url
 * @param {Init} init
 * @returns {Promise<Response>}
 */
async function send(url, init) {
  try {
    return await once(url, init);
  } catch (/** @type {any} */ error) {
    if (!error.reused || init.signal.aborted) throw error;
    return once(url, init);
  }
}

/**
 * @typedef {object} Init
 * @property {string} method
 * @property {Record<string, string>} headers
 * @property {Uint8Array} [body]
 * @property {AbortSignal} signal
 * @property {() => Promise<unknown>} [leaving] called when it is connected, before the first byte leaves
 */

/** @param {string} url @param {Init} init @returns {Promise<Response>} */
function once(url, { method, headers, body, signal, leaving }) {
  const secure = url.startsWith("https:");
  const length = { "content-length": `${body?.length ?? 0}` };
  return new Promise((resolve, reject) => {
    const options = { method, headers: { ...headers, ...length }, signal, agent: secure ? tlsAgent : plainAgent };
    const request = (secure ? tls : plain)(url, options);
    const leave = () => Promise.resolve(leaving?.()).then(() => request.end(body), reject);
    request.on("socket", (socket) => {
      socket.unref();
      if (socket.connecting) socket.once(secure ? "secureConnect" : "connect", leave);
      else leave();
    });
    request.on("error", (error) => reject(Object.assign(error, { reused: request.reusedSocket })));
    request.on("response", (response) => {
      try {
        resolve(answer(response));
      } catch (error) {
        response.destroy();
        reject(error);
      }
    });
  });
}

/** @param {import("node:http").IncomingMessage} response */
function answer(response) {
  const { socket } = response;
  const headers = new Headers();
  for (let at = 0; at < response.rawHeaders.length; at += 2) headers.append(response.rawHeaders[at], response.rawHeaders[at + 1]);
  const status = Number(response.statusCode);
  const empty = EMPTY.includes(status);
  if (empty) response.resume();
  const made = new Response(empty ? null : /** @type {any} */ (Readable.toWeb(response)), { status, headers });
  return Object.assign(made, { discard: () => socket.destroy() });
}

/** @type {typeof send | undefined} */
export const background = send;
