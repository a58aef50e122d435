// Server-Sent Events out of bytes, however they are cut.
//
// An event that is not complete when the connection ends does not count, and neither does its id.

/** No message of Headgate's is so long; whatever says so is not Headgate. */
const EVENT_CHARS_MAX = 64 << 20;

/**
 * One event; `id` is the last one that was said.
 * @typedef {{ data: string, id: string | undefined }} Event
 */

/** Takes bytes, gives events. */
export class Parser {
  #decoder = new TextDecoder();
  /** The beginning of a line that has not ended. @type {string[]} */
  #part = [];
  /** @type {string[]} */
  #data = [];
  #size = 0;
  /** @type {string | undefined} */
  #id;
  #afterCr = false;

  /**
   * What is complete with these bytes.
   * @param {Uint8Array} bytes
   * @returns {Event[]}
   */
  feed(bytes) {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (!text) return [];
    if (this.#afterCr && text[0] === "\n") text = text.slice(1);
    this.#afterCr = text ? text.endsWith("\r") : false;
    this.#size += text.length;
    if (this.#size > EVENT_CHARS_MAX) throw new Error("an event is too long");
    const lines = text.split(/\r\n|\r|\n/);
    const rest = lines.pop();
    const events = [];
    for (const piece of lines) {
      const line = this.#part.join("") + piece;
      this.#part = [];
      if (line) {
        this.#line(line);
        continue;
      }
      this.#size = 0;
      if (this.#data.length) events.push({ data: this.#data.join("\n"), id: this.#id });
      this.#data = [];
    }
    if (rest) this.#part.push(rest);
    return events;
  }

  /** @param {string} line */
  #line(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }
}
