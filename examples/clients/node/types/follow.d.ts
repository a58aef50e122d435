export type Message = {
    type: string;
    /**
     * which it is about; a `reset` is about all
     */
    stream?: string;
    /**
     * the position to resume from, once the message was applied
     */
    id?: string;
    /**
     * of a `snapshot` or an `update`
     */
    items?: import("./wire.js").Item[];
    /**
     * a snapshot ends with this message
     */
    complete?: boolean;
    /**
     * of a `remove`
     */
    keys?: string[];
    /**
     * of a `reset`
     */
    reason?: string;
    /**
     * how old the newest data of a `stale` stream is
     */
    updated_at?: string;
    retry_ms?: number;
};
export type Following = {
    caller: import("./caller.js").Caller;
    silence: number;
    exact: boolean;
    path: string;
    since?: string;
    signal?: AbortSignal;
};
/** @param {string | undefined} id */
export declare const resumable: (id: string | undefined) => string | undefined;
/**
 * All messages but `bye`, for ever; undefined where a connection ended.
 * @param {Following} following
 * @returns {AsyncGenerator<Message | undefined, void, undefined>}
 */
export declare function messages({ since, ...following }: Following): AsyncGenerator<Message | undefined, void, undefined>;
