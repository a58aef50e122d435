//! Submitting: every row of the contract's tables, on both endpoints, in the order of the checks.

mod body; // what a body may be and how it may come
mod direct; // routes that are decided before the others
mod envelope; // the error envelope on every path, methods, what is not HTTP
mod full; // a stream that has as much as it may
mod headers; // content types, item keys and idempotency keys as headers
mod keys; // one answer for every key that is not good
mod order; // which fault is told when there are several
mod receipt; // what an accepted request is told, and can ask later
mod stream; // the stream that the caller names
