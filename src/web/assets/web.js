// What the admin pages need a script for: the key of the search box, the sign-in link, questions before something is lost, copying, keys that are
// shown once, finding a tool in the list, columns that are dragged into order, and when not to ask for news.
//
// Invariant: every page can be read, and every form sent, without it.

// The link of `headgate serve`: its secret stands after the #. It is sent once and leaves the address.
const form = document.getElementById("sign-in");
if (form && location.hash.length > 1) {
  form.elements.token.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  form.submit();
}

// The box that searches everything has the focus after `/`, but where somebody types.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const box = document.querySelector(".find input");
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
});

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const label = (button.dataset.label ??= button.textContent);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch (error) {
    // Where the browser does not permit it: selected, for the keyboard.
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = label), 2000);
});

// A key that is shown once goes with its page, also where the browser would keep the page to come back to.
addEventListener("pagehide", () => document.querySelectorAll("[data-once]").forEach((once) => once.remove()));

// The line that waits for the first request turns green, or amber while what comes is refused. It is not part of what is
// replaced, so that it is read out.
document.addEventListener("htmx:afterSettle", () => {
  const line = document.getElementById("first");
  const came = document.getElementById("first-came");
  const news = came ?? document.getElementById("first-refused");
  if (!line || !news || line.textContent === news.textContent) return;
  line.classList.toggle("good", came !== null);
  line.classList.toggle("refused", came === null);
  line.replaceChildren(...news.cloneNode(true).childNodes);
});

// The list of tools: what is typed leaves those with such a name. With one left, Enter opens it.
const finder = document.getElementById("find-tool");
if (finder) {
  const tools = [...document.querySelectorAll("#tools li")];
  const left = () => tools.filter((tool) => !tool.hidden);
  const find = () => {
    const wanted = finder.value.trim().toLowerCase();
    for (const tool of tools) tool.hidden = !tool.textContent.toLowerCase().includes(wanted);
    const count = left().length;
    document.getElementById("found").textContent = count ? `${count} of ${tools.length} tools` : "No tool of this name: see below the list.";
  };
  finder.addEventListener("input", find);
  finder.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && left().length === 1) left()[0].querySelector("a").click();
  });
  document.getElementById("find").hidden = false;
  find();
  finder.focus();
}

// The columns of a feed: dragged, or moved with the arrows. Those that are chosen stand above the others; the numbers say
// so, and are what the form sends. While none has a number, all the usual ones are chosen.
const columns = document.getElementById("columns");
if (columns) {
  const EDGE = 40; // of the window, in pixels: who drags there scrolls
  const place = (row) => row.querySelector("[name=place]");
  const isChosen = (row) => place(row).value.trim() !== "";
  const choose = (row, is) => (place(row).value = is ? 1 : "");
  const rows = () => [...columns.rows];
  const begin = () => rows().some(isChosen) || rows().forEach((row) => choose(row, "usual" in row.dataset));
  const settle = (row) => {
    rows().filter(isChosen).forEach((one, before) => (place(one).value = before + 1));
    const where = isChosen(row) ? `place ${place(row).value}` : "left out";
    document.getElementById("moved").textContent = `${row.dataset.field}: ${where}`;
  };
  const step = (row, up) => {
    begin();
    const other = up ? row.previousElementSibling : row.nextElementSibling;
    const crosses = isChosen(row) !== up && (!other || isChosen(other) === up);
    if (crosses) choose(row, up);
    else if (other) columns.insertBefore(up ? row : other, up ? other : row);
    settle(row);
  };
  const middle = (row) => {
    const { top, height } = row.getBoundingClientRect();
    return top + height / 2;
  };
  const drag = (row) => {
    const from = row.rowIndex;
    const move = ({ clientY }) => {
      const next = rows().find((other) => other !== row && clientY < middle(other)) ?? null;
      if (row.nextElementSibling !== next) columns.insertBefore(row, next);
      if (clientY < EDGE || clientY > innerHeight - EDGE) scrollBy(0, clientY < EDGE ? -EDGE : EDGE);
    };
    const end = () => {
      removeEventListener("pointermove", move);
      for (const type of ["pointerup", "pointercancel"]) removeEventListener(type, end);
      row.classList.remove("dragged");
      if (row.rowIndex === from) return;
      const before = row.previousElementSibling;
      begin();
      choose(row, !before || isChosen(before));
      settle(row);
    };
    row.classList.add("dragged");
    addEventListener("pointermove", move);
    for (const type of ["pointerup", "pointercancel"]) addEventListener(type, end);
  };
  columns.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-move]");
    if (!button) return;
    step(button.closest("tr"), button.dataset.move === "up");
    button.focus();
  });
  columns.addEventListener("pointerdown", (event) => {
    const grip = event.target.closest(".grip");
    if (!grip || event.button) return;
    event.preventDefault();
    drag(grip.closest("tr"));
  });
  // A number that was typed: the row goes there.
  columns.addEventListener("change", ({ target }) => {
    if (target.name !== "place") return;
    const typed = target.closest("tr");
    const at = (row) => Number(place(row).value) || Infinity;
    const half = at(typed) > rows().indexOf(typed) + 1 ? 0.5 : -0.5;
    const wanted = (row) => (row === typed ? at(row) + half : at(row));
    const chosen = rows().filter(isChosen);
    const focused = document.activeElement;
    columns.prepend(...chosen.sort((a, b) => wanted(a) - wanted(b)));
    settle(typed);
    focused.focus();
  });
  for (const part of document.querySelectorAll("[data-moves]")) part.hidden = false;
}

// Nothing is replaced under a reader's hands: a selection, an opened detail, a hidden window.
document.addEventListener("htmx:beforeRequest", (event) => {
  const live = document.getElementById("live");
  if (event.target !== live) return;
  const selection = getSelection();
  const selecting = !selection.isCollapsed && live.contains(selection.anchorNode);
  if (document.hidden || selecting || live.querySelector("details[open]")) event.preventDefault();
});

// Said at the top, before anything that may not be true any more.
const lost = (is) => {
  document.documentElement.classList.toggle("lost", is);
  const note = document.getElementById("lost");
  if (note && note.hidden === is) note.hidden = !is;
};
document.addEventListener("htmx:sendError", () => lost(true));
document.addEventListener("htmx:afterOnLoad", () => lost(false));
document.addEventListener("htmx:afterRequest", (event) => event.detail.successful && lost(false));
