//! Sends items to Headgate: one request at a time with [`Client::send`], or many items in batches with a [`Batcher`],
//! which retries without creating duplicates and can keep its queue on disk.
//!
//! What it promises, and the files of its spool, are those of all client libraries: `examples/clients/README.md`.
//!
//! **Invariant**: only Headgate's own word about items takes anything from a queue, and every attempt at a batch has the
//! same idempotency key and the same bytes.
#![deny(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

mod batcher;
mod client;
mod deliver;
mod drain;
mod encode;
mod error;
mod field;
mod files;
mod hand;
mod options;
mod owner;
mod pause;
mod queue;
mod rejected;
mod request;
mod spool;
mod state;
mod transport;
mod uuid;
mod verdict;

#[cfg(feature = "conformance")]
#[doc(hidden)]
#[path = "../conformance/runner.rs"]
pub mod conformance;

pub use self::batcher::{Batcher, Flushed, Stats};
pub use self::client::{
    Cancel, Client, ClientOptions, Receipt, RequestState, SendOptions, SinkState,
};
pub use self::drain::{Drain, DrainLeft, DrainStep, SpooledBatch, spooled};
pub use self::error::{Detail, Error, code};
pub use self::options::{BatcherOptions, ItemKey, State, WhenFull};
pub use self::rejected::{Again, RejectedPart, RejectedReason, rejected};
pub use serde_json::value::RawValue;

/// Of this crate, sent as part of `User-Agent`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a panic of a callback left locked is whole: no callback is called with a lock held.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
