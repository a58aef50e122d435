// Sends JSON to Headgate in batches, retries without creating duplicates, and reads and follows streams.

export { Batcher } from "./batcher.js";
export { Client } from "./client.js";
export { stringify } from "./encode.js";
export { HeadgateError } from "./errors.js";
export { RawJson, parse } from "./json.js";
export { Reader } from "./reader.js";
export { View } from "./view.js";

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
