export type Batcher = import("./batcher.js").Batcher;
/** @param {Batcher} batcher */
export declare function watch(batcher: Batcher): void;
/** @param {Batcher} batcher */
export declare function unwatch(batcher: Batcher): void;
