// The page /render/{stream} begins here: it loads the rest, and begins again where a part could not be loaded.
//
// Invariant: a screen whose network failed for a moment while it started is not blank until somebody comes.

const PAUSE_MS = 3000;

// A style sheet is there before any script runs, or failed to load.
const styled = getComputedStyle(document.documentElement).getPropertyValue("--page") !== "";

if (styled) import("/templates/page.js").then((page) => page.started).catch(again);
else again();

// Only once the daemon answers: else the browser would show a page of its own.
async function again() {
  document.body.hidden = true;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    const answer = await fetch("/render.js", { cache: "no-store" }).catch(() => ({}));
    if (answer.ok) return location.reload();
  }
}
