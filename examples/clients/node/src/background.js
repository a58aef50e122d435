// Requests of a batcher in Node: unlike those of its `fetch`, they keep no program alive that has ended.

import { Agent as PlainAgent, request as plain } from "node:http";
import { Agent as TlsAgent, request as tls } from "node:https";
import { Readable } from "node:stream";

const plainAgent = new PlainAgent({ keepAlive: true });
const tlsAgent = new TlsAgent({ keepAlive: true });
/** Statuses of answers that have no body. */
const EMPTY = [204, 205, 304];

/**
 * As much of `fetch` as a batcher needs. A redirect is an answer like others.
 * @param {string} url
 * @param {{ method: string, headers: Record<string, string>, body?: Uint8Array, signal: AbortSignal }} request
 * @returns {Promise<Response>}
 */
function send(url, { method, headers, body, signal }) {
  const secure = url.startsWith("https:");
  const length = { "content-length": `${body?.length ?? 0}` };
  return new Promise((resolve, reject) => {
    const options = { method, headers: { ...headers, ...length }, signal, agent: secure ? tlsAgent : plainAgent };
    const request = (secure ? tls : plain)(url, options);
    request.on("socket", (socket) => socket.unref());
    request.on("error", reject);
    request.on("response", (response) => {
      try {
        resolve(answer(response));
      } catch (error) {
        response.destroy();
        reject(error);
      }
    });
    request.end(body);
  });
}

/** @param {import("node:http").IncomingMessage} response */
function answer(response) {
  const headers = new Headers();
  for (let at = 0; at < response.rawHeaders.length; at += 2) headers.append(response.rawHeaders[at], response.rawHeaders[at + 1]);
  const status = Number(response.statusCode);
  const empty = EMPTY.includes(status);
  if (empty) response.resume();
  return new Response(empty ? null : /** @type {any} */ (Readable.toWeb(response)), { status, headers });
}

/** @type {typeof send | undefined} */
export const background = send;
