export type Leaving = {
    flush: (timeout: number) => Promise<{
        done: boolean;
    }>;
    close: (timeout: number) => Promise<unknown>;
};
/** @param {Leaving} batcher */
export declare function watch(batcher: Leaving): void;
/** @param {Leaving} batcher */
export declare function unwatch(batcher: Leaving): void;
