// Writes a batch in InfluxDB's line protocol, with one request: `orders,key=a value=12.50 1700000000000`.
import * as http from "headgate:sink/http@1.2.0";

const ALL = { start: 0, count: 0xffffffff };
const bytes = (text) => Uint8Array.from(unescape(encodeURIComponent(text)), (c) => c.charCodeAt(0));
let config;

export const sink = {
  describe() {
    return {
      name: "lines",
      version: "0.1.0",
      configSchema: JSON.stringify({
        type: "object",
        properties: { url: { type: "string" } },
        required: ["url"],
        additionalProperties: false,
      }),
    };
  },

  open(text) {
    config = JSON.parse(text);
  },

  write(batch) {
    try {
      send(batch);
    } finally {
      batch[Symbol.dispose]();
    }
  },
};

// What stands between commas and spaces.
const escaped = (text) => text.replace(/[,= ]/g, "\\$&");

function send(batch) {
  const [streams, keys, times] = [batch.streams(ALL), batch.keys(ALL), batch.times(ALL)];
  // Digits as they were sent, and whether they are a number.
  const [values, numbers] = [batch.texts("value", ALL), batch.numbers("value", ALL)];
  let lines = "";
  const rejected = [];
  values.forEach((value, index) => {
    if (Number.isNaN(numbers[index])) rejected.push({ index, reason: "value is not a number" });
    else lines += `${escaped(streams[index])},key=${escaped(keys[index])} value=${value} ${times[index]}\n`;
  });
  if (lines !== "") {
    const { status } = post(lines);
    const reason = `the database answered ${status}`;
    if (status === 429 || status >= 500) throw { tag: "retry", val: { reason } };
    if (status >= 300) throw { tag: "reject", val: reason };
  }
  if (rejected.length > 0) throw { tag: "reject-items", val: rejected };
}

function post(text) {
  const headers = [["content-type", "text/plain; charset=utf-8"]];
  try {
    return http.send({ method: "POST", url: config.url, headers, body: bytes(text) });
  } catch (error) {
    throw { tag: "retry", val: { reason: `${error.payload ?? error}` } };
  }
}
