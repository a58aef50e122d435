// What goes out and comes in as JSON is exact, and what cannot be is an error that names the place.

import assert from "node:assert/strict";
import { test } from "node:test";
import { HeadgateError, RawJson, parse, stringify } from "@headgate/client";
import { keyOf } from "../src/encode.js";

/** @param {() => unknown} call @param {string} has */
function fails(call, has) {
  assert.throws(call, (error) => error instanceof HeadgateError && error.code === "INVALID_PAYLOAD" && error.message.includes(has), `no error with ${has}`);
}

test("values go out as they are", () => {
  const cases = [
    [{ a: 2n ** 64n, b: -1n, c: 1.5, d: -0, e: 1e21, f: true, g: null }, '{"a":18446744073709551616,"b":-1,"c":1.5,"d":0,"e":1e+21,"f":true,"g":null}'],
    [{ price: new RawJson("1.10"), whole: new RawJson('{"a b" : [1.0 , "x  y\\n"]}') }, '{"price":1.10,"whole":{"a b":[1.0,"x  y\\n"]}}'],
    [{ at: new Date(Date.UTC(2026, 2, 1, 10, 30)) }, '{"at":"2026-03-01T10:30:00.000Z"}'],
    [new Map(/** @type {any} */ ([["a", 1], [7, [2n]]])), '{"a":1,"7":[2]}'],
    [{ there: 1, not: undefined }, '{"there":1}'],
    [{ it: { toJSON: (/** @type {string} */ name) => `is ${name}` } }, '{"it":"is it"}'],
    [{ late: { toJSON: () => new Date(0) } }, '{"late":"1970-01-01T00:00:00.000Z"}'],
    [{ text: 'ü"\\\n\u2028😀\u0001' }, JSON.stringify({ text: 'ü"\\\n\u2028😀\u0001' })],
    [Object.create(null, { a: { value: 1, enumerable: true } }), '{"a":1}'],
    [Object(7), "7"],
  ];
  for (const [value, text] of cases) assert.equal(stringify(value), text);
});

test("the runtime's own raw JSON is known, where it has that", { skip: !("rawJSON" in JSON) }, () => {
  const raw = /** @type {any} */ (JSON).rawJSON("1.10");
  assert.equal(stringify({ raw }), '{"raw":1.10}');
  assert.equal(JSON.stringify({ raw: new RawJson("1.10") }), '{"raw":1.10}');
});

test("what JSON cannot hold is named", () => {
  /** @type {any} */
  const itself = {};
  itself.inner = itself;
  fails(() => stringify({ a: { b: [1, Number.NaN] } }), "a.b[1] is NaN");
  fails(() => stringify({ list: [{ temp: -Infinity }] }), "list[0].temp is -Infinity");
  fails(() => stringify({ note: ["ok", "a\ud800"] }), "note[1]");
  fails(() => stringify({ "a\udc00": 1 }), "half of a surrogate pair");
  fails(() => stringify({ at: new Date(Number.NaN) }), "at is an invalid date");
  for (const value of [new Set([1]), new Uint8Array(2), /x/, Promise.resolve(), new Error("x"), () => 1, Symbol("s")]) fails(() => stringify({ it: value }), "it is");
  fails(() => stringify([undefined]), "[0] is undefined");
  fails(() => stringify(itself), "contains itself");
  fails(() => new RawJson("{1}"), "not JSON");
  fails(() => new RawJson('{"a":"\\ud800"}'), "half of a surrogate pair");
  fails(() => new RawJson('"\ud800"'), "half of a surrogate pair");
});

test("what comes in keeps its digits", () => {
  const text = '{"big":18446744073709551616,"id":9007199254740993,"safe":9007199254740991,"price":1.10,"zero":-0,"huge":1E+400}';
  const { big, id, safe, price } = parse(text);
  assert.deepEqual([big, id, safe, price], [18446744073709551616n, 9007199254740993n, 9007199254740991, 1.1]);
  assert.equal(stringify(parse(text, { exact: true })), text);
  assert.equal(parse('{"price":1.5}', { exact: true }).price, 1.5);
  assert.equal(String(parse(text, { exact: true }).price), "1.10");
});

