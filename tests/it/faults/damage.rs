//! Flipped bits and zeroed pages in the files of a data folder: the daemon comes up, takes requests, and says what it
//! could not read.
//!
//! What is salvaged of every page of every file is tried in `src/repair/tests.rs`, without a daemon.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{STREAM, all_there, submit};
use crate::process::Process;
use crate::program::output;
use crate::setup::Setup;

const PAGE_BYTES: u64 = 2_048;

/// A daemon whose journal keeps what every sink has.
fn folder() -> Setup {
    super::folder().set("storage.payload_retention_minutes", 60)
}

/// Submits items whose keys begin with `name`, all of which are in the pool then.
fn filled(folder: &Setup, name: &str) -> BTreeSet<String> {
    let process = folder.spawn();
    let mut keys = BTreeSet::new();
    for number in 0..40 {
        let key = format!("{name}{number}{}", "x".repeat(300));
        submit(&process, &key);
        keys.insert(key);
    }
    process.drained();
    process.kill();
    keys
}

/// Pages of a table or an index, from 1. All of the file is in the file then.
fn pages(file: &Path, table: &str) -> Vec<u64> {
    let connection = Connection::open(file).expect("a database");
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("nobody uses it");
    let mut statement = connection
        .prepare("SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY pageno")
        .expect("SQLite has it");
    let pages = statement.query_map([table], |row| row.get::<_, i64>(0));
    let pages = pages
        .expect("pages")
        .map(|page| page.expect("a page").unsigned_abs());
    pages.collect()
}

fn zero(file: &Path, page: u64) {
    let file = OpenOptions::new().write(true).open(file).expect("a file");
    let zeros = [0; PAGE_BYTES as usize];
    file.write_all_at(&zeros, (page - 1) * PAGE_BYTES)
        .expect("it is written");
}

fn flip(file: &Path, at: u64, mask: u8) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is read");
    file.write_all_at(&[byte[0] ^ mask], at)
        .expect("it is written");
}

/// What was set aside.
fn set_aside(folder: &Setup) -> Vec<PathBuf> {
    let entries = folder.data_dir().read_dir().expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.to_string_lossy().contains(".damaged-"))
        .collect()
}

/// Runs a verb on the folder's configuration.
pub(super) fn run(folder: &Setup, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HEADGATE_") {
            command.env_remove(name);
        }
    }
    let config = folder.path("headgate.toml");
    command.args(arguments).arg("--config").arg(&config);
    command.current_dir(config.parent().expect("a folder"));
    output(&mut command).expect("it runs")
}

fn problems(process: &Process) -> Vec<String> {
    match process.admin("/api/admin/status")["problems"].take() {
        Value::Array(problems) => problems.iter().map(Value::to_string).collect(),
        other => panic!("not a list: {other}"),
    }
}

/// The daemon takes and delivers, says what happened to `file` until what was set aside is deleted, and a restart is
/// clean. What is `wanted` must be in the pool.
fn goes_on(folder: &Setup, file: &str, mut wanted: BTreeSet<String>) {
    let process = folder.spawn();
    submit(&process, "after");
    wanted.insert("after".to_owned());
    all_there(&process, &wanted);
    let said = problems(&process);
    assert!(
        said.iter().any(|problem| problem.contains(file)),
        "{said:?}"
    );
    process.stop();

    let aside = set_aside(folder);
    assert!(!aside.is_empty());
    let process = folder.spawn();
    assert_eq!(set_aside(folder), aside, "nothing is repaired twice");
    submit(&process, "again");
    wanted.insert("again".to_owned());
    all_there(&process, &wanted);
    for path in aside {
        std::fs::remove_file(path).expect("it is there");
    }
    let left = problems(&process);
    assert!(
        left.iter().all(|problem| !problem.contains("damaged")),
        "{left:?}"
    );
    process.stop();
    assert_eq!(run(folder, &["check", "--data"]).status.code(), Some(0));
}

