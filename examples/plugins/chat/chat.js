// Tells a chat of each item: `{"text": "Anna: 120"}`, of its fields `customer` and `total`. Waits as long as the chat asks.
import * as delivery from "headgate:sink/delivery@1.2.0";
import * as http from "headgate:sink/http@1.2.0";

const ALL = { start: 0, count: 0xffffffff };
const bytes = (text) => Uint8Array.from(unescape(encodeURIComponent(text)), (c) => c.charCodeAt(0));
let config;

export const sink = {
  describe() {
    return {
      name: "chat",
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
      tell(batch);
    } finally {
      batch[Symbol.dispose]();
    }
  },
};

function tell(batch) {
  const customers = batch.texts("customer", ALL);
  const totals = batch.texts("total", ALL);
  const rejected = [];
  customers.forEach((customer, index) => {
    const item = { start: index, count: 1 };
    // If a later one fails, this one is not told again.
    delivery.taken(index);
    delivery.carries(batch, item);
    const answer = post(JSON.stringify({ text: `${customer ?? "?"}: ${totals[index] ?? "?"}` }));
    if (answer.status >= 200 && answer.status < 300) return;
    const reason = `the chat answered ${answer.status}`;
    if (answer.status === 429 || answer.status >= 500) {
      const wait = answer.headers.find(([name]) => name === "retry-after");
      throw { tag: "retry", val: { reason, afterMs: wait ? Number(wait[1]) * 1000 || undefined : undefined } };
    }
    delivery.refused(item, reason);
    rejected.push({ index, reason });
  });
  if (rejected.length > 0) throw { tag: "reject-items", val: rejected };
}

function post(text) {
  const headers = [["content-type", "application/json"]];
  try {
    return http.send({ method: "POST", url: config.url, headers, body: bytes(text) });
  } catch (error) {
    throw { tag: "retry", val: { reason: `${error.payload ?? error}` } };
  }
}
