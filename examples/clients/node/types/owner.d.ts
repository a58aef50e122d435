/** The claim of this process to a folder. */
export declare class Owner {
    #private;
    /** @param {string} folder */
    constructor(folder: string);
    /** Whether the folder is still this batcher's. */
    holds(): boolean;
    /** Another program may have the folder. */
    release(): void;
}
