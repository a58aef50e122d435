//! One call of the system, chosen by its number: the process dies before it, or it fails, or does half of its work.
//!
//! A fixed script is sent by one connection; which call comes at which number depends on timing a little. In the long
//! run every number of every file is tried.
//!
//! **Invariant**: a round counts if its call came.

use std::collections::HashMap;

use rustix::io::Errno;

use super::bench::{self, exhaustive, rounds, settle, warm};
use super::judge;
use super::preload::{Action, NAME, OPEN, Preload, SYNC, TRUNCATE, WRITE};
use super::producer::Worker;
use super::verdict::Verdict;
use crate::app::Random;
use crate::process::{Ended, Process};
use crate::setup::Setup;
use crate::wait::eventually;

/// Requests of the script.
const REQUESTS: u64 = 60;
/// Some streams are made over the admin API, for `catalog.db`.
const STREAMS_MADE: u64 = 3;
const FILES: [&str; 6] = [
    "journal.db",
    "journal.db-wal",
    "pool.db",
    "pool.db-wal",
    "catalog.db",
    "catalog.db-wal",
];
const KILLS: u64 = 24;
/// Rounds of each fault on each file.
const FAILURES: u64 = 1;
/// A disk that is full for so many calls.
const FULL_CALLS: u64 = 12;
/// What the log says when a file is not written any more.
const UNTRUSTED: &str = "cannot be trusted";
/// Requests that are taken one after the other when a fault is over.
const TAKEN: u64 = 5;

/// Sends the script, and makes streams; the names of those that were answered 201.
fn script(process: &Process, worker: &mut Worker) -> Vec<String> {
    let mut made = Vec::new();
    for part in 0..STREAMS_MADE {
        worker.send_some(process.service, REQUESTS / STREAMS_MADE, 0);
        // Never the same: the script may run more than once.
        let name = format!("made-{}", worker.acknowledged + part);
        let body = format!("{{\"name\": \"{name}\"}}");
        if process.try_call("POST", "/api/admin/streams", &body) == Some(201) {
            made.push(name);
        }
    }
    made
}

/// When a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    AtStart,
    ByItself,
    /// It had to be told.
    Stopped,
}

/// What came of the script.
struct Run {
    /// Streams that were made.
    made: Vec<String>,
    end: End,
    ended: Ended,
    /// Whether the fault fell into the orderly end, too.
    hit_at_end: bool,
}

/// A folder whose first start is quick, and the requests of one connection.
struct Scene {
    folder: Setup,
    worker: Vec<Worker>,
    preload: Preload,
}

impl Scene {
    /// `None` where there is no compiler.
    fn new(test: &str, warmed: &Setup, random: &mut Random) -> Option<Self> {
        let folder = bench::folder();
        let preload = Preload::new(test, &folder)?;
        warm(warmed.data_dir(), folder.data_dir());
        Some(Self {
            folder,
            worker: bench::workers(1, random),
            preload,
        })
    }

    /// Runs the script, and stops the daemon if it lives. If the fault `passes`, requests must be taken again before.
    fn run(&mut self, passes: bool) -> Run {
        let mut process = match self.preload.try_start(&self.folder) {
            Ok(process) => process,
            Err(ended) => {
                return Run {
                    made: Vec::new(),
                    end: End::AtStart,
                    ended,
                    hit_at_end: false,
                };
            }
        };
        let made = script(&process, &mut self.worker[0]);
        if passes {
            eventually("requests are taken again, or the process ends", || {
                let taken = self.worker[0].send_some(process.service, TAKEN, 0);
                (taken == TAKEN || !process.lives()).then_some(())
            });
        }
        let hits = self.preload.hits();
        let end = if process.lives() {
            process.terminate();
            End::Stopped
        } else {
            End::ByItself
        };
        let ended = process.ended();
        Run {
            made,
            end,
            ended,
            hit_at_end: self.preload.hits() > hits,
        }
    }

