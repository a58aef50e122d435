// What the admin pages need a script for: the sign-in link, questions before something is lost, copying, keys that are
// shown once, and when not to ask for news.
//
// Invariant: every page can be read, and every form sent, without it.

// The link of `headgate serve`: its secret stands after the #. It is sent once and leaves the address.
const form = document.getElementById("sign-in");
if (form && location.hash.length > 1) {
  form.elements.token.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  form.submit();
}

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
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

// The line that waits for the first request turns green. It is not part of what is replaced, so that it is read out.
document.addEventListener("htmx:afterSettle", () => {
  const line = document.querySelector("#first:not(.good)");
  const came = document.getElementById("first-came");
  if (!line || !came) return;
  line.classList.add("good");
  line.replaceChildren(...came.cloneNode(true).childNodes);
});

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
