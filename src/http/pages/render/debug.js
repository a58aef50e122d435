// What `debug` adds: how the page is connected, what of its address was ignored, and what it guessed.

import { element, put } from "/templates/text.js";

export class Debug {
  #options;
  #name;
  #box = element("aside", "debug");

  constructor(options, name) {
    this.#options = options;
    this.#name = name;
    document.body.append(this.#box);
  }

  // There is no key that could open a connection.
  keyless(key) {
    const kind = /^ik_/.test(key) ? "The key in the address is an ingest key, which can only send.\n" : "";
    this.#write([
      kind +
        `This page needs a read key. Put it at the end of the address, after a #:\n${location.pathname}${location.search}#rk_live_…`,
    ]);
  }

  draw(live, view, list, roles) {
    const { ignored, fields } = this.#options;
    const guessed = Object.entries(roles).map(([role, field]) => role + "=" + field);
    this.#write([
      `${this.#name}: ${live.state}${live.reason ? ", " + live.reason : ""}`,
      `${view.size} items${view.complete ? "" : " so far"}, ${list.entries.length} chosen${view.stale ? ", may be old" : ""}`,
      ignored.length ? "ignored: " + ignored.join("  ") : "",
      fields.length ? "" : "fields: " + list.fields.join(", "),
      guessed.length ? "roles: " + guessed.join("&") : "",
    ]);
  }

  #write(lines) {
    put(this.#box, lines.filter(Boolean).join("\n"));
  }
}
