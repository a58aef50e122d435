//! `bench` against a running daemon, and with one that it starts: what it finds out, and that nothing of it is left.

use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Done, admin_args, finish_within, headgate, operate, run};
use crate::process::Process;
use crate::program::{self, BUILD_MAX};
use crate::setup::Setup;
use crate::wait::eventually;

/// A sink whose receiver must not hear of a bench.
const FAR: &str = "config = { url = \"http://127.0.0.1:9/\" }
http = { hosts = [\"http://127.0.0.1:9\"], networks = [\"127.0.0.0/8\"] }";

/// What a bench of a daemon is told, beside the arguments of the test.
fn args(process: &Process, seconds: &str, more: &[&str]) -> Vec<String> {
    let url = format!("http://{}", process.service);
    let own = ["bench", "--seconds", seconds, "--url", &url].map(str::to_owned);
    let more = more.iter().map(|&arg| arg.to_owned());
    own.into_iter().chain(more).collect()
}

fn bench(process: &Process, more: &[&str]) -> Done {
    operate(process, args(process, "3", more))
}

/// The names of what a verb lists.
fn names(process: &Process, verb: &str) -> Vec<String> {
    let listed = operate(process, [verb, "list", "--output", "json"]).ok();
    let listed: Vec<Value> = serde_json::from_str(&listed).expect("a JSON list");
    let name = |one: &Value| one["name"].as_str().expect("a name").to_owned();
    listed.iter().map(name).collect()
}

#[track_caller]
fn nothing_is_left(process: &Process) {
    assert_eq!(names(process, "stream"), ["orders"]);
    assert_eq!(names(process, "connector"), ["shop"]);
    assert_eq!(names(process, "read-key"), ["screen"]);
    let folder = process.setup.data_dir();
    let pool = rusqlite::Connection::open(folder.join("pool.db")).expect("a pool");
    let count = "SELECT count(*) FROM items";
    let items: i64 = pool.query_row(count, [], |row| row.get(0)).expect("items");
    assert_eq!(items, 0);
    let files = std::fs::read_dir(folder).expect("the data folder");
    for file in files {
        let name = file.expect("a file").file_name();
        let name = name.to_string_lossy();
        assert!(!name.starts_with("bench-"), "{name} is left");
    }
}

#[test]
fn an_installation_is_measured_and_left_as_it_was() {
    let process = Setup::screen().spawn();
    let report = bench(&process, &["--json"]).ok();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let positive = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
    assert!(positive(&report["disk"]["fsync"]["p50_ms"]), "{report}");
    assert!(positive(&report["round_trip"]["p50_ms"]), "{report}");
    let steps = report["ingest"].as_array().expect("steps");
    let shapes: Vec<_> = steps
        .iter()
        .map(|step| (step["body_bytes"].as_u64(), step["connections"].as_u64()))
        .collect();
    let expected = [200, 2_048].map(|bytes| [1, 8, 64].map(|at_once| (Some(bytes), Some(at_once))));
    assert_eq!(shapes, expected.concat());
    for step in steps {
        assert!(positive(&step["requests_per_second"]), "{step}");
        let times = &step["accepted"];
        let order = ["p50_ms", "p90_ms", "p99_ms", "max_ms"].map(|name| times[name].as_f64());
        assert!(order.is_sorted() && positive(&times["p50_ms"]), "{step}");
        assert!(positive(&step["used"]["commits_per_second"]), "{step}");
        assert_eq!(step["broken"], 0, "{step}");
    }
    let push = &report["push"];
    assert!(positive(&push["after_request"]["p50_ms"]), "{report}");
    assert_eq!(push["missing"], 0, "{report}");
    let sentence = report["verdict"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("requests/s"), "{sentence}");
    nothing_is_left(&process);
    process.stop();
}

#[test]
fn the_rate_of_a_key_is_named_where_it_is_the_limit() {
    let process = (Setup::screen())
        .set("limits.requests_per_second", 20)
        .set("limits.burst", 20)
        .spawn();
    let told = bench(&process, &["--keep-rate"]).ok();
    let (_, verdict) = told.trim_end().rsplit_once('\n').expect("lines");
    assert!(verdict.contains("the rate of the key"), "{told}");
    assert!(verdict.contains("limits.requests_per_second"), "{told}");
    for heading in ["REQUESTS/S", "P99", "from the 202 to a renderer"] {
        assert!(told.contains(heading), "{told}");
    }
    nothing_is_left(&process);
    process.stop();
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let process = Setup::screen().spawn();
    let mut command = headgate(&process.setup.path(""));
    command
        .args(args(&process, "600", &[]))
        .args(admin_args(&process))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    eventually("its keys are made", || {
        (names(&process, "read-key").len() > 1).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::INT).expect("a child");
    let status = program::wait(&mut child);
    assert_eq!(status.code(), Some(1));
    let mut told = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut stderr, &mut told).expect("what it said");
    assert!(told.contains("stopped by a signal"), "{told}");
    nothing_is_left(&process);
    process.stop();
}

#[test]
fn who_is_not_there_and_who_would_be_disturbed_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = ["bench", "--admin-url", "http://127.0.0.1:9", "--token", "t"];
    let told = run(folder.path(), nobody).failed(1);
    assert!(told.contains("http://127.0.0.1:9"), "{told}");

    let process = (Setup::screen()).sink("far", "webhook", "*", FAR).spawn();
    let told = bench(&process, &[]).failed(2);
    assert!(
        told.contains("far") && told.contains("--all-sinks"),
        "{told}"
    );
    nothing_is_left(&process);
    process.stop();
}

/// What is in a folder.
fn listed(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder");
    let name = |file: std::io::Result<std::fs::DirEntry>| file.expect("a file").file_name();
    files
        .map(|file| name(file).to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_daemon_that_it_starts_is_measured_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = headgate(folder.path());
    command
        .args(["bench", "--nodes", "0", "--seconds", "1"])
        .args(["--connections", "4", "--items", "10", "--disk-dir", "."])
        // Nothing of these reaches the daemon.
        .env("HEADGATE_STORAGE__DATA_DIR", folder.path().join("other"))
        .env("HEADGATE_CONFIG", "missing.toml");
    let told = finish_within(BUILD_MAX, &mut command, "").ok();
    let figure = |name: &str| -> f64 {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.unwrap_or_else(|| panic!("{name}: {told}")).trim();
        figure.parse().unwrap_or_else(|_| panic!("{name}: {told}"))
    };
    for name in [
        "requests/s",
        "items/s ",
        "202 after, ms, p99",
        "items/s into the data pool",
        "alone: on a screen after, ms, p50",
    ] {
        assert!(figure(name) > 0.0, "{name}: {told}");
    }
    assert!(figure("items/s ") > figure("requests/s"), "{told}");
    assert!(told.contains("EMBEDDED"), "{told}");
    assert!(!told.contains("RATIO"), "{told}");
    assert_eq!(listed(folder.path()), Vec::<String>::new());
}

#[test]
fn a_daemon_that_it_started_ends_when_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = headgate(folder.path());
    command
        .args(["bench", "--nodes", "0", "--seconds", "600"])
        .args(["--disk-dir", "."])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let address = eventually("its daemon listens", || {
        let own = listed(folder.path()).pop()?;
        let log = folder.path().join(own).join("embedded/log");
        let log = std::fs::read_to_string(log).ok()?;
        let (_, rest) = log.split_once("service listening on http://")?;
        let (address, _) = rest.split_once('\n')?;
        Some(address.to_owned())
    });
    TcpStream::connect(&address).expect("it listens");
    child.kill().expect("a child");
    child.wait().expect("a child");
    eventually("its daemon has ended", || {
        TcpStream::connect(&address).is_err().then_some(())
    });
}
