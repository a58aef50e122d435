// The acts of the page /operate/{stream}: calls of the operate API, and what their answers mean for who acts.
//
// Invariant: the key is sent in a header only. Acts are sent one after the other, in the order of the presses, and one
// that may have arrived already is repeated under the same `Idempotency-Key`, so that it is not made twice.

const TIMEOUT_MS = 10000;

// An answer that is no success, or none at all: `code` is that of the error, "" without an answer.
export class Refusal extends Error {
  constructor(status, { code = "", message = "" } = {}) {
    super(message);
    this.status = status;
    this.code = code;
  }
  // The key is refused, whatever it would do.
  get isOfKey() {
    return this.status === 401 || this.code === "FORBIDDEN" || this.code === "STREAM_NOT_FOUND";
  }
  // Nobody knows whether it was done, or it may be done later.
  get mayRepeat() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export class Acts {
  #place;
  #key;
  #queue = Promise.resolve();

  constructor(stream, key) {
    this.#place = "/api/operate/" + encodeURIComponent(stream);
    this.#key = key;
  }

  stream = () => this.#call("GET", "");
  item = (key) => this.#call("GET", "/items/" + encodeURIComponent(key));

  // Makes an act when those before it are answered. `body` is JSON; `once` is that of the call that is repeated.
  act(verb, body, once = unique()) {
    const made = this.#queue.then(() => this.#call("POST", "/" + verb, body, once));
    this.#queue = made.catch(() => {});
    return made.catch((refusal) => {
      refusal.once = once;
      throw refusal;
    });
  }

  async #call(method, path, body, once) {
    const headers = { Authorization: "Bearer " + this.#key };
    if (body !== undefined) Object.assign(headers, { "Content-Type": "application/json", "Idempotency-Key": once });
    const ending = new AbortController();
    const timer = setTimeout(() => ending.abort(), TIMEOUT_MS);
    let answer;
    let content;
    try {
      answer = await fetch(this.#place + path, { method, headers, body, cache: "no-store", signal: ending.signal });
      content = JSON.parse(await answer.text(), exact);
    } catch (error) {
      throw new Refusal(answer && !answer.ok ? answer.status : 0);
    } finally {
      clearTimeout(timer);
    }
    if (!answer.ok) throw new Refusal(answer.status, content.error);
    return content.data;
  }
}

// Numbers that a double would write otherwise stay the texts that they are, in browsers that tell them.
const exact = (name, value, context) =>
  typeof value === "number" && context && String(value) !== context.source ? context.source : value;

// Not `crypto.randomUUID`, which pages that came over plain HTTP do not have.
function unique() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "page-" + [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// What a refusal means, in sentences. `what` is the act, as its button names it; "" if something was only read.
export function sentence(refusal, what, stream) {
  const text = reason(refusal, what, stream);
  return text[0].toUpperCase() + text.slice(1);
}

function reason(refusal, what, stream) {
  const { status, code, message } = refusal;
  const act = what ? `“${what}” was not done: ` : "";
  if (status === 0) {
    const about = what ? `Nobody knows whether “${what}” was done. “Try again” does it once at most.` : "What you see may be old.";
    return `Headgate does not answer. ${about}`;
  }
  if (status === 401) {
    return `${act}this key is refused. It is unknown, expired or revoked. Ask for a valid operate key, and open this page with it.`;
  }
  if (code === "STREAM_NOT_FOUND") {
    return `${act}this key does not act in the stream “${stream}”, or there is no such stream. Check the address, or use a key of this stream.`;
  }
  if (code === "FORBIDDEN") {
    return `${act}this key can only read, or not from here. Use an operate key; it begins with ok_.`;
  }
  if (code === "ITEM_NOT_FOUND") return `${act}the item is not shown any more. It was removed, or its override ended.`;
  if (code === "FIELD_NOT_FOUND") return `${act}the item does not have this field any more.`;
  if (code === "UNDO_CONFLICT") return `${act}${message.replace(/; give "skip".*$/, "")}. “Leave it” takes it off your list and changes nothing.`;
  if (code === "NOTHING_TO_UNDO") return "There is nothing left to undo.";
  return `${act}${message || "the answer was HTTP " + status}.`;
}
