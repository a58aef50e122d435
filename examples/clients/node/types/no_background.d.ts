/** @type {undefined} */
export declare const background: undefined;
