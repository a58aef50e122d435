//! The first start after an upgrade, while the journal of format 5 is taken over: it is killed, or its disk fails, and the
//! start after that goes on.
//!
//! **Invariant**: whatever became of the first start, the log says afterwards what it says after a start that nobody
//! disturbed, and everything that was accepted is delivered.

use std::path::Path;

use rusqlite::Connection;
use rustix::io::Errno;

use super::bench::{self, rounds};
use super::judge::{self, Files};
use super::preload::{Action, OPEN, Preload, SYNC, TRUNCATE, WRITE};
use super::producer::Worker;
use super::verdict::Verdict;
use crate::process::Process;
use crate::setup::Setup;

/// Requests that no sink has had when the new version starts.
const REQUESTS: u64 = 60;
/// Entries behind them, of several stretches.
const ENTRIES: i64 = 4_300;
const NAMES: [&str; 2] = ["journal.db", "journal.db-wal"];
const ROUNDS: u64 = 8;
const FORMAT_5: &str = include_str!("../../fixtures/journal-format-5.sql");

/// As format 5 had it, after so many refused requests of a connector that was deleted since.
fn older(folder: &Setup) {
    folder.tamper(
        "journal.db",
        &format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {ENTRIES})
             INSERT INTO requests (seq, request_id, received_ms, connector, stream, outcome, endpoint, http_status, items, bytes, key, client)
                 SELECT (SELECT max(seq) FROM requests) + n, unhex(printf('%012x7%03x8%015x', 1700000000000 + n * 250, n % 4096, n)),
                     1700000000000 + n * 250, iif(n % 50 = 0, 'rare', 'gone'), 's', 1, 0, 400, 0, 1, 'ik_live_', 'unix' FROM numbers;
             {FORMAT_5}"
        ),
    );
    folder.tamper(
        "pool.db",
        "DELETE FROM items; DELETE FROM progress; UPDATE cursors SET seq = 0",
    );
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).expect("room")),
        }
    }
}

/// What is made of the log, without the order of names.
fn made(journal: &Connection) -> Vec<String> {
    let sql = "SELECT first_seq || ' ' || last_seq || ' ' || min_ms || ' ' || max_ms || ' ' || bytes || ' ' || coalesce(oldest_id_ms, '') || ' ' ||
             newest_id_ms || ' ' || ids_within_ms FROM log_spans WHERE last_seq <= ?1
         UNION ALL SELECT first_seq || ' ' || length(names) FROM log_mark_names WHERE first_seq < ?1
         UNION ALL SELECT connector || ' ' || outcome || ' ' || first_seq || ' ' || last_seq || ' ' || hex(positions) FROM log_marks
             WHERE last_seq <= ?1
         UNION ALL SELECT seq || ' ' || hex(request_id) FROM log_late WHERE seq <= ?1";
    let mut statement = journal.prepare(sql).expect("the tables of this format");
    let rows = statement.query_map([4_000], |row| row.get(0));
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

/// Entries are found by their ids and by their connector.
fn found(process: &Process) {
    for (connector, all) in [("gone", ENTRIES - ENTRIES / 50), ("rare", ENTRIES / 50)] {
        let mut count = 0;
        let mut cursor = String::new();
        loop {
            let path = format!("/api/admin/connectors/{connector}/requests?limit=500{cursor}");
            let answer = process.call("GET", &path, "");
            assert_eq!(answer.status, 200, "{}", answer.body);
            let page = answer.json();
            let rows = page["data"].as_array().expect("a page");
            count += i64::try_from(rows.len()).expect("few");
            if let Some(row) = rows.last() {
                let id = row["request_id"].as_str().expect("an id");
                assert_eq!(process.request(id)["connector"], connector);
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(count, all, "{connector}");
    }
}

/// A copy of the older folder, as it is before the first start of this version.
struct Scene {
    folder: Setup,
    preload: Preload,
}

impl Scene {
    /// `None` where there is no compiler.
    fn new(older: &Setup) -> Option<Self> {
        let folder = kept();
        let preload = Preload::new("an upgrade", &folder)?;
        copy(older.data_dir(), folder.data_dir());
        preload.watch(&NAMES, OPEN | WRITE | SYNC | TRUNCATE);
        Some(Self { folder, preload })
    }

    /// A start that nobody disturbs.
    fn judge(&self, workers: &mut [Worker], verdict: &mut Verdict) -> Vec<String> {
        let process = self.folder.spawn();
        process.drained();
        found(&process);
        judge::round(&process, &self.folder, workers, verdict);
        process.stop();
        for worker in workers.iter_mut() {
            worker.judged = super::book::Mark::default();
        }
        let files = Files::of(&self.folder);
        let whole: String = (files.journal)
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("a verdict");
        assert_eq!(whole, "ok");
        made(&files.journal)
    }
}

/// The payloads stay, so that they can be delivered again.
fn kept() -> Setup {
    bench::folder().set("storage.payload_retention_minutes", 600)
}

#[test]
fn an_older_journal_is_taken_over_however_often_that_is_broken_off() {
    let mut random = bench::random("upgrades");
    let mut workers = bench::workers(1, &mut random);
    let before = kept();
    let process = before.spawn();
    workers[0].send_some(process.service, REQUESTS, 0);
    process.drained();
    process.stop();
    older(&before);
    let Some(scene) = Scene::new(&before) else {
        return;
    };
    scene.preload.start(&scene.folder).kill();
    let total = scene.preload.counted();
    assert!(total > 10, "{total}");
    let mut verdict = Verdict::on("a first start of this version that is broken off");
    let undisturbed = scene.judge(&mut workers, &mut verdict);
    verdict.must_be_clean(&"nothing was broken off");
    assert!(undisturbed.len() > 12, "{undisturbed:?}");
    let mut hits = 0;
    let tries = rounds(ROUNDS, 10);
    for round in 0..tries {
        let scene = Scene::new(&before).expect("it was there before");
        let action = match round % 4 {
            0 => Action::Fail(Errno::IO),
            1 => Action::Short(Errno::NOSPC),
            _ => Action::Kill,
        };
        let (from, to) = (total * round / tries, total * (round + 1) / tries);
        let call = 1 + from + random.within(0..(to - from).max(1));
        scene.preload.choose(call, 1, action);
        let started = scene.preload.try_start(&scene.folder);
        let is_hit = scene.preload.hits() > 0;
        hits += u64::from(is_hit);
        match started {
            Ok(process) => process.kill(),
            Err(ended) => assert!(is_hit, "{call} of {total}, {action:?}: {}", ended.log),
        }
        verdict.round(REQUESTS, is_hit);
        let made = scene.judge(&mut workers, &mut verdict);
        let at = format!("{action:?} at call {call} of {total}");
        verdict.must_be_clean(&at);
        assert_eq!(made, undisturbed, "{at}");
    }
    assert!(hits * 4 >= tries * 3, "{hits} of {tries}");
    verdict.close(tries * 3 / 4);
}
