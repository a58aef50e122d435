import { HeadgateError } from "./errors.js";
export type Receipt = import("./wire.js").Receipt;
export type Verdict = {
    kind: "accepted" | "refused" | "mismatch" | "blocked" | "retrying";
    error?: HeadgateError;
    receipt?: Receipt;
    /**
     * whether Headgate may have taken it, although this is not known
     */
    unknown?: boolean;
    /**
     * those that a refusal names, in order
     */
    items?: number[];
    /**
     * whether a proxy on the way finds the body too large
     */
    shrink?: boolean;
};
/** An answer, read to its end. */
export declare class Answer {
    #private;
    status: number;
    headers: Headers;
    body: string;
    /**
     * @param {number} status
     * @param {Headers} headers what came more than once is joined with commas
     * @param {string} body
     * @param {string} shown the address
     */
    constructor(status: number, headers: Headers, body: string, shown: string);
    /**
     * Headgate's envelope; undefined, if this is not its answer.
     * @param {(text: string) => any} [reading]
     * @returns {Record<string, any> | undefined}
     */
    own(reading?: (text: string) => any): Record<string, any> | undefined;
    /** Whether Headgate says that it has done what was asked. */
    get succeeds(): boolean;
    /** What this answer says, which is not the one that was hoped for. @param {number} wall */
    error(wall: number): HeadgateError;
}
/**
 * What Headgate says that it has taken, whatever the status.
 * @param {Answer} answer
 * @returns {Receipt | undefined}
 */
export declare function receiptOf(answer: Answer): Receipt | undefined;
/**
 * How an attempt has ended that was answered.
 * @param {Answer} answer
 * @param {number} sent so many items went out
 * @param {number} wall
 * @returns {Verdict}
 */
export declare function judge(answer: Answer, sent: number, wall: number): Verdict;
/** How an attempt has ended that was not answered. @param {HeadgateError} error @returns {Verdict} */
export declare const lost: (error: HeadgateError) => Verdict;
/** For a key under which Headgate has taken something else. @param {Receipt} receipt @param {number} sent */
export declare function mismatch({ itemsReceived, requestId }: Receipt, sent: number): HeadgateError;
/**
 * Milliseconds until the next attempt.
 * @param {Verdict} verdict
 * @param {number} backoff what the failures in a row say
 */
export declare function pause({ kind, error }: Verdict, backoff: number): number;
