//! Faults of the machine around the daemon, and its orderly end.
//!
//! **Invariant**: whatever happens, what was answered 202 is in the pool after the fault is over.

mod disk;
mod files;
mod stop;

use std::collections::BTreeSet;

use crate::process::{Folder, Process, items};

/// The stream of these tests.
const STREAM: &str = "orders";

/// A daemon with the built-in sink.
fn folder() -> Folder {
    Folder::new(&[STREAM]).with_sink("pool", "pool", "*", "")
}

/// Waits until everything is delivered; then each of these items must be in the pool.
fn all_there(folder: &Folder, process: &Process, wanted: &BTreeSet<String>) {
    process.drained();
    let items = items(folder.data_dir(), STREAM);
    let found: BTreeSet<String> = items.into_iter().map(|(key, ..)| key).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
}

/// Submits an item of this key that must be accepted; its request id.
fn submit(process: &Process, key: &str) -> String {
    let body = format!("{{\"id\": \"{key}\"}}");
    process.accepted(STREAM, "X-Item-Key: id\r\n", &body)
}
