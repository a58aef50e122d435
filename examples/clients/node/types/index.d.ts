export { Batcher } from "./batcher.js";
export { Client } from "./client.js";
export { stringify } from "./encode.js";
export { HeadgateError } from "./errors.js";
export { RawJson, parse } from "./json.js";
export { Reader } from "./reader.js";
export { View } from "./view.js";
export type ConnectionOptions = import("./caller.js").ConnectionOptions;
export type CallOptions = import("./client.js").CallOptions;
export type ItemOptions = import("./client.js").ItemOptions;
export type OwnOptions = import("./client.js").OwnOptions;
export type SubmitOptions = import("./client.js").SubmitOptions;
export type Message = import("./follow.js").Message;
export type BatcherOptions = import("./options.js").BatcherOptions;
export type FlushResult = import("./options.js").FlushResult;
export type State = import("./options.js").State;
export type Stats = import("./options.js").Stats;
export type FollowOptions = import("./reader.js").FollowOptions;
export type ReaderOptions = import("./reader.js").ReaderOptions;
export type Item = import("./wire.js").Item;
export type Receipt = import("./wire.js").Receipt;
export type RequestState = import("./wire.js").RequestState;
/** @typedef {import("./caller.js").ConnectionOptions} ConnectionOptions */
/** @typedef {import("./client.js").CallOptions} CallOptions */
/** @typedef {import("./client.js").ItemOptions} ItemOptions */
/** @typedef {import("./client.js").OwnOptions} OwnOptions */
/** @typedef {import("./client.js").SubmitOptions} SubmitOptions */
/** @typedef {import("./follow.js").Message} Message */
/** @typedef {import("./options.js").BatcherOptions} BatcherOptions */
/** @typedef {import("./options.js").FlushResult} FlushResult */
/** @typedef {import("./options.js").State} State */
/** @typedef {import("./options.js").Stats} Stats */
/** @typedef {import("./reader.js").FollowOptions} FollowOptions */
/** @typedef {import("./reader.js").ReaderOptions} ReaderOptions */
/** @typedef {import("./wire.js").Item} Item */
/** @typedef {import("./wire.js").Receipt} Receipt */
/** @typedef {import("./wire.js").RequestState} RequestState */
