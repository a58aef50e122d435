//! The first start after an upgrade: all files are looked at before; and while the journal of format 5 is taken over it is
//! killed, or its disk fails, and the start after that goes on.
//!
//! **Invariant**: whatever became of the first start, the log says afterwards what it says after a start that nobody
//! disturbed, and everything that was accepted is delivered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rustix::io::Errno;

use super::bench::{self, rounds};
use super::damage::run;
use super::judge::{self, Files};
use super::preload::{Action, OPEN, Preload, SYNC, TRUNCATE, WRITE};
use super::producer::Worker;
use super::verdict::Verdict;
use super::{folder, submit};
use crate::process::{Client, Process};
use crate::setup::Setup;
use crate::wait::eventually;
use postgres_server::free_port;

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
    if crate::setup::file_only("a node takes its copies in the format of the database") {
        return;
    }
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

/// Each file of a folder, by its name; of those that are written at every start only that they are there.
fn files_of(folder: &Setup) -> BTreeMap<String, Vec<u8>> {
    let entries = folder.data_dir().read_dir().expect("a folder");
    let entries = entries.map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.path().is_file() && entry.file_name() != "lock");
    files
        .map(|entry| {
            let bytes = std::fs::read(entry.path()).expect("a file");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}

/// A catalog as the version wrote it that knew format 6, with nothing in it.
const CATALOG_6: &str = "
CREATE TABLE streams (name TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, settings TEXT) WITHOUT ROWID;
CREATE TABLE connectors (name TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, settings TEXT) WITHOUT ROWID;
CREATE TABLE keys (connector TEXT NOT NULL, name TEXT NOT NULL, sha256 BLOB NOT NULL UNIQUE, prefix TEXT NOT NULL,
    stream TEXT NOT NULL, expires_ms INTEGER, revoked_ms INTEGER, created_ms INTEGER NOT NULL, description TEXT,
    allow_in_url INTEGER NOT NULL DEFAULT 0, verify TEXT, networks TEXT, PRIMARY KEY (connector, name)) WITHOUT ROWID;
CREATE TABLE read_keys (name TEXT PRIMARY KEY, sha256 BLOB NOT NULL UNIQUE, prefix TEXT NOT NULL, streams TEXT NOT NULL,
    allow_in_url INTEGER NOT NULL, expires_ms INTEGER, revoked_ms INTEGER, created_ms INTEGER NOT NULL, description TEXT,
    networks TEXT, requests_per_second INTEGER) WITHOUT ROWID;
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, who TEXT NOT NULL, client TEXT NOT NULL,
    action TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, connector TEXT, before TEXT, after TEXT, previous BLOB,
    digest BLOB);
CREATE TABLE key_uses (sha256 BLOB PRIMARY KEY, used_ms INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 6";

/// A folder that was in use, whose catalog has an older format.
fn with_older_catalog() -> Setup {
    let folder = folder();
    let process = folder.spawn();
    submit(&process, "a");
    process.drained();
    process.stop();
    std::fs::remove_file(folder.data_dir().join("catalog.db")).expect("it was there");
    folder.tamper("catalog.db", CATALOG_6);
    folder
}

#[test]
fn all_files_are_looked_at_before_one_is_upgraded() {
    if crate::setup::file_only("a node takes its copies in the format of the database") {
        return;
    }
    let folder = with_older_catalog();
    folder.tamper("journal.db", "PRAGMA user_version = 99");
    let before = files_of(&folder);
    let ended = folder.try_spawn().expect_err("it must not start");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.log);
    let said = "journal.db: the file has format 99";
    assert!(ended.log.contains(said), "{}", ended.log);
    assert_eq!(files_of(&folder), before);
    let checked = run(&folder, &["check"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&checked.stderr).contains(said));
    assert_eq!(files_of(&folder), before);
}

#[test]
fn a_small_file_is_kept_as_it_was_before_its_upgrade() {
    if crate::setup::file_only("a node takes its copies in the format of the database") {
        return;
    }
    let folder = with_older_catalog();
    let checked = run(&folder, &["check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(said.contains("upgrades catalog.db from format 6"), "{said}");
    let process = folder.spawn();
    submit(&process, "b");
    process.drained();
    process.stop();
    let kept = folder.data_dir().join("catalog.db.before-6");
    let mode = kept.metadata().expect("a copy").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = rusqlite::Connection::open(&kept).expect("a database");
    let number = |sql: &str| kept.query_row(sql, [], |row| row.get::<_, i64>(0));
    assert_eq!(number("PRAGMA user_version").expect("a format"), 6);
    assert!(number("SELECT count(*) FROM read_keys").is_ok());
    let names: Vec<String> = files_of(&folder).into_keys().collect();
    assert!(
        !names.iter().any(|name| name.contains("unfinished")),
        "{names:?}"
    );
    // It is made at an upgrade alone.
    drop(kept);
    std::fs::remove_file(folder.data_dir().join("catalog.db.before-6")).expect("it was there");
    folder.spawn().stop();
    assert!(!folder.data_dir().join("catalog.db.before-6").exists());
}

#[test]
fn both_listeners_answer_while_files_are_upgraded() {
    if crate::setup::file_only("a node takes its copies in the format of the database") {
        return;
    }
    let [service, admin] = [free_port(), free_port()];
    let folder = with_older_catalog();
    let told = folder.path("supervisor");
    let supervisor = UnixDatagram::bind(&told).expect("a socket");
    let folder = folder
        .set("server.listen", format!("127.0.0.1:{service}"))
        .set("admin.listen", format!("127.0.0.1:{admin}"));
    let Some(preload) = Preload::new("an upgrade that takes long", &folder) else {
        return;
    };
    preload.watch(&["catalog.db", "catalog.db-wal"], SYNC);
    // Longer than anybody here waits.
    preload.choose_all(Action::Delay(Duration::from_secs(3_600)));
    let mut command = preload.command();
    command.env("NOTIFY_SOCKET", &told);
    let mut child = folder.spawn_child_as(command);
    for port in [service, admin] {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let ask = |path: &str| Client::connect(address).ok()?.get(path, "none").ok();
        eventually("the process says that it lives", || {
            (ask("/healthz")?.status == 200).then_some(())
        });
        let ready = eventually("it says what it does", || {
            ask("/readyz").filter(|reply| reply.body.contains("upgrading catalog.db from format 6"))
        });
        assert_eq!(ready.status, 503, "{}", ready.body);
        assert!(ready.header("retry-after").is_some(), "{}", ready.head);
        assert_eq!(
            ask("/api/admin/streams").map(|reply| reply.status),
            Some(503)
        );
    }
    let mut text = [0; 1_024];
    let length = supervisor.recv(&mut text).expect("a message");
    let text = String::from_utf8_lossy(&text[..length]);
    assert!(
        text.contains("EXTEND_TIMEOUT_USEC=") && text.contains("STATUS=upgrading"),
        "{text}"
    );
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    let process = folder.spawn();
    submit(&process, "b");
    process.drained();
    process.stop();
}
