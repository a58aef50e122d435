// Has a page of /render/ or /pages/ start when the daemon is away: `import "/offline.js"`. Where browsers have no service
// workers, which is on all but https, localhost and 127.0.0.1, it does nothing.
//
// Invariant: a page shows the same with it and without it, and hears of none of its errors.

const scope = /^\/(?:render|pages)\//.exec(location.pathname);
if (scope && navigator.serviceWorker) keep(scope[0]).catch(() => {});

async function keep(scope) {
  const { serviceWorker } = navigator;
  await serviceWorker.register("/worker.js", { scope });
  const { active } = await serviceWorker.ready;
  const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
  active.postMessage([location.href.split("#")[0], ...loaded]);
}
