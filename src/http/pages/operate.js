// The page /operate/{stream}?options#OPERATE_KEY: what a stream shows, and buttons that change that. `fields`, `where`,
// `sort`, `key`, `title` and the roles of the address mean what they mean for /render.
//
// Invariant: the key stays in the fragment, which browsers do not send, and goes out in the header of requests only. What
// is shown comes from the daemon: a press is not shown before the daemon has answered it.

import { connect } from "/headgate.js";
import { Acts, sentence } from "/operate-acts.js";
import { Card, counted, since, time } from "/operate-card.js";
import { List } from "/templates/list.js";
import { read } from "/templates/options.js";
import { guess } from "/templates/roles.js";
import { element, put } from "/templates/text.js";

const LOOK_MS = 2000; // a hold of somebody else tells nothing
const REFUSED_MS = 30000;
const TWICE_MS = 300; // two taps on one button within that are one
const CARDS_MAX = 100;
const LASTING = ["override", "add", "hold"]; // what can end by time
const STATES = { connecting: "Connecting", live: "Live", offline: "Offline", refused: "Refused" };

const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return text;
  }
};
const part = (id) => document.getElementById(id);
const root = document.documentElement;
const options = read(location.search);
const name = decoded(location.pathname.slice(location.pathname.indexOf("/operate/") + "/operate/".length));
const key = decoded(location.hash.slice(1));

