export type Event = {
    data: string;
    id: string | undefined;
};
/**
 * One event; `id` is the last one that was said.
 * @typedef {{ data: string, id: string | undefined }} Event
 */
/** Takes bytes, gives events. */
export declare class Parser {
    #private;
    /**
     * What is complete with these bytes.
     * @param {Uint8Array} bytes
     * @returns {Event[]}
     */
    feed(bytes: Uint8Array): Event[];
}
