//! What a daemon with the embedded engine consists of: it pays nothing for what only nodes of a cluster need.
//!
//! The lists are what is there, and nothing else. Whoever adds to one says so here.
//!
//! **Invariant**: without a cluster, there is no thread, table, trigger, open file or connection of one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use postgres_server::Postgres;
use rusqlite::Connection;

use crate::cluster::node;
use crate::process::{BY_ID, Process};
use crate::setup::{Setup, file_only};
use crate::wait::eventually;

/// Threads by name. One that looks files through ends when it has.
const THREADS: [&str; 5] = ["headgate", "journal", "log", "plugin-clock", "sink-pool"];
/// Threads of the runtime, of which there are several. Those that read SQLite are among them.
const POOL: &str = "tokio-rt-worker";

/// Tables of each file. None of them has a trigger.
const TABLES: [(&str, &str); 3] = [
    (
        "catalog.db",
        "audit connectors key_refusals key_uses key_volumes keys read_keys screens sinks streams",
    ),
    (
        "journal.db",
        "bodies claim_log claim_runs claims log_late log_mark_names log_marks log_sent_again log_spans payloads quarantine \
         requests timeline",
    ),
    (
        "pool.db",
        "act_answers acts calls change_log cursors dead_letters discarded failing fills history holds items kept kept_of latest \
         past_values progress recorded_streams removed resends retries settled_late shown sink_state stale stale_items \
         stream_sizes told view_fields views writes",
    ),
];

/// Files below the data directory that are open. How often, is up to the pools of connections that read.
const OPEN: [&str; 4] = ["catalog.db", "journal.db", "lock", "pool.db"];

fn daemon() -> Process {
    let setup = Setup::with_streams(&["orders"])
        .set("storage.engine", "file")
        .read_key("screen", &["orders"], "")
        .sink("pool", "pool", "*", "");
    let daemon = setup.spawn();
    daemon.processed("orders", BY_ID, r#"{"id": "one", "n": 1}"#);
    daemon.looked_through();
    daemon
}

/// The threads of a process by name, without those of pools and what ends by itself.
fn threads(daemon: &Process) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.id())).expect("it lives");
    // One may have ended meanwhile.
    let names = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let names = names.map(|name| name.trim().to_owned());
    let mut names: Vec<String> = names
        .filter(|name| name != "scrub" && name != POOL)
        .collect();
    names.sort();
    names
}

/// What a file has beside its views, its indexes and what SQLite makes itself.
fn tables(file: &Path) -> String {
    let file = Connection::open(file).expect("a database");
    let sql = "SELECT group_concat(CASE type WHEN 'table' THEN name ELSE type || ' ' || name END, ' ' ORDER BY name)
        FROM sqlite_master WHERE type NOT IN ('view', 'index') AND name NOT LIKE 'sqlite_%'";
    let tables = file.query_row(sql, [], |row| row.get(0));
    tables.expect("a schema")
}

/// The files of the data directory that a process has open.
fn open_files(daemon: &Process) -> BTreeSet<String> {
    let names = descriptors(daemon).filter_map(|target| {
        let name = target.strip_prefix(daemon.setup.data_dir()).ok()?;
        Some(name.to_str()?.to_owned())
    });
    // What belongs to a file of SQLite, and what the plugin engine has compiled.
    let is_listed = |name: &String| {
        let is_part = ["-wal", "-shm"].iter().any(|end| name.ends_with(end));
        !is_part && !name.starts_with("plugin-cache")
    };
    names.filter(is_listed).collect()
}

/// What the descriptors of a process are of.
fn descriptors(daemon: &Process) -> impl Iterator<Item = PathBuf> {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).expect("it lives");
    (descriptors.flatten()).filter_map(|one| std::fs::read_link(one.path()).ok())
}

/// Connections of a process to anybody, as `local remote`.
fn connections(daemon: &Process) -> Vec<String> {
    let own: BTreeSet<String> = descriptors(daemon)
        .filter_map(|target| {
            let target = target
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?;
            Some(target.to_owned())
        })
        .collect();
    let mut connections = Vec::new();
    for file in ["tcp", "tcp6"] {
        let path = format!("/proc/{}/net/{file}", daemon.id());
        let lines = std::fs::read_to_string(path).unwrap_or_default();
        for line in lines.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // Only what listens has the state 0A.
            if fields[3] != "0A" && own.contains(fields[9]) {
                connections.push(format!("{} {}", fields[1], fields[2]));
            }
        }
    }
    connections
}

#[test]
fn a_daemon_alone_has_nothing_of_a_cluster() {
    if file_only("what the embedded engine consists of") {
        return;
    }
    let daemon = daemon();
    // Those of the test itself end.
    eventually("nobody is connected", || {
        connections(&daemon).is_empty().then_some(())
    });
    assert_eq!(threads(&daemon), THREADS);
    assert!(
        open_files(&daemon).iter().eq(OPEN),
        "{:?}",
        open_files(&daemon)
    );
    for (file, listed) in TABLES {
        let found = tables(&daemon.setup.data_dir().join(file));
        assert_eq!(found, listed, "{file}");
    }
    daemon.stop();
}

/// The lists would be of no use if they did not see it.
#[test]
fn what_a_node_of_a_cluster_has_more_is_seen() {
    let Some(server) = Postgres::start("what_a_node_of_a_cluster_has_more") else {
        return;
    };
    let node = node(&server, "a").spawn();
    node.processed("orders", BY_ID, r#"{"id": "one", "n": 1}"#);
    assert!(!connections(&node).is_empty());
    let threads = threads(&node);
    for thread in ["cluster-copies", "cluster-log", "cluster-sinks"] {
        assert!(threads.iter().any(|name| name == thread), "{threads:?}");
    }
    for (file, listed) in TABLES.iter().filter(|(file, _)| *file != "journal.db") {
        let found = tables(&node.setup.data_dir().join(file));
        assert_ne!(found, *listed, "{file}");
    }
    node.stop();
}
