// Headgate's browser client: the items of streams, kept current over WebSocket or Server-Sent Events.
//
//   import { connect } from "http://127.0.0.1:8080/headgate.js";
//   const live = connect({ streams: ["orders"], key: "rk_live_…" });
//   const orders = live.stream("orders");
//   orders.addEventListener("change", (event) => draw(orders, event.detail));
//
// connect({ url, streams, key, ticket, transport, maxRate, storage, silence, screen, version })
//   url        where Headgate is; default: where this file came from
//   streams    names; absent: every stream of the key
//   key        read key, exchanged for a single-use ticket before every connection, never part of a URL
//   ticket     instead of `key`: async (streams) => ticket
//   transport  "auto" (WebSocket, else Server-Sent Events), "websocket" or "sse". WebSocket comes first because
//              a browser opens at most six EventSource connections to one host, over all its tabs.
//   maxRate    flushes a second
//   storage    false: keep nothing; default localStorage
//   silence    milliseconds without any message until a connection counts as dead; default 40000
//   screen     what this screen is called: operators then see what it shows, and can have it load its page again
//   version    of the page, for operators
//
// live.state    "connecting", "live", "offline" or "refused" (tried again too, slowly); live.reason says why;
//               event "state" when either changes
// live.id       the position that the next connection resumes from
// live.close()  ends it; the views keep their items
// "control"     event with detail {action} for a screen; on "reload" the page loads again unless it is prevented
//
// live.stream(name): the items {key, fields, updated_at, seq} in order, read like a Map
//   text(key, field)   the value as text: numbers as they were sent (10.50), arrays and objects as JSON, "" for nothing
//   complete   the whole content is known
//   stale      comes from storage, is cut off, or the source went quiet; events "stale" and "fresh"
//   "change"   event with detail {updated: [item…], removed: [key…], snapshot}
// What storage held is there at once. Items are read-only. Integers that a double cannot hold are strings.
//
// Invariant: the id and the items belong together, in memory and in storage, so resuming misses nothing.

const TYPES = ["snapshot", "update", "remove", "reset", "stale", "fresh", "heartbeat", "bye", "control"];
const OPENING_MS = 10000;
const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 30000;
const STORED_CHARS_MAX = 1 << 20;
const ASKING = { close() {} }; // stands for the connection while the ticket is being fetched
const MARK = "\ud800"; // alone it is part of no text that Headgate accepts
const sent = new WeakMap(); // item -> {field -> text}, of values that a double would write otherwise

export const connect = (options) => new Live(options);

