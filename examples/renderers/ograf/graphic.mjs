// An OGraf v1 graphic: a score bug that follows an item of a Headgate stream.
//
// Every way in ends in updateAction(): the controller calls it, and so does a change of the item. `data` may be partial.

const STYLE = `
  :host { position: absolute; inset: 0; overflow: hidden; pointer-events: none; }
  #bug { position: absolute; left: 4%; top: 6%; display: flex; height: 4.4vw; min-height: 34px; font: 700 clamp(17px, 2.1vw, 80px)/1 "Barlow Condensed", "Roboto Condensed", "Arial Narrow", "Liberation Sans Narrow", system-ui, sans-serif;
    color: #fff; border-radius: 0.3em; overflow: hidden; box-shadow: 0 0.3em 1em rgb(0 0 0 / 40%); clip-path: inset(0 100% 0 0); opacity: 0; transition: clip-path 0.6s cubic-bezier(0.2, 0.9, 0.2, 1), opacity 0.2s; }
  #bug.on { clip-path: inset(0); opacity: 1; }
  #bug.cut { transition: none; }
  #bug > * { display: flex; align-items: center; padding: 0 0.6em; background: #121a24; white-space: nowrap; max-width: 14em; overflow: hidden; }
  .team { border-left: 0.3em solid var(--color); letter-spacing: 0.04em; }
  .team bdi { overflow: hidden; text-overflow: ellipsis; line-height: 1.3; }
  #bug > .score { background: #f5f7fa; color: #0d131b; min-width: 1.1em; justify-content: center; font-variant-numeric: tabular-nums; padding: 0 0.4em; font-size: 1.15em; }
  #bug > #awayScore { border-left: 1px solid #c4ccd6; }
  #bug > #clock { background: #0a0f15; font-weight: 600; font-variant-numeric: tabular-nums; color: #d5dde5; }
  #clock:empty { display: none !important; }
`;

export default class Graphic extends HTMLElement {
  #data = {};
  #step; // undefined: not on air
  #live = null;
  #followed = ""; // what #live was made for
  #disposed = false;
  #root = this.attachShadow({ mode: "open" });

  async load({ data } = {}) {
    const style = document.createElement("style");
    style.textContent = STYLE;
    const bug = document.createElement("div");
    bug.id = "bug";
    for (const [name, id] of [["team", "home"], ["score", "homeScore"], ["score", "awayScore"], ["team", "away"], ["", "clock"]]) {
      const box = document.createElement("div");
      box.className = name;
      box.id = id;
      bug.append(box);
    }
    this.#root.replaceChildren(style, bug);
    this.#disposed = false;
    return this.updateAction({ data, skipAnimation: true });
  }

  async dispose() {
    this.#disposed = true;
    this.#unfollow();
    this.#root.replaceChildren();
    this.#step = undefined;
    return { statusCode: 200 };
  }