test("strings are never taken for numbers, whatever they hold", () => {
  for (const inner of ["\ue000\ue0f8123", "\ue000", "\ue000\ue0f8\ue000\ue0f81.10", "1.10", '\\"1.10', "12345678901234567890", "\\\\"]) {
    const value = { [inner]: [inner, 12345678901234567890n, { inner }] };
    for (const exact of [true, false]) {
      assert.deepEqual(parse(stringify(value), { exact }), value);
      assert.deepEqual(parse(stringify(value).replace("\ue000", "\\ue000"), { exact }), value);
    }
  }
  assert.equal(parse(`["${"a\\n".repeat(3_000_000)}",12345678901234567890]`)[1], 12345678901234567890n);
});

test("what is no JSON is no JSON, long numbers or not", () => {
  for (const text of ["01234567890123456789", "-", "1.12345678901234567e", "12345678901234567 12345678901234567", '"open 12345678901234567', '{"a":12345678901234567,}', "--12345678901234567"]) {
    for (const exact of [true, false]) assert.throws(() => parse(text, { exact }), SyntaxError, text);
  }
});

test("random values come back as they went", () => {
  let seed = 7;
  const random = (/** @type {number} */ below) => (seed = (seed * 48271) % 2147483647) % below;
  const texts = ["1.10", "-0", "1e5", "0.1", "12345678901234567890", "-7", "1E-7", "5.0"];
  /** @type {(depth: number) => any} */
  const make = (depth) => {
    const kind = random(depth > 4 ? 4 : 6);
    if (kind === 0) return new RawJson(texts[random(texts.length)]);
    if (kind === 1) return String.fromCodePoint(...Array.from({ length: random(6) }, () => [34, 92, 10, 0xe000, 0xe0f8, 49, 0x1f600][random(7)]));
    if (kind === 2) return [true, false, null][random(3)];
    if (kind === 3) return random(1000) - 500;
    if (kind === 4) return Array.from({ length: random(4) }, () => make(depth + 1));
    return Object.fromEntries(Array.from({ length: random(4) }, (_, index) => [`k${index}${make(9)}`, make(depth + 1)]));
  };
  for (let round = 0; round < 2000; round++) {
    const text = stringify([make(0)]);
    assert.equal(stringify(parse(text, { exact: true })), text);
    assert.equal(stringify(new RawJson(text)), text);
  }
});

test("the item key is found as Headgate finds it", () => {
  assert.equal(keyOf({ id: 7 }, "id"), "7");
  assert.equal(keyOf({ id: 2n ** 64n }, "id"), "18446744073709551616");
  assert.equal(keyOf({ id: new RawJson("1.10") }, "id"), "1.10");
  assert.equal(keyOf({ id: new RawJson('"\\u00fc"') }, "id"), "ü");
  assert.equal(keyOf({ a: { "b.c": { d: true } } }, "a.b.c.d"), "true");
  assert.equal(keyOf({ "a.b": { c: "x" } }, "a.b.c"), "x");
  assert.equal(keyOf(new Map([["a", new Map([["b", 1]])]]), "a.b"), "1");
  assert.equal(keyOf(new RawJson('{"a":{"b":9007199254740993}}'), "a.b"), "9007199254740993");
  assert.equal(keyOf({ at: new Date(0) }, "at"), "1970-01-01T00:00:00.000Z");
  fails(() => keyOf({ a: { b: 1 }, "a.b": 2 }, "a.b"), "twice");
  for (const id of [undefined, null, "", [7], {}, "x".repeat(513)]) fails(() => keyOf({ id }, "id"), '"id"');
  fails(() => keyOf({}, "toString"), "toString");
});