class Desk {
  #acts = new Acts(name, key);
  #live = connect({ streams: [name], key, maxRate: 10, storage: false });
  #view = this.#live.stream(name);
  #list = new List(this.#view, options);
  #roles = {};
  #known = -1;
  #cards = new Map();
  #asked = new Set(); // cards whose detail is wanted
  #isAsking = false;
  #mine = []; // acts that were made here and not undone, as the button of undo names them
  #troubles = { reading: null, acting: null }; // {text}, {at, text, label, call}
  #drawn = ""; // which of them
  #acted = { held: null, held_keys: [], waiting: 0, overridden: {} };
  #seen = ""; // the same as JSON
  #version = 0; // of it
  #isRefused = false;
  #frame = 0;
  #timer = 0;
  #observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const card = this.#cards.get(target.dataset.key);
      if (card) card.seen = isIntersecting;
    }
    this.plan();
  });

  start() {
    for (const part of document.querySelectorAll("#stream, footer")) part.hidden = false;
    this.#live.addEventListener("state", this.plan);
    for (const type of ["stale", "fresh"]) this.#view.addEventListener(type, this.plan);
    this.#view.addEventListener("change", ({ detail }) => {
      this.#list.apply(detail);
      this.plan();
    });
    part("find").addEventListener("input", this.plan);
    addEventListener("online", this.#look);
    document.addEventListener("visibilitychange", this.#look);
    const whole = (id, label) => {
      part(id).addEventListener("click", () => this.press(part(id), { verb: id, body: "{}", label, what: part(id).textContent }));
    };
    whole("hold", "hold");
    whole("take", "take");
    whole("resume", "resume");
    whole("undo", "");
    this.plan();
    this.#look();
  }

  text = (key, field) => this.#view.text(key, field);

  plan = () => {
    this.#frame = this.#frame || requestAnimationFrame(this.#draw);
  };

  // ---- Acts

  // A button was pressed: `what` is the act in words, `label` what the button of undo calls it, `once` that of the call
  // that is repeated.
  async press(button, pressed, once) {
    const act = once ? pressed : { ...pressed, body: lasting(pressed) };
    button.setAttribute("aria-busy", "true");
    try {
      const done = await this.#acts.act(act.verb, act.body, once);
      this.#troubles.acting = null;
      if (act.verb === "undo") this.#mine.pop();
      else if (counts(done)) this.#mine.push(act.label);
      put(part("last"), `${time(Date.now())} ${outcome(act, done)}`);
    } catch (refusal) {
      this.#refuse(refusal, button, act);
    }
    button.removeAttribute("aria-busy");
    this.plan();
    this.#look();
  }

  #refuse(refusal, button, act) {
    const trouble = { at: performance.now(), text: sentence(refusal, act.what, name), label: "Close", call: () => {} };
    if (refusal.mayRepeat) Object.assign(trouble, { label: "Try again", call: () => this.press(button, act, refusal.once) });
    if (refusal.code === "UNDO_CONFLICT") {
      Object.assign(trouble, { label: "Leave it", call: () => this.press(button, { ...act, body: '{"skip":true}' }) });
    }
    if (refusal.code === "NOTHING_TO_UNDO") this.#mine.length = 0;
    this.#troubles.acting = trouble;
  }

  // ---- What operators do to the stream

  #look = async () => {
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (document.hidden) return;
    try {
      const acted = await this.#acts.stream();
      const seen = JSON.stringify(acted);
      if (seen !== this.#seen || acted.waiting) this.#version++;
      this.#acted = acted;
      this.#seen = seen;
      this.#troubles.reading = null;
      this.#isRefused = false;
    } catch (refusal) {
      this.#troubles.reading = { text: sentence(refusal, "", name) };
      this.#isRefused = refusal.isOfKey;
    }
    this.plan();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#look, this.#isRefused ? REFUSED_MS : LOOK_MS);
  };

  // Asks what overrides are made of, for cards that show it: one after the other.
  async #ask(card, stamp) {
    if (card.stamp === stamp) return;
    card.stamp = stamp;
    this.#asked.add(card);
    if (this.#isAsking) return;
    this.#isAsking = true;
    for (const card of this.#asked) {
      this.#asked.delete(card);
      card.detail = await this.#acts.item(card.element.dataset.key).catch(() => null);
      this.plan();
    }
    this.#isAsking = false;
  }

  // ---- Drawing

  #draw = () => {
    this.#frame = 0;
    if (this.#list.fields.length !== this.#known) {
      this.#known = this.#list.fields.length;
      this.#roles = guess(options.roles, this.#list.fields);
    }
    this.#drawState();
    this.#drawTroubles();
    this.#drawCards();
  };

  #drawState() {
    const { held, waiting } = this.#acted;
    const state = this.#isRefused ? "refused" : this.#live.state;
    root.dataset.state = state;
    root.toggleAttribute("data-held", Boolean(held));
    put(part("state"), [held && "Held", (!held || state !== "live") && STATES[state]].filter(Boolean).join(", "));
    const overridden = Object.keys(this.#acted.overridden).length;
    const changed = overridden ? `, ${overridden} with overrides` : "";
    const about = held
      ? `Held ${since(held)}. ${waiting ? `${counted(waiting, "change")} ${waiting === 1 ? "waits" : "wait"}.` : "No change waits."}`
      : this.#view.complete ? `${counted(this.#view.size, "item")}${changed}.` : "";
    put(part("about"), state === "live" && this.#view.stale && this.#view.complete ? `${about} The source sends nothing.` : about);
    part("hold").hidden = Boolean(held);
    part("take").hidden = part("resume").hidden = !held;
    const label = this.#mine.at(-1);
    put(part("undo"), label ? `Undo ${label}` : "Undo");
    for (const set of document.querySelectorAll("fieldset")) set.disabled = this.#isRefused;
  }

  #drawTroubles() {
    const { reading, acting } = this.#troubles;
    const told = [acting, reading].filter(Boolean);
    const place = part("trouble");
    // What is read anew says the same again; an act that failed is another one each time.
    const drawn = JSON.stringify([acting && acting.at, told.map(({ text }) => text)]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    place.replaceChildren();
    for (const { text, label, call } of told) {
      const line = element("p");
      put(line, text);
      place.append(line);
      if (!label) continue;
      const button = element("button");
      button.type = "button";
      put(button, label);
      button.addEventListener("click", () => {
        this.#troubles.acting = null;
        this.plan();
        call();
      });
      place.append(button);
    }
  }

  #drawCards() {
    const entries = this.#found();
    const shown = entries.slice(0, CARDS_MAX);
    const keys = new Set(shown.map(({ key }) => key));
    for (const [key, card] of this.#cards) {
      if (keys.has(key)) continue;
      this.#observer.unobserve(card.element);
      card.element.remove();
      this.#cards.delete(key);
    }
    const held = new Map(this.#acted.held_keys.map((hold) => [hold.key, hold]));
    let before = part("items").firstElementChild;
    for (const entry of shown) {
      const card = this.#card(entry.key);
      this.#drawCard(card, entry, held.get(entry.key));
      if (before.nextElementSibling !== card.element) before.after(card.element);
      before = card.element;
    }
    const more = entries.length - shown.length;
    const none = part("find").value ? "No item has this." : "There is no item.";
    put(part("more"), more > 0 ? `${counted(more, "more item")}: find one above.` : !entries.length && this.#view.complete ? none : "");
  }

  #card(key) {
    if (!this.#cards.has(key)) {
      const card = new Card(this, key);
      this.#cards.set(key, card);
      this.#observer.observe(card.element);
    }
    return this.#cards.get(key);
  }

  #drawCard(card, { key, item }, held) {
    const isFrozen = Boolean(held || this.#acted.held);
    const isNeeded = card.seen && (card.isOpen || held || (item.overridden || []).length);
    if (isNeeded) this.#ask(card, `${item.seq} ${this.#version}`);
    const text = (field) => (field ? this.#view.text(key, field) : "");
    card.draw({ item, roles: this.#roles, chosen: options.fields, held, isFrozen, text });
  }

  // The items that have what was typed, in the key or in a value.
  #found() {
    const wanted = part("find").value.trim().toLowerCase();
    if (!wanted) return this.#list.entries;
    const has = (value) => typeof value === "string" && value.toLowerCase().includes(wanted);
    return this.#list.entries.filter(({ key, item }) => has(key) || Object.values(item.fields).some(has));
  }
}

// The body of an act, with the time after which the override or hold ends.
function lasting({ verb, body }) {
  const until = part("until").value;
  if (!until || !LASTING.includes(verb)) return body;
  return `${body.slice(0, -1)}${body === "{}" ? "" : ","}"until":${until}}`;
}

// Whether an act changed something, so that it can be undone.
const counts = (done) => [done.changed, done.taken, done.released].every((count) => count !== 0);

// What an act did, in words.
function outcome({ verb, what }, done) {
  const not = !counts(done);
  if (verb === "add") return `${what}: ${done.value} is shown.`;
  if (verb === "override") return `${what} is shown.`;
  if (verb === "release") return not ? "Nothing was overridden." : `${what}: ${counted(done.released, "field")} released.`;
  if (verb === "hold") return not ? "It was held already." : `${what}: what is shown stays, changes wait.`;
  if (verb === "take") return not ? "No change waited." : `${counted(done.taken, "item")} shown as of now. The hold stays.`;
  if (verb === "resume") {
    const still = done.still_held && done.still_held.length ? ` Still held: ${done.still_held.join(", ")}.` : "";
    return (not ? "No hold was ended." : `${what}: what waited is shown.`) + still;
  }
  const covered = done.covered_by.length ? ` The value of ${done.covered_by.join(", ")} stays.` : "";
  const inexact = done.exact ? "" : " What changed since stays.";
  return `Undone: ${done.undone}.${covered}${inexact}`;
}

// ---- The page begins

document.title = `Operate ${options.title || name}`;
put(document.querySelector("h1"), options.title || name);
addEventListener("hashchange", () => location.reload());
if (/^ok_./.test(key)) new Desk().start();
else ask();

// Of two taps within a moment the second is none: a finger that trembles.
let tapped = { target: null, at: 0 };
addEventListener("click", onlyOnce, true);
function onlyOnce(event) {
  if (event.pointerType !== "touch") return;
  const isTwice = event.target === tapped.target && event.timeStamp - tapped.at < TWICE_MS;
  tapped = { target: event.target, at: event.timeStamp };
  if (isTwice) event.stopImmediatePropagation();
}

// There is no operate key in the address.
function ask() {
  root.dataset.state = "refused";
  put(part("state"), "No key");
  put(part("about"), key.startsWith("rk_") ? "This is a read key. It can only read." : "This page needs an operate key. It begins with ok_.");
  part("enter").hidden = false;
  part("enter").addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = encodeURIComponent(part("key").value.trim());
  });
}
