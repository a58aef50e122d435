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
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch (error) {
    // Where the browser does not permit it: selected, for the keyboard.
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
});

// A key that is shown once goes with its page, also where the browser would keep the page to come back to.
addEventListener("pagehide", () => document.querySelectorAll("[data-once]").forEach((once) => once.remove()));

// What a part that is replaced says is read out by one that stays.
document.addEventListener("htmx:afterSettle", () => {
  const news = document.getElementById("news");
  const first = document.querySelector("#live .first.good");
  if (news && first && news.textContent !== first.textContent) news.textContent = first.textContent;
});

// Nothing is replaced under a reader's hands: a selection, an opened detail, a hidden window.
document.addEventListener("htmx:beforeRequest", (event) => {
  const live = document.getElementById("live");
  if (event.target !== live) return;
  const selection = getSelection();
  const selecting = !selection.isCollapsed && live.contains(selection.anchorNode);
  if (document.hidden || selecting || live.querySelector("details[open]")) event.preventDefault();
});

const lost = (is) => document.documentElement.classList.toggle("lost", is);
document.addEventListener("htmx:sendError", () => lost(true));
document.addEventListener("htmx:afterOnLoad", () => lost(false));
document.addEventListener("htmx:afterRequest", (event) => event.detail.successful && lost(false));