  async playAction({ delta = 1, goto, skipAnimation = false } = {}) {
    const current = this.#step === undefined ? -1 : this.#step;
    const target = goto === undefined ? current + delta : goto;
    this.#step = target === 0 ? 0 : undefined; // there is one step; beyond it is the end
    await this.#show(this.#step === 0, skipAnimation);
    return { statusCode: 200, currentStep: this.#step };
  }

  async stopAction({ skipAnimation = false } = {}) {
    this.#step = undefined;
    await this.#show(false, skipAnimation);
    return { statusCode: 200 };
  }

  async updateAction({ data, skipAnimation = false } = {}) {
    if (data !== undefined && (typeof data !== "object" || data === null)) {
      return { statusCode: 400, statusMessage: "data must be an object" };
    }
    Object.assign(this.#data, data);
    const d = this.#data;
    for (const id of ["home", "homeScore", "awayScore", "away", "clock"]) this.#put(id, d[id], skipAnimation);
    this.#color("home", d.homeColor, "#0b5fa5");
    this.#color("away", d.awayColor, "#f2b705");
    this.#follow();
    return { statusCode: 200 };
  }

  async customAction({ id, skipAnimation = false } = {}) {
    if (id !== "flash") return { statusCode: 400, statusMessage: `there is no action "${id}"` };
    const scores = [...this.#root.querySelectorAll(".score")];
    if (!skipAnimation) await Promise.all(scores.map((score) => flash(score, 900, 2)));
    return { statusCode: 200 };
  }

  async #show(on, skipAnimation) {
    const bug = this.#root.querySelector("#bug");
    if (!bug) return;
    bug.classList.toggle("cut", skipAnimation);
    bug.classList.toggle("on", on);
    await Promise.all(bug.getAnimations().map((running) => running.finished.catch(() => {})));
  }

  #put(id, value, skipAnimation) {
    const box = this.#root.querySelector("#" + id);
    const text = value === undefined || value === null ? "" : String(value).slice(0, 100);
    if (!box || box.textContent === text) return;
    const first = !box.firstChild;
    const part = document.createElement("bdi");
    part.textContent = text;
    box.replaceChildren(...(text ? [part] : []));
    if (box.className === "score" && !first && !skipAnimation) flash(box, 1200, 1);
  }

  #color(id, value, otherwise) {
    const box = this.#root.querySelector("#" + id);
    if (box) box.style.setProperty("--color", /^#[0-9a-f]{6}$/i.test(value) ? value : otherwise);
  }

  // Connects when the data names a server and a key, again when they change, and stays off otherwise.
  async #follow() {
    const { server, key, stream = "scoreboard" } = this.#data;
    const wanted = key && server ? JSON.stringify([server, key, stream]) : "";
    if (wanted === this.#followed) return this.#apply();
    this.#unfollow();
    this.#followed = wanted;
    if (!wanted) return;
    const base = String(server).replace(/\/+$/, "");
    for (let attempt = 0; !this.#live; attempt++) {
      try {
        // The number makes the browser ask again after a failure.
        const { connect } = await import(`${base}/headgate.js${attempt ? "?" + attempt : ""}`);
        if (this.#disposed || this.#followed !== wanted) return;
        this.#live = connect({ url: base, streams: [String(stream)], key: String(key), maxRate: 30 });
      } catch (error) {
        await new Promise((resolve) => setTimeout(resolve, 3000));
        if (this.#disposed || this.#followed !== wanted) return;
      }
    }
    this.#live.stream(String(stream)).addEventListener("change", () => this.#apply());
    this.#apply();
  }

  #unfollow() {
    if (this.#live) this.#live.close();
    this.#live = null;
    this.#followed = "";
  }

  #apply() {
    if (!this.#live) return;
    const view = this.#live.stream(String(this.#data.stream || "scoreboard"));
    const items = [...view.values()];
    const chosen = this.#data.item
      ? view.get(String(this.#data.item))
      : items.find((item) => item.fields.status === "live") || items[0];
    if (!chosen) return;
    const data = fromItem(chosen.fields);
    if (Object.keys(data).some((name) => data[name] !== this.#data[name])) this.updateAction({ data });
  }
}

// The fields of ../../payloads/scoreboard.json as the data of this graphic.
function fromItem(f) {
  const text = (value, otherwise = "") => (value === undefined || value === null ? otherwise : String(value));
  return {
    home: text(f["home.short"], text(f["home.name"])),
    homeScore: text(f["home.score"], "–"),
    homeColor: text(f["home.color"]),
    away: text(f["away.short"], text(f["away.name"])),
    awayScore: text(f["away.score"], "–"),
    awayColor: text(f["away.color"]),
    clock: f.status === "live" ? text(f["clock.minute"]) + "′" : text(f["clock.label"]),
  };
}

function flash(box, duration, iterations) {
  return box.animate({ backgroundColor: "#f5b301", offset: 0 }, { duration, iterations, easing: "ease-out" }).finished.catch(() => {});
}
