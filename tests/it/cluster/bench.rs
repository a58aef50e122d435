//! `headgate bench --nodes`: what it finds out of nodes that it starts, and that nothing of them is left.
//!
//! **Invariant**: no figure has a bound, because none is that of a quiet machine.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, kill_process};

use super::*;
use crate::command_line::{Done, finish_within, headgate};
use crate::program::{self, BUILD_MAX};

/// How many schemas of benches there are.
const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^headgate_bench_'";

fn bench(folder: &Path, url: &str, seconds: &str) -> Command {
    let mut command = headgate(folder);
    command
        .args(["bench", "--nodes", "2", "--json", "--connections", "8"])
        .args(["--seconds", seconds, "--disk-dir", "."])
        .env("HEADGATE_DATABASE", url);
    command
}

fn measured(folder: &Path, url: &str) -> Done {
    finish_within(BUILD_MAX, &mut bench(folder, url, "1"), "")
}

#[track_caller]
fn nothing_is_left(server: &Postgres, folder: &Path) {
    assert_eq!(server.query(SCHEMAS), "0");
    let left: Vec<_> = std::fs::read_dir(folder).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Whether the first node of a bench in this folder is configured to ask the database for changes.
fn asks_for_changes(folder: &Path) -> bool {
    let mut benches = std::fs::read_dir(folder).expect("a folder").flatten();
    benches.any(|bench| {
        let config = std::fs::read_to_string(bench.path().join("a/headgate.toml"));
        config.is_ok_and(|config| config.contains("hints = \"poll\""))
    })
}

#[test]
fn nodes_are_measured_and_nothing_of_them_is_left() {
    let Some(server) = Postgres::start("nodes_are_measured") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let report = measured(folder.path(), &server.url()).ok();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let positive = |place: &str| {
        let figure = report.pointer(place).and_then(Value::as_f64);
        assert!(
            figure.is_some_and(|figure| figure > 0.0),
            "{place}: {report}"
        );
    };
    for (engine, nodes) in [("embedded", 1), ("cluster", 2)] {
        assert_eq!(report[engine]["nodes"], nodes);
        for figure in [
            "requests_per_second",
            "items_per_second",
            "accepted/p50_ms",
            "accepted/p99_ms",
            "cpu_micros_per_request",
            "settled_items_per_second",
            "alone/accepted/p50_ms",
            "alone/accepted/p99_ms",
            "alone/after_request/p50_ms",
            "alone/after_request/p99_ms",
        ] {
            positive(&format!("/{engine}/{figure}"));
        }
    }
    positive("/cores");
    positive("/disk/fsync/p50_ms");
    positive("/cluster/takeover/sinks_ms");
    positive("/cluster/takeover/renderer_ms");
    assert_eq!(report["embedded"]["takeover"], Value::Null);
    assert_eq!(report["durability"], "local");
    nothing_is_left(&server, folder.path());
}

#[test]
fn a_signal_ends_it_and_nothing_of_its_nodes_is_left() {
    let Some(server) = Postgres::start("a_signal_ends_it") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    // It can be done before the signal is sent, on a busy machine.
    for _ in 0..10 {
        let mut command = bench(folder.path(), &server.url(), "5");
        command
            .arg("--poll")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        eventually("its nodes run, or it is done", || {
            let is_done = child.try_wait().expect("a child").is_some();
            let runs = || server.query(SCHEMAS) == "1" && asks_for_changes(folder.path());
            (is_done || runs()).then_some(())
        });
        if child.try_wait().expect("a child").is_none() {
            kill_process(Pid::from_child(&child), Signal::INT).expect("a child");
        }
        let status = program::wait(&mut child);
        let mut said = String::new();
        let mut stderr = child.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut stderr, &mut said).expect("what it said");
        // It would say what is left.
        assert!(!said.contains("was not deleted"), "{said}");
        nothing_is_left(&server, folder.path());
        if status.code() == Some(0) {
            continue;
        }
        assert_eq!(status.code(), Some(1));
        assert!(said.contains("stopped by a signal"), "{said}");
        return;
    }
    panic!("it was always done before the signal");
}

#[test]
fn a_database_that_nodes_cannot_use_is_wrong_use() {
    let Some(server) = Postgres::start("a_database_that_nodes_cannot_use") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    server.query("CREATE ROLE guest LOGIN PASSWORD 'of-a-guest'");
    server.query("REVOKE CREATE ON DATABASE postgres FROM PUBLIC");
    let nobody = format!("postgres://127.0.0.1:{}/a", postgres_server::free_port());
    for (url, says) in [
        (" ", "--database"),
        ("mysql://127.0.0.1/a", "must begin with postgres://"),
        (nobody.as_str(), "the database cannot be used"),
        (
            server.url_of("guest", "wrong").as_str(),
            "the database cannot be used",
        ),
        (
            server.url_of("guest", "of-a-guest").as_str(),
            "GRANT CREATE ON DATABASE",
        ),
    ] {
        let said = measured(folder.path(), url).failed(2);
        assert!(said.contains(says), "{url}: {said}");
        assert!(!said.contains("of-a-guest"), "{said}");
    }
    nothing_is_left(&server, folder.path());
}
