// Events are the same however their bytes arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Parser } from "../src/events.js";

test("events are the same however their bytes arrive", () => {
  const bytes = new TextEncoder().encode("\ufeff: c\r\nid: 1\rdata: a\r\ndata:b\n\ndata: ü😀\r\rid\ndata\n\nid: 9\ndata: cut");
  const whole = new Parser().feed(bytes);
  assert.deepEqual(whole, [{ data: "a\nb", id: "1" }, { data: "ü😀", id: "1" }, { data: "", id: "" }]);
  for (let size = 1; size < bytes.length; size++) {
    const parser = new Parser();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...parser.feed(bytes.subarray(at, at + size)));
    assert.deepEqual(found, whole, `${size}`);
  }
});
