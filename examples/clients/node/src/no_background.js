// Where there is no Node, a batcher sends with `fetch`, as everything else does.

/** @type {undefined} */
export const background = undefined;
