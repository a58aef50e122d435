// The service worker of /render/ and /pages/: a page starts from what was kept of it when the daemon is away. Browsers
// have it on https, localhost and 127.0.0.1 only; `offline.js` registers it.
//
// Invariant: the daemon's answer goes first, and nothing with data or a key is kept: the API and feeds pass by, and
// addresses are kept without what stands behind the ? and the #.

const CACHE = "headgate-pages-1";
const WAIT_MS = 4000; // for a daemon that neither answers nor refuses
const KEPT = /^\/(?:render\/[^/]+|pages\/.*|templates\/[^/]+|fonts\/[^/]+|headgate\.js|offline\.js|render\.js|render\.css)$/;

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

addEventListener("fetch", (event) => {
  const { request } = event;
  const place = placeOf(request.url);
  if (!place || request.method !== "GET" || request.cache === "no-store" || request.headers.has("range")) return;
  const fresh = load(request, place);
  event.waitUntil(fresh.catch(() => {}));
  event.respondWith(first(fresh, place));
});

// What a page had loaded before this worker was there.
addEventListener("message", (event) => event.waitUntil(Promise.all(event.data.map(keep))));

// Under which address something is kept; "" for what is not.
function placeOf(address) {
  const { origin, pathname, searchParams } = new URL(address);
  if (origin !== location.origin || !KEPT.test(pathname)) return "";
  const anyImages = pathname.startsWith("/render/") && searchParams.get("images") === "any"; // has a policy of its own
  return origin + pathname + (anyImages ? "?images=any" : "");
}

async function load(request, place) {
  const answer = await fetch(request);
  const cache = await caches.open(CACHE);
  if (answer.status === 200 && !answer.redirected) await cache.put(place, answer.clone()).catch(() => {});
  if (answer.status === 404 || answer.status === 410) await cache.delete(place);
  return answer;
}

async function first(fresh, place) {
  const kept = await keptAt(place);
  if (!kept) return fresh;
  const late = new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  const answer = await Promise.race([fresh.catch(() => undefined), late]);
  return answer && answer.status < 500 ? answer : kept;
}

async function keep(address) {
  const place = placeOf(address);
  if (place && !(await keptAt(place))) await load(place, place).catch(() => {});
}

async function keptAt(place) {
  const cache = await caches.open(CACHE);
  return cache.match(place, { ignoreVary: true });
}
