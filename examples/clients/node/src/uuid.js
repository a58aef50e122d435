// Random UUIDs, and ones that grow.

let last = 0;
let count = 0;

/**
 * A UUIDv7; those of one process grow, also within a millisecond and when the clock goes back.
 * @param {number} [now] by the wall clock
 * @returns {string}
 */
export function uuid7(now = Date.now()) {
  if (now > last) [last, count] = [Math.floor(now), 0];
  else if (count < 0xfff) count++;
  else [last, count] = [last + 1, 0];
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  bytes[0] = (bytes[0] & 0x3f) | 0x80;
  const time = last.toString(16).padStart(12, "0");
  const end = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${count.toString(16).padStart(3, "0")}-${end.slice(0, 4)}-${end.slice(4)}`;
}

/**
 * After a UUIDv7 of an earlier life, later ones are greater.
 * @param {string} text
 */
export function saw(text) {
  const time = Number.parseInt(text.slice(0, 8) + text.slice(9, 13), 16);
  if (time >= last) [last, count] = [time, 0xfff];
}

/** A random UUID, also where there is no `crypto.randomUUID` (pages that came without TLS). */
export function uuid4() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-${text.slice(16, 20)}-${text.slice(20)}`;
}