class Stream extends EventTarget {
  #s;
  constructor(s) {
    super();
    this.#s = s;
  }
  get complete() { return this.#s.complete; }
  get stale() { return this.#s.late || !this.#s.synced; }
  get size() { return this.#s.items.size; }
  get(key) { return this.#s.items.get(key); }
  has(key) { return this.#s.items.has(key); }
  keys() { return this.#s.items.keys(); }
  values() { return this.#s.items.values(); }
  entries() { return this.#s.items.entries(); }
  [Symbol.iterator]() { return this.entries(); }
  text(key, field) {
    const item = this.#s.items.get(key);
    if (!item || !Object.prototype.hasOwnProperty.call(item.fields, field)) return "";
    const texts = sent.get(item);
    return texts && texts.has(field) ? texts.get(field) : written(item.fields[field]);
  }
  forEach(call, self) { for (const [key, item] of this) call.call(self, item, key, this); }
}

class Live extends EventTarget {
  #options; #url; #sse; #storage; #place; #saver; #timer; #watch;
  #streams = new Map();
  #id = null;
  #state = "connecting";
  #reason = "";
  #connection = null;
  #turn = 0; // whatever an earlier connection still says carries an older number
  #attempt = 0;
  #openedAt = 0;
  #heardAt = 0;
  #flowing = false; // a message came over this connection
  #savePause = 1000;

  constructor(options = {}) {
    super();
    if (!options.key && !options.ticket) throw new TypeError("connect() needs `key` or `ticket`");
    this.#options = options;
    this.#url = (options.url || new URL(import.meta.url).origin).replace(/\/+$/, "");
    this.#sse = options.transport === "sse";
    for (const name of options.streams || []) this.#of(name);
    if (options.storage !== false) this.#load();
    this.#listen(addEventListener);
    this.#watch = setInterval(this.#check, 1000);
    this.#dial();
  }

  get id() { return this.#id; }
  get state() { return this.#state; }
  get reason() { return this.#reason; }
  stream(name) { return this.#of(name).view; }

  close() {
    this.#save();
    clearInterval(this.#watch);
    this.#watch = 0;
    this.#listen(removeEventListener);
    this.#end("closed");
  }

  #of(name) {
    let s = this.#streams.get(name);
    if (!s) {
      // seen: keys of the snapshot that is arriving; late: the server said `stale`; synced: all there is has come
      s = { name, items: new Map(), seen: null, complete: false, late: false, synced: false, told: true };
      s.view = new Stream(s);
      this.#streams.set(name, s);
    }
    return s;
  }

  #listen(change) {
    change.call(self, "online", this.#wake);
    change.call(self, "pagehide", this.#save);
    if (self.document) change.call(document, "visibilitychange", this.#wake);
  }

  #become(state, reason = "") {
    if (state === this.#state && reason === this.#reason) return;
    this.#state = state;
    this.#reason = reason;
    this.dispatchEvent(new CustomEvent("state", { detail: { state, reason } }));
  }

  #tell(s, detail) {
    if (s.told === s.view.stale) return;
    s.told = s.view.stale;
    s.view.dispatchEvent(new CustomEvent(s.told ? "stale" : "fresh", { detail }));
  }

  // ---- Connection: #dial, then #hear for every message, then #end

  async #dial() {
    this.#drop();
    const turn = this.#turn;
    const { key, ticket, streams } = this.#options;
    this.#connection = ASKING;
    this.#openedAt = 0;
    this.#heardAt = performance.now();
    this.#flowing = false;
    try {
      const pass = await (ticket ? ticket(streams) : exchange(this.#url, key, streams));
      if (turn === this.#turn) this.#open(pass, turn);
    } catch (error) {
      if (turn === this.#turn) this.#end(error.message, error.refused);
    }
  }

  #open(ticket, turn) {
    const { streams, maxRate } = this.#options;
    const query = [];
    if (streams) query.push("streams=" + streams.map(encodeURIComponent).join(","));
    if (maxRate) query.push("max_rate=" + maxRate);
    query.push(...this.#described());
    if (resumable(this.#id)) query.push("since=" + this.#id);
    else for (const s of this.#streams.values()) s.complete = false;
    if (this.#sse) query.push("token=" + encodeURIComponent(ticket));
    const place = "/api/live?" + query.join("&");
    this.#heardAt = performance.now();
    const connection = (this.#connection = this.#sse
      ? new EventSource(this.#url + place)
      : new WebSocket(this.#url.replace(/^http/, "ws") + place, ["headgate", ticket]));
    const mine = (call) => (event) => turn === this.#turn && call(event);
    const hear = mine((event) => this.#hear(event.data));
    connection.onopen = mine(() => (this.#openedAt = this.#heardAt = performance.now()));
    if (this.#sse) for (const type of TYPES) connection.addEventListener(type, hear);
    else connection.onmessage = hear;
    // An EventSource must not reconnect by itself: its ticket is used up.
    connection[this.#sse ? "onerror" : "onclose"] = mine((event) => this.#end(event.reason || "connection lost"));
  }

  // What a screen says of itself. What stands behind the # of its address is for nobody.
  #described() {
    const { screen, version } = this.#options;
    if (!screen) return [];
    const { location, innerWidth, innerHeight } = self;
    const said = { screen, v: version, page: location && location.pathname + location.search };
    if (innerWidth) said.size = innerWidth + "x" + innerHeight;
    const short = ([name, value]) => name + "=" + encodeURIComponent(String(value).slice(0, name === "page" ? 500 : 64));
    return Object.entries(said).filter(([, value]) => value).map(short);
  }

  #drop() {
    this.#turn++;
    clearTimeout(this.#timer);
    if (this.#connection) this.#connection.close();
    this.#connection = null;
  }

  #end(reason, refused, pause) {
    const now = performance.now();
    const mute = this.#connection && this.#connection !== ASKING && !this.#flowing;
    if (pause !== undefined || (this.#flowing && now - this.#openedAt > 5000)) this.#attempt = 0;
    this.#drop();
    const turn = this.#turn;
    for (const s of this.#streams.values()) {
      // A snapshot that broke off counts for nothing, unless the position says that what was there still holds.
      if (s.seen) s.complete = resumable(this.#id);
      s.seen = null;
      s.synced = false;
      this.#tell(s);
    }
    if (!/^(websocket|sse)$/.test(this.#options.transport)) {
      this.#sse = mute && !this.#sse; // a WebSocket that stayed mute: Server-Sent Events at once
      if (this.#sse && this.#watch) return this.#dial();
    }
    this.#become(refused ? "refused" : "offline", reason);
    if (!this.#watch || turn !== this.#turn) return; // closed, or a listener did it
    const most = refused ? PAUSE_MS_MAX : Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** this.#attempt++);
    this.#timer = setTimeout(() => this.#dial(), pause ?? most * (0.5 + Math.random() / 2));
  }

  #check = () => {
    const limit = this.#openedAt ? this.#options.silence || 40000 : OPENING_MS;
    if (this.#connection && performance.now() - this.#heardAt > limit) this.#end("nothing heard");
  };

  // The network or the page is back: no pause any more, and no trust in a connection that may have slept.
  #wake = (event) => {
    if (event.type !== "online" && document.hidden) return;
    if (this.#connection && performance.now() - this.#heardAt > 20000) this.#end("nothing heard");
    if (!this.#connection) this.#dial();
  };

  // ---- Messages

  #hear(text) {
    this.#heardAt = performance.now();
    let message;
    try {
      message = parse(text);
    } catch (error) {
      return this.#end("unreadable message");
    }
    if (message.type === "bye") return this.#end("server stopped", false, Math.min(message.retry_ms || 0, 6e5));
    this.#flowing = true;
    if (message.type === "control") return this.#obey(message);
    if (TYPES.includes(message.type)) this.#apply(message);
    this.#become("live");
  }

  #obey(detail) {
    const event = new CustomEvent("control", { detail, cancelable: true });
    if (this.dispatchEvent(event) && detail.action === "reload" && self.document) {
      this.#save();
      location.reload();
    }
  }

  #apply(message) {
    const { type, stream, items = [], keys = [] } = message;
    const removed = [];
    const concerned = stream === undefined ? [...this.#streams.values()] : [this.#of(stream)];
    const s = concerned[0];
    if (type === "reset") {
      // The views go on showing what they have until the snapshots that follow replace it.
      for (const each of concerned) Object.assign(each, { complete: false, synced: false, seen: null });
    } else if (type === "heartbeat") {
      for (const each of concerned) each.synced = each.complete;
    } else if (type === "remove") {
      for (const key of keys) if (s.items.delete(key)) removed.push(key);
    } else {
      s.late = type === "stale";
    }
    if (type === "snapshot" && !s.seen) {
      s.seen = new Set();
      s.complete = false;
    }
    for (const item of items) {
      if (s.seen && !s.seen.has(item.key)) s.items.delete(item.key); // takes the order of the snapshot
      s.items.set(item.key, item);
      if (s.seen) s.seen.add(item.key);
    }
    if (message.complete) {
      for (const key of s.items.keys()) if (!s.seen.has(key)) removed.push(key);
      for (const key of removed) s.items.delete(key);
      s.seen = null;
      s.complete = s.synced = true;
    }
    this.#id = message.id;
    if (this.#storage) this.#saver = this.#saver || setTimeout(this.#save, this.#savePause);
    if (items.length || removed.length || message.complete) {
      const detail = { updated: items, removed, snapshot: type === "snapshot" };
      s.view.dispatchEvent(new CustomEvent("change", { detail }));
    }
    for (const each of concerned) this.#tell(each, message);
  }

  // ---- Storage: one record for the streams together, because one id belongs to them all

  #load() {
    const { key, streams } = this.#options;
    // Another key does not see the record. 32 bits of a hash say nothing about the key.
    this.#place = ["headgate", this.#url, hash(key || ""), streams ? streams.map(encodeURIComponent) : "*"].join(" ");
    try {
      this.#storage = localStorage;
      const { id, content } = JSON.parse(this.#storage.getItem(this.#place));
      if (!resumable(id)) return;
      const all = content.map(([name, items, texts]) => {
        for (const [place, pairs] of texts) restore(items[place], new Map(pairs));
        return [name, new Map(items.map((item) => [item.key, item]))];
      });
      for (const [name, items] of all) Object.assign(this.#of(name), { items, complete: true });
      this.#id = id;
    } catch (error) {
      // No storage, no record or not ours: the snapshot will do.
    }
  }

  #save = () => {
    clearTimeout(this.#saver);
    this.#saver = 0;
    const all = [...this.#streams.values()];
    if (!this.#storage || !resumable(this.#id) || all.some((s) => s.seen)) return;
    const content = all.filter((s) => s.complete).map((s) => {
      const items = [...s.items.values()];
      const texts = [];
      items.forEach((item, place) => sent.has(item) && texts.push([place, [...sent.get(item)]]));
      return [s.name, items, texts];
    });
    try {
      const text = JSON.stringify({ id: this.#id, content });
      this.#savePause = text.length > STORED_CHARS_MAX ? 30000 : 1000;
      if (text.length > STORED_CHARS_MAX) this.#storage.removeItem(this.#place);
      else this.#storage.setItem(this.#place, text);
    } catch (error) {
      this.#savePause = 30000; // full; the record that is there is still consistent
    }
  };
}

async function exchange(url, key, streams) {
  const answer = await fetch(url + "/api/tickets", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ streams }),
  });
  const { data, error } = await answer.json().catch(() => ({}));
  if (answer.ok && data) return data.ticket;
  const failure = new Error((error && error.message) || "HTTP " + answer.status);
  failure.refused = answer.status >= 400 && answer.status < 500 && answer.status !== 429;
  throw failure;
}

// Position 0 stands for snapshots that are not complete yet.
const resumable = (id) => /^\d+:[1-9]\d*$/.test(id);

// JSON.parse that keeps the text of numbers which a double would write otherwise, for `text`; integers that it cannot
// hold become strings. Such numbers are marked before and found again after; a message without any pays nothing.
const INEXACT = /[:,[]-?(?:[\d.]{16}|\d+\.\d*0(?!\d)|[\d.]+[eE]|0\.0{6})|[:,[]-0[,}\]]/;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

function parse(text) {
  if (!INEXACT.test(text)) return JSON.parse(text);
  const mark = (part) => (part[0] === '"' || String(+part) === part ? part : `"${MARK}${part}"`);
  const message = JSON.parse(text.replace(TOKEN, mark));
  for (const item of message.items || []) keepTexts(item);
  return message;
}

function keepTexts(item) {
  const { fields } = item;
  let texts;
  for (const field of Object.keys(fields)) {
    const value = fields[field];
    if (typeof value === "string" ? value[0] !== MARK : !value || typeof value !== "object") continue;
    const text = written(value).replace(/"(?:\\ud800|\ud800)([^"]*)"/g, "$1");
    fields[field] = unmarked(value);
    if (text === written(fields[field])) continue;
    texts = texts || new Map();
    texts.set(field, typeof value === "string" ? value.slice(1) : text);
  }
  if (texts) sent.set(item, texts);
}

// A record has no infinity and no -0.
function restore(item, texts) {
  for (const [field, text] of texts) {
    const value = item.fields[field];
    if (value === null || typeof value === "number") item.fields[field] = number(text);
  }
  sent.set(item, texts);
}

// A loop of its own: what came may be nested deeper than calls may be.
function unmarked(value) {
  const root = [value];
  for (const waiting = [root]; waiting.length; ) {
    const within = waiting.pop();
    for (const name of Object.keys(within)) {
      const part = within[name];
      if (typeof part === "string" && part[0] === MARK) within[name] = number(part.slice(1));
      else if (part && typeof part === "object") waiting.push(part);
    }
  }
  return root[0];
}

const number = (text) => (/^-?\d{16,}$/.test(text) && !Number.isSafeInteger(+text) ? text : +text);

function written(value) {
  if (typeof value === "string") return value;
  try {
    return value === null || value === undefined ? "" : JSON.stringify(value);
  } catch (error) {
    return ""; // nested too deep
  }
}

function hash(text) {
  let sum = 2166136261;
  for (const char of text) sum = Math.imul(sum ^ char.codePointAt(0), 16777619);
  return (sum >>> 0).toString(36);
}
