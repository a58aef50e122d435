//! Faults of the machine around the daemon, its end, orderly or not; and the bench that makes them under load.
//!
//! The bench: a [`Worker`](producer::Worker) sends and remembers every answer in its [`Book`](book::Book), a fault
//! comes, the daemon is started again, and the [`judge`] compares the books with the files. A new fault is a new file
//! that does the part in the middle; [`preload`] makes the ones of the disk and the clock.
//!
//! Each fault prints its rounds, and how many requests were acknowledged, lost and doubled. The runs are short;
//! `HEADGATE_FAULT_ROUNDS=1000` makes them long: a thousand kills, ten thousand power cuts, every call of the script.
//! `HEADGATE_SEED` repeats a run's choices (not its timing).
//!
//! **Invariant**: whatever happens, what was answered 202 is in the pool after the fault is over.

pub(crate) mod bench; // folders, rounds and seeds that all faults share
mod book; // what one connection was answered
mod calls; // a call of the system that kills, fails, or does half of its work
mod clock; // the wall clock jumps
mod damage; // what the daemon says of damaged files, and does with them
mod disk; // a disk that is nearly full, or cannot be written
mod files; // files that were damaged or removed while the daemon was away
mod histories; // random ones, against a model
mod judge; // what must be in the files
mod kill; // kill -9 under load
mod moved; // the data folder is moved, replaced or deleted
mod output; // standard output and standard error that cannot be written
mod power; // power cuts, simulated
mod preload; // between the daemon and the system
mod producer; // who sends and remembers
mod receivers; // those whom sinks call, while the daemon is killed
mod recording; // what a daemon did to its files, and what a cut leaves
mod rot; // damaged pages
mod stalls; // a stopped process, a slow disk, others who hold the files
mod stop; // SIGTERM
mod upgrade; // the first start after one
mod verdict; // the sums

use std::collections::BTreeSet;

use crate::process::{BY_ID, Process};
use crate::setup::Setup;
pub(crate) use bench::{number, pause, random};
pub(crate) use preload::Preload;

/// The stream of the tests that need one only; the bench writes counters, and items that are written once, into it.
const STREAM: &str = "orders";
const ORDERS: &str = STREAM;
/// Items that are merged.
const PROFILES: &str = "profiles";
/// Arrays with an item key.
const READINGS: &str = "readings";
/// Arrays whose items are identified by their position.
const POSITIONS: &str = "positions";

/// A daemon with the built-in sink.
fn folder() -> Setup {
    Setup::with_streams(&[STREAM])
        .compiling()
        .sink("pool", "pool", "*", "")
}

/// Waits until everything is delivered; then each of these items must be in the pool.
fn all_there(process: &Process, wanted: &BTreeSet<String>) {
    process.drained();
    let items = process.setup.items(STREAM);
    let found: BTreeSet<String> = items.into_iter().map(|(key, ..)| key).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
}

/// Submits an item of this key that must be accepted; its request id.
fn submit(process: &Process, key: &str) -> String {
    let body = format!("{{\"id\": \"{key}\"}}");
    process.accepted(STREAM, BY_ID, &body)
}
