//! A process that is stopped for a while, a slow disk, and others who hold the files.
//!
//! **Invariant**: while it lasts requests wait or are refused; afterwards everything goes on by itself.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;

use super::bench::{self, Progress, load, pause, rounds, settle, workers};
use super::preload::{Action, Preload, SYNC};
use super::producer::Worker;
use super::verdict::Verdict;
use crate::process::Process;
use crate::setup::{Setup, is_in_a_cluster};
use crate::stored::{one, read_only};
use crate::wait::eventually;

const CONNECTIONS: u64 = 4;
/// What must be acknowledged before and after.
const ENOUGH: u64 = 10;
const STOPPED: Duration = Duration::from_millis(1_500);
/// A disk that flushes ten times a second.
const SLOW: Duration = Duration::from_millis(100);
const HELD: Duration = Duration::from_secs(3);

/// How long something lasts: longer in the long run.
fn lasting(short: Duration) -> Duration {
    short * u32::try_from(rounds(1, 1).clamp(1, 10)).expect("small")
}

/// Load before, load while something lasts, load after it; everything that was acknowledged must be there.
fn survives(
    fault: &'static str,
    folder: &Setup,
    process: Process,
    workers: &mut [Worker],
    meanwhile: impl FnOnce(&Process),
) {
    let mut verdict = Verdict::on(fault);
    let moment = |progress: &Progress| {
        pause(Duration::from_millis(300));
        progress.reaches(ENOUGH);
    };
    let before = load(process.service, workers, 0, None, moment);
    let during = load(process.service, workers, 1, None, |_| meanwhile(&process));
    let after = eventually("requests are taken again", || {
        let after = load(process.service, workers, 2, None, moment);
        (after >= ENOUGH).then_some(after)
    });
    verdict.round(before + during + after, before >= ENOUGH);
    process.stop();
    settle(folder, workers, &mut verdict);
    verdict.close(1);
}

#[test]
fn a_process_that_was_stopped_for_a_while_goes_on() {
    let mut random = bench::random("a stopped process");
    let folder = bench::folder();
    let process = folder.spawn();
    let mut workers = workers(CONNECTIONS, &mut random);
    survives("SIGSTOP", &folder, process, &mut workers, |process| {
        process.signal(Signal::STOP);
        pause(lasting(STOPPED));
        process.signal(Signal::CONT);
    });
}

#[test]
fn a_slow_disk_makes_requests_wait_and_loses_none() {
    if crate::setup::file_only("requests are on the disk of the server") {
        return;
    }
    let mut random = bench::random("a slow disk");
    let folder = bench::folder();
    let Some(preload) = Preload::new("a slow disk", &folder) else {
        return;
    };
    let process = preload.start(&folder);
    let mut workers = workers(CONNECTIONS, &mut random);
    survives("a slow disk", &folder, process, &mut workers, |_| {
        preload.watch(
            &["journal.db", "journal.db-wal", "pool.db", "pool.db-wal"],
            SYNC,
        );
        preload.choose_all(Action::Delay(SLOW));
        pause(lasting(HELD));
        preload.choose_none();
        assert!(preload.hits() > 1, "nothing was slow");
    });
}

/// Holds the right to write to a file for a while.
fn hold(path: &Path, time: Duration) {
    let other = Connection::open(path).expect("a database");
    other
        .busy_timeout(crate::wait::PROCESS_DEADLINE)
        .expect("a setting");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    pause(time);
    other.execute_batch("ROLLBACK").expect("an end");
}

#[test]
fn somebody_who_holds_a_file_is_waited_for() {
    let mut random = bench::random("a held file");
    // A node has no journal of its own.
    let is_there = |file: &&str| !file.starts_with("journal") || !is_in_a_cluster();
    let files = ["journal.db", "pool.db", "catalog.db"];
    for file in files.into_iter().filter(is_there) {
        let folder = bench::folder();
        let process = folder.spawn();
        let mut workers = workers(CONNECTIONS, &mut random);
        let path = folder.data_dir().join(file);
        let time = lasting(HELD);
        survives("a held file", &folder, process, &mut workers, |_| {
            hold(&path, time);
        });
    }
}

#[test]
fn somebody_who_reads_the_pool_for_long_holds_up_nothing() {
    let mut random = bench::random("a long reader");
    let folder = bench::folder();
    let process = folder.spawn();
    let mut workers = workers(CONNECTIONS, &mut random);
    let pool = folder.data_dir().join("pool.db");
    survives("a long reader", &folder, process, &mut workers, |process| {
        let reader = read_only(&pool);
        reader.execute_batch("BEGIN").expect("a transaction");
        let count = |reader: &Connection| -> i64 { one(reader, "SELECT count(*) FROM items") };
        let seen = count(&reader);
        pause(lasting(HELD));
        // It sees one moment, and the pool went on.
        assert_eq!(count(&reader), seen);
        assert!(count(&read_only(&pool)) > seen, "{}", process.log());
        reader.execute_batch("COMMIT").expect("an end");
    });
}
