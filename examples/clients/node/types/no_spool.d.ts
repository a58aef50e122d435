/** Takes the place of the one that has files. */
export declare class Spool {
    /** @param {unknown[]} told */
    constructor(...told: unknown[]);
}
