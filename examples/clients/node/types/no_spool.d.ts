/** Takes the place of the one that has files. */
export declare class Spool {
    constructor();
}