    /// Starts without the fault: everything is there, and new requests are taken.
    fn judge(&mut self, made: &[String], verdict: &mut Verdict) {
        let process = self.folder.spawn();
        for name in made {
            let answer = process.call("GET", &format!("/api/admin/streams/{name}"), "");
            if answer.status != 200 {
                verdict.lost(format!("the stream {name}: {}", answer.body));
            }
        }
        let more = self.worker[0].send_some(process.service, 5, 1);
        assert_eq!(more, 5, "after the start: {}", process.log());
        process.drained();
        judge::round(&process, &self.folder, &mut self.worker, verdict);
        process.kill();
        settle(&self.folder, &mut self.worker, verdict);
    }
}

/// A data folder with compiled plugins.
fn warmed() -> Setup {
    let folder = bench::folder();
    folder.spawn().stop();
    folder
}

/// How many calls of these kinds on these files the script makes.
fn count(warmed: &Setup, names: &[&str], kinds: u64, random: &mut Random) -> Option<u64> {
    let mut scene = Scene::new("counting calls", warmed, random)?;
    scene.preload.watch(names, kinds);
    let run = scene.run(false);
    assert_eq!(run.made.len() as u64, STREAMS_MADE);
    assert_eq!(run.ended.status.code(), Some(0), "{}", run.ended.log);
    Some(scene.preload.counted())
}

/// Numbers up to a total: all of them, or so many, spread over all.
fn numbers(total: u64, some: u64, random: &mut Random) -> Vec<u64> {
    if exhaustive() || total <= some {
        return (1..=total).collect();
    }
    (0..some)
        .map(|part| {
            let (from, to) = (total * part / some, total * (part + 1) / some);
            1 + from + random.within(0..(to - from).max(1))
        })
        .collect()
}

#[test]
fn a_kill_before_any_call_of_the_script_loses_nothing() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let mut random = bench::random("kills at calls");
    let warmed = warmed();
    let kinds = OPEN | WRITE | SYNC | TRUNCATE | NAME;
    let mut names = FILES.to_vec();
    names.extend([
        "journal.db-journal",
        "pool.db-journal",
        "catalog.db-journal",
    ]);
    let Some(total) = count(&warmed, &names, kinds, &mut random) else {
        return;
    };
    let mut verdict = Verdict::on("a kill at the nth open, write, flush, truncation or removal");
    let numbers = numbers(total, rounds(KILLS, 1), &mut random);
    for number in &numbers {
        let scene = Scene::new("kills at calls", &warmed, &mut random);
        let mut scene = scene.expect("it was there before");
        scene.preload.watch(&names, kinds);
        scene.preload.choose(*number, 1, Action::Kill);
        let made = scene.run(false).made;
        let acknowledged = scene.worker[0].acknowledged;
        verdict.round(acknowledged, scene.preload.hits() == 1);
        scene.judge(&made, &mut verdict);
        verdict.must_be_clean(&format!("killed at call {number} of {total}"));
    }
    // The last ones may not come: how often the pool settles depends on timing.
    verdict.close(numbers.len() as u64 * 3 / 4);
}

/// A fault of the disk: which calls, how many of them, and what becomes of them.
struct Fault {
    name: &'static str,
    kind: u64,
    times: u64,
    action: Action,
    /// The daemon must go on by itself.
    passes: bool,
}

const FAULTS: [Fault; 6] = [
    Fault {
        name: "EIO at a write",
        kind: WRITE,
        times: 1,
        action: Action::Fail(Errno::IO),
        passes: false,
    },
    Fault {
        name: "EIO at a flush",
        kind: SYNC,
        times: 1,
        action: Action::Fail(Errno::IO),
        passes: false,
    },
    Fault {
        name: "EIO at a flush, what was unflushed is gone",
        kind: SYNC,
        times: 1,
        action: Action::Drop(Errno::IO),
        passes: false,
    },
    Fault {
        name: "ENOSPC at a write",
        kind: WRITE,
        times: FULL_CALLS,
        action: Action::Fail(Errno::NOSPC),
        passes: true,
    },
    Fault {
        name: "EDQUOT at a write",
        kind: WRITE,
        times: FULL_CALLS,
        action: Action::Fail(Errno::DQUOT),
        passes: true,
    },
    Fault {
        name: "half a write, then ENOSPC",
        kind: WRITE,
        times: FULL_CALLS,
        action: Action::Short(Errno::NOSPC),
        passes: true,
    },
];

