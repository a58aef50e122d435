//! What every fault of the bench begins with: a folder, a seed, a number of rounds.
//!
//! **Invariant**: a daemon of the bench keeps no payload that nobody needs: what the pool has lost the journal cannot
//! bring back.
#![expect(
    clippy::disallowed_methods,
    reason = "tests of another process: settings from the environment, and moments"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::preload::Preload;
use super::producer::Worker;
use super::verdict::Verdict;
use super::{ORDERS, POSITIONS, PROFILES, READINGS, judge};
use crate::app::Random;
use crate::process::SetOnDrop;
use crate::setup::Setup;
use crate::wait::eventually;

/// A number from the environment.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a whole number"))
}

/// How often a fault is made: `short` in CI, `long` times what the environment says.
pub(super) fn rounds(short: u64, long: u64) -> u64 {
    number("HEADGATE_FAULT_ROUNDS").map_or(short, |rounds| rounds * long)
}

/// Whether everything is tried instead of samples.
pub(super) fn exhaustive() -> bool {
    number("HEADGATE_FAULT_ROUNDS").is_some_and(|rounds| rounds >= 1_000)
}

/// Choices that `HEADGATE_SEED` repeats.
pub(crate) fn random(test: &str) -> Random {
    let seed = number("HEADGATE_SEED").unwrap_or_else(|| getrandom::u64().expect("randomness"));
    eprintln!("{test} with HEADGATE_SEED={seed}");
    Random(seed)
}

/// Lets time pass for the daemon.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A daemon with the built-in sink and every stream of the producer.
pub(super) fn folder() -> Setup {
    Setup::with_streams(&[ORDERS, PROFILES, READINGS, POSITIONS])
        .compiling()
        .merging(PROFILES)
        .sink("pool", "pool", "*", "")
        .set("storage.durability", "fsync")
}

/// Somebody on each of so many connections.
pub(super) fn workers(count: u64, random: &mut Random) -> Vec<Worker> {
    (0..count)
        .map(|id| Worker::new(id, Random(random.next())))
        .collect()
}

/// How far a load has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) stop: AtomicBool,
    pub(super) acknowledged: AtomicU64,
}

impl Progress {
    /// Waits until so many requests were acknowledged, however busy the machine is.
    pub(super) fn reaches(&self, count: u64) {
        eventually("requests are acknowledged", || {
            (self.acknowledged.load(Ordering::Relaxed) >= count).then_some(())
        });
    }
}

/// Has all of them send until `meanwhile` returns, or the daemon is gone; how many requests were acknowledged.
pub(super) fn load(
    service: SocketAddr,
    workers: &mut [Worker],
    round: u64,
    moments: Option<&Preload>,
    meanwhile: impl FnOnce(&Progress),
) -> u64 {
    let acknowledged =
        |workers: &[Worker]| -> u64 { workers.iter().map(|worker| worker.acknowledged).sum() };
    let before = acknowledged(workers);
    let progress = Progress::default();
    std::thread::scope(|scope| {
        for worker in workers.iter_mut() {
            let progress = &progress;
            scope.spawn(move || worker.send_until_it_breaks(service, round, progress, moments));
        }
        let _stop = SetOnDrop(&progress.stop);
        meanwhile(&progress);
    });
    acknowledged(workers) - before
}

/// The end of a fault: a last start, everything is delivered, and everything that was ever promised is there.
pub(super) fn settle(folder: &Setup, workers: &mut [Worker], verdict: &mut Verdict) {
    let process = folder.spawn();
    process.drained();
    for worker in workers.iter_mut() {
        worker.repeat_unanswered(&process);
    }
    process.drained();
    judge::round(&process, folder, workers, verdict);
    process.stop();
    judge::end(folder, workers, verdict);
}

/// Copies the compiled plugins of one data folder into another, which has none: a start is quicker then.
pub(super) fn warm(from: &Path, to: &Path) {
    let (from, to) = (from.join("plugin-cache"), to.join("plugin-cache"));
    if !from.is_dir() {
        return;
    }
    std::fs::create_dir_all(&to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("room");
        }
    }
}
