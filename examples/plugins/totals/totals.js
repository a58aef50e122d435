// Adds `amount` up for each key, and keeps the totals as items of a stream of its own, `totals`.
import { make } from "headgate:sink/batches@1.2.0";
import * as pool from "headgate:sink/pool@1.2.0";
import * as renderers from "headgate:sink/renderers@1.2.0";
import * as state from "headgate:sink/state@1.2.0";

const ALL = { start: 0, count: 0xffffffff };
const bytes = (text) => Uint8Array.from(text, (c) => c.charCodeAt(0));
const text = (bytes) => String.fromCharCode(...bytes);

export const sink = {
  describe() {
    return { name: "totals", version: "0.1.0", configSchema: "" };
  },

  open() {},

  write(batch) {
    try {
      add(batch);
    } finally {
      batch[Symbol.dispose]();
    }
  },
};

function add(batch) {
  const amounts = batch.numbers("amount", ALL);
  const rejected = [];
  let lines = "";
  batch.keys(ALL).forEach((key, index) => {
    if (Number.isNaN(amounts[index])) {
      rejected.push({ index, reason: "amount is not a number" });
      return;
    }
    // What `write` has set is read here, and stored when it returns: with the items, or not at all.
    const before = state.get(key);
    const total = (before ? Number(text(before)) : 0) + amounts[index];
    state.set(key, bytes(`${total}`));
    lines += `${JSON.stringify({ key, fields: { total } })}\n`;
  });
  const totals = make("totals", lines);
  pool.upsert(totals);
  renderers.publish(totals);
  totals[Symbol.dispose]();
  if (rejected.length > 0) throw { tag: "reject-items", val: rejected };
}
