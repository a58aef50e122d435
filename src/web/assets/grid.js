// What a script adds to the grids: the keyboard, selecting ranges, times in the reader's zone, chosen columns that are
// remembered, and lists that follow the daemon without a jump.
//
// Invariant: every list can be read, filtered, paged and acted on without it.

(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // --- Times: "12 s ago", with date, seconds and UTC on hover. ---

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
  const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  const whole = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
  const utc = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC" });

  const relative = (at) => {
    const seconds = Math.round((Date.now() - at) / 1000);
    const far = Math.abs(seconds);
    if (far >= 86400) return `${day.format(at)}, ${minute.format(at)}`;
    const step = far < 60 ? `${far} s` : far < 3600 ? `${Math.floor(far / 60)} min` : `${Math.floor(far / 3600)} h`;
    if (far < 1) return "now";
    return seconds < 0 ? `in ${step}` : `${step} ago`;
  };

  const showTimes = (root = document) => {
    for (const time of all("time[datetime]", root)) {
      const at = Date.parse(time.dateTime);
      if (Number.isNaN(at)) continue;
      if (!time.dataset.shown) {
        time.dataset.shown = "yes";
        time.title = `${whole.format(at)} · ${utc.format(at)} UTC`;
      }
      const text = relative(at);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  // --- Ranges are typed in the reader's zone, and sent in UTC. ---

  const pad = (number) => String(number).padStart(2, "0");
  const local = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}T${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;

  const localize = () => {
    for (const input of all('input[type="datetime-local"][data-utc]')) {
      const label = input.labels[0];
      if (label) label.textContent = label.textContent.replace(" (UTC)", "");
      input.title = `In the time zone ${zone}`;
      if (input.value) input.value = local(new Date(`${input.value}Z`));
      input.form.addEventListener("formdata", ({ formData }) => {
        const typed = formData.get(input.name);
        if (typed) formData.set(input.name, new Date(typed).toISOString().slice(0, 19));
      });
    }
    const note = document.getElementById("zone");
    if (note) note.textContent = `times are in ${zone}`;
  };

  // --- The keyboard: j and k go to the next and the previous row, x selects, Enter opens, Esc leaves. ---

  const rows = () => all(".grid tbody tr");
  const stop = (row) => row.querySelector(".key a") ?? row.querySelector("a, button, input");
  const current = () => document.activeElement?.closest(".grid tbody tr");

  const move = (by) => {
    const list = rows().filter(stop);
    const at = list.indexOf(current());
    const next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + by))];
    if (!next) return;
    stop(next).focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  const along = (by) => {
    const row = current();
    const stops = row ? all("a, button, input, time[title]", row).filter((one) => one.matches("a, button, input")) : [];
    const next = stops[stops.indexOf(document.activeElement) + by];
    next?.focus();
    next?.scrollIntoView({ block: "nearest", inline: "nearest" });
    return Boolean(next);
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("textarea, select, [contenteditable], input:not([type=checkbox])")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = {
      j: () => move(1),
      k: () => move(-1),
      x: () => current()?.querySelector(".pick input")?.click(),
      o: () => (document.activeElement.closest(".grid td")?.querySelector(".edit") ?? current()?.querySelector(".edit"))?.click(),
      ArrowRight: () => current() && along(1),
      ArrowLeft: () => current() && along(-1),
      Escape: leave,
    }[event.key];
    if (act && act() !== false && (current() || event.key === "Escape")) event.preventDefault();
  });

  const leave = () => {
    const open = document.querySelector(".menu[open]");
    if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    } else if (current()) document.activeElement.blur();
    else all(".grid .pick :checked").forEach((box) => (box.checked = false));
  };

  // --- Selecting: all rows of a page, or a range with Shift. ---

  let last = null;
  addEventListener("click", (event) => {
    const box = event.target.closest(".grid .pick input");
    if (!box) return;
    const boxes = all("tbody .pick input", box.closest("table"));
    if (box.matches("[data-all]")) {
      boxes.forEach((one) => (one.checked = box.checked));
      last = null;
      return;
    }
    if (event.shiftKey && boxes.includes(last)) {
      const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
      boxes.slice(from, to + 1).forEach((one) => (one.checked = box.checked));
    }
    last = box;
  });

  // --- The editor: a value of an item is overridden beside its cell, in two clicks. ---

  const editor = document.getElementById("editor");
  const close = () => {
    if (!editor || editor.hidden) return false;
    editor.hidden = true;
    editor.from?.focus();
    return true;
  };
  const edit = (link) => {
    const { key, field, value, text } = link.dataset;
    editor.from = link;
    document.getElementById("editor-of").textContent = `${field} of ${key}`;
    for (const [name, content] of Object.entries({ key, field, text: text ?? "", value })) editor.elements[name].value = content;
    const isNumber = text === undefined && value.trim() !== "" && !Number.isNaN(Number(value));
    for (const step of all("[data-step]", editor)) step.hidden = !isNumber;
    editor.hidden = false;
    const cell = link.closest("td").getBoundingClientRect();
    const { width, height } = editor.getBoundingClientRect();
    const left = Math.max(8, Math.min(cell.left, document.documentElement.clientWidth - width - 8));
    const top = cell.bottom + height + 12 > innerHeight && cell.top > height + 12 ? cell.top - height - 4 : cell.bottom + 4;
    editor.style.left = `${left + scrollX}px`;
    editor.style.top = `${top + scrollY}px`;
    editor.elements.value.select();
  };
  addEventListener("click", (event) => {
    const link = event.target.closest(".grid .edit");
    if (link && editor && link.dataset.value !== undefined) {
      event.preventDefault();
      edit(link);
    } else if (event.target.closest("[data-cancel]") || !event.target.closest("#editor")) close();
    const step = event.target.closest("#editor [data-step]");
    if (!step) return;
    // Whole numbers of any length; others lose no digit by it either, as they are left alone.
    const { value } = editor.elements;
    if (/^-?\d+$/.test(value.value)) value.value = String(BigInt(value.value) + BigInt(step.dataset.step));
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && close()) event.stopImmediatePropagation();
  }, { capture: true });

  // --- Columns: what was chosen is kept in this browser, for each list. ---

  const chooser = document.querySelector("form[data-columns]");
  if (chooser) {
    const name = `columns ${chooser.dataset.columns}`;
    const address = new URL(location.href);
    const chosen = address.searchParams.getAll("column");
    const kept = localStorage.getItem(name);
    if (address.searchParams.has("all-columns")) localStorage.removeItem(name);
    else if (chosen.length) localStorage.setItem(name, JSON.stringify(chosen));
    else if (kept) {
      const columns = JSON.parse(kept);
      columns.forEach((column) => address.searchParams.append("column", column));
      all("[name=column]", chooser).forEach((box) => (box.checked = columns.includes(box.value)));
      history.replaceState(null, "", address);
      htmx.ajax("GET", address.pathname + address.search, { target: "#live", swap: "outerHTML" });
    }
  }

  // --- What follows the daemon: nothing jumps under a reader who has scrolled down or selected something. ---

  const isInUse = (live) => (editor && !editor.hidden) || live.querySelector(".grid .pick :checked, .menu[open]") !== null || all(".scroll", live).some((one) => one.scrollTop > 0);
  const names = (root) => new Set(all(".grid tbody tr", root).map((row) => row.dataset.row));
  let before = null;

  document.addEventListener("htmx:beforeSwap", (event) => {
    const live = document.getElementById("live");
    if (event.detail.target !== live || !live.querySelector(".grid")) return;
    const known = names(live);
    if (isInUse(live)) {
      event.detail.shouldSwap = false;
      const coming = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
      const count = [...names(coming)].filter((name) => !known.has(name)).length;
      const news = live.querySelector(".news");
      if (news && count) news.textContent = `${count} new`;
      return;
    }
    const row = current();
    before = {
      known,
      row: row?.dataset.row,
      stop: row ? all("a, button, input", row).indexOf(document.activeElement) : -1,
      scrolled: all(".scroll", live).map((one) => one.scrollLeft),
    };
  });

  // What is beside the heading stays as long as somebody is there.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const head = document.getElementById("head");
    if (event.detail.target === head && (head.contains(document.activeElement) || head.querySelector(".menu[open]"))) event.detail.shouldSwap = false;
  });

  document.addEventListener("htmx:afterSwap", () => {
    const live = document.getElementById("live");
    if (!live) return;
    showTimes(live);
    if (!before) return;
    all(".scroll", live).forEach((one, at) => (one.scrollLeft = before.scrolled[at] ?? 0));
    for (const row of all(".grid tbody tr", live)) {
      if (row.dataset.row === before.row) all("a, button, input", row)[before.stop]?.focus({ preventScroll: true });
      row.classList.toggle("new", before.known.size > 0 && !before.known.has(row.dataset.row));
    }
    before = null;
  });

  showTimes();
  localize();
  setInterval(() => document.hidden || showTimes(), 1000);
})();