#[test]
fn a_page_of_payloads_is_gone_and_every_other_request_is_delivered() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    let folder = folder();
    let keys = filled(&folder, "a");
    let journal = folder.data_dir().join("journal.db");
    let payloads = pages(&journal, "payloads");
    zero(&journal, payloads[payloads.len() / 2]);
    // The pool has had nothing yet: everything is read again.
    let sql = "DELETE FROM items; DELETE FROM progress; UPDATE cursors SET seq = 0";
    folder.tamper("pool.db", sql);
    let checked = run(&folder, &["check", "--data", "--output", "json"]);
    assert_eq!(checked.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let state = |file: &str| {
        let files = found["files"].as_array().expect("a list");
        let file = files
            .iter()
            .find(|it| it["name"] == file)
            .expect("the file");
        file["state"].as_str().expect("text").to_owned()
    };
    assert_eq!(state("journal.db"), "damaged");
    assert_eq!(state("pool.db"), "sound");
    // As the daemon does that meets it.
    std::fs::write(folder.data_dir().join("journal.db.suspect"), "met").expect("a mark");

    let process = folder.spawn();
    process.drained();
    let letters = process.dead_letters("pool");
    assert!(
        !letters.is_empty() && letters.len() < 15,
        "{} are lost",
        letters.len()
    );
    process.stop();
    let lost: usize = letters.len();
    let there: BTreeSet<String> = folder
        .items(STREAM)
        .into_iter()
        .map(|(key, ..)| key)
        .collect();
    assert!(there.is_subset(&keys));
    assert_eq!(
        there.len() + lost,
        keys.len(),
        "what is not there is a dead letter"
    );
    goes_on(&folder, "journal.db", there);
}

#[test]
fn a_pool_that_lost_a_page_has_its_items_again_from_the_journal() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    let folder = folder();
    let keys = filled(&folder, "a");
    let pool = folder.data_dir().join("pool.db");
    let items = pages(&pool, "items");
    zero(&pool, items[items.len() / 2]);
    let repaired = run(&folder, &["repair", "--yes", "--output", "json"]);
    assert_eq!(repaired.status.code(), Some(0), "{repaired:?}");
    let done: Value = serde_json::from_slice(&repaired.stdout).expect("JSON");
    assert_eq!(done["repairs"][0]["file"], "pool.db");
    assert_eq!(
        done["repairs"][0]["incomplete_streams"][0]["stream"],
        STREAM
    );
    goes_on(&folder, "pool.db", keys);
}

#[test]
fn a_catalog_without_its_first_page_keeps_what_was_made_at_run_time() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    let folder = folder();
    let keys = filled(&folder, "a");
    let process = folder.spawn();
    process.make("/api/admin/streams", &json!({"name": "made"}));
    process.stop();
    zero(&folder.data_dir().join("catalog.db"), 1);
    let process = folder.spawn();
    let streams = process.admin("/api/admin/streams");
    let mut names = streams
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["name"]);
    assert!(names.any(|name| name == "made"), "{streams}");
    process.stop();
    goes_on(&folder, "catalog.db", keys);
}

#[test]
fn bits_of_headers_that_sqlite_believes_are_noticed_at_the_start() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    for (file, at, mask) in [
        // The format: a newer one, and one whose upgrade does not fit the tables.
        ("journal.db", 63, 8),
        ("journal.db", 63, 2),
        ("pool.db", 59, 2),
        ("pool.db", 55, 1),
    ] {
        let folder = folder();
        let keys = filled(&folder, "a");
        let path = folder.data_dir().join(file);
        pages(&path, "x");
        flip(&path, at, mask);
        goes_on(&folder, file, keys);
    }
}

#[test]
fn a_wrong_bit_in_a_log_costs_no_acknowledged_request() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    for file in ["journal.db", "pool.db"] {
        let folder = folder();
        let keys = filled(&folder, "a");
        let log = folder.data_dir().join(format!("{file}-wal"));
        let bytes = log.metadata().expect("a log").len();
        assert!(bytes > 20 * PAGE_BYTES, "{bytes}");
        flip(&log, bytes / 3, 16);
        goes_on(&folder, file, keys);
    }
}
