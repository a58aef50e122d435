// Where there is no Node, a batcher sends with `fetch`, as everything else does.

/** @type {undefined} */
export const background = undefined;

/** Milliseconds that the page or program has lived. */
export const lived = () => performance.now();
