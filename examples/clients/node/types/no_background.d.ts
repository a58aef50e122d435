/** @type {undefined} */
export declare const background: undefined;
/** Milliseconds that the page or program has lived. */
export declare const lived: () => number;