#[test]
fn a_failing_write_or_flush_of_any_file_loses_nothing() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let mut random = bench::random("failing calls");
    let warmed = warmed();
    let mut verdict = Verdict::on("a failing write or flush");
    let mut tried = 0;
    for file in FILES {
        let mut totals = HashMap::new();
        for fault in FAULTS {
            let total = match totals.get(&fault.kind) {
                Some(total) => *total,
                None => match count(&warmed, &[file], fault.kind, &mut random) {
                    Some(total) => *totals.entry(fault.kind).or_insert(total),
                    None => return,
                },
            };
            for number in numbers(total, rounds(FAILURES, 10), &mut random) {
                tried += 1;
                let scene = Scene::new("failing calls", &warmed, &mut random);
                let mut scene = scene.expect("it was there before");
                scene.preload.watch(&[file], fault.kind);
                scene.preload.choose(number, fault.times, fault.action);
                let run = scene.run(fault.passes);
                let (end, ended) = (run.end, &run.ended);
                let hits = scene.preload.hits();
                verdict.round(scene.worker[0].acknowledged, hits > 0);
                let at = format!("{} {number} of {total} of {file}", fault.name);
                let code = ended.status.code();
                // What fails at the start is named, and the next start goes on. Later a failure ends the process, and a
                // full disk does not, unless the last checkpoint of a file finds no room.
                let expected = match end {
                    End::AtStart => matches!(code, Some(1 | 70)),
                    End::ByItself => code == Some(70) && !fault.passes,
                    End::Stopped if fault.passes && !run.hit_at_end => code == Some(0),
                    End::Stopped => matches!(code, Some(0 | 70)),
                };
                let trusted = !ended.log.contains(UNTRUSTED);
                assert!(
                    expected && (trusted || !fault.passes),
                    "{at}: {end:?} with {}: {}",
                    ended.status,
                    ended.log
                );
                scene.judge(&run.made, &mut verdict);
                verdict.must_be_clean(&at);
            }
        }
    }
    verdict.close(tried * 3 / 4);
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged_and_the_process_ends_with_70() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let mut random = bench::random("failed flushes");
    let warmed = warmed();
    for file in FILES.iter().filter(|file| file.ends_with("-wal")) {
        let Some(mut scene) = Scene::new("a failed flush", &warmed, &mut random) else {
            return;
        };
        let mut process = scene.preload.start(&scene.folder);
        let made = script(&process, &mut scene.worker[0]);
        let accepted = scene.worker[0].book.accepted.len();
        scene.preload.watch(&[file], SYNC);
        scene.preload.choose_all(Action::Drop(Errno::IO));
        eventually("a flush fails", || {
            let _ = script(&process, &mut scene.worker[0]);
            (scene.preload.hits() > 0 || !process.lives()).then_some(())
        });
        let ended = process.ended();
        assert_eq!(ended.status.code(), Some(70), "{file}: {}", ended.log);
        assert!(scene.preload.hits() > 0, "{file}");
        if file.starts_with("journal") {
            let more = &scene.worker[0].book.accepted[accepted..];
            assert!(more.is_empty(), "acknowledged without a flush: {more:?}");
        }
        let mut verdict = Verdict::on("a failed flush");
        verdict.round(scene.worker[0].acknowledged, true);
        scene.judge(&made, &mut verdict);
        verdict.close(1);
    }
}
