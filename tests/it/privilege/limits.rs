//! Open files, and the connections that they allow.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::app::{Raw, Transport};
use crate::command_line::finish;
use crate::process::{Client, Process, bearer, value_of};
use crate::setup::{ADMIN_TOKEN, Setup};
use crate::wait::{PROCESS_DEADLINE, eventually, eventually_async};

const OPEN: &str = "headgate_connections{listener=\"service\"}";
const FAILURES: &str = "headgate_accept_failures_total{listener=\"service\"}";

/// A line of `/proc/PID/limits`: what holds, and what it may be raised to.
fn limit(process: &Process, name: &str) -> [String; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id()));
    let limits = limits.expect("it lives");
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    let mut words = line
        .expect(name)
        .split_ascii_whitespace()
        .map(str::to_owned);
    [
        words.next().expect("a limit"),
        words.next().expect("a limit"),
    ]
}

/// The daemon, after these words to the shell that starts it.
fn spawn_after(setup: &Setup, words: &str) -> Process {
    let mut shell = Command::new("sh");
    let script = format!("{words}; exec \"$0\" serve --config headgate.toml");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_headgate")]);
    setup.spawn_as(shell).expect("it starts")
}

/// A connection that the daemon has taken: it answered.
fn taken(process: &Process) -> TcpStream {
    let mut stream = TcpStream::connect(process.service).expect("it listens");
    stream
        .set_read_timeout(Some(PROCESS_DEADLINE))
        .expect("a socket");
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it is sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    stream
}

#[test]
fn the_daemon_takes_as_many_open_files_as_the_system_allows() {
    let process = spawn_after(&Setup::with_streams(&[]), "ulimit -Sn 100; ulimit -Hn 4000");
    assert_eq!(limit(&process, "Max open files"), ["4000", "4000"]);
    let said = "server.connections_max is 20000, but the limit of 4000 open files allows only 3488";
    process.says(said);
    process.stop();

    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = Command::new("sh");
    let script = "ulimit -Sn 100; ulimit -Hn 4000; exec \"$0\" check";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_headgate")]);
    let told = finish(
        shell
            .current_dir(folder.path())
            .env("HEADGATE_PROFILE", "test"),
        "",
    )
    .ok();
    assert!(told.contains(&format!("note: {said}")), "{told}");
}

#[test]
fn connections_that_hold_the_service_listener_leave_the_admin_listener_alone() {
    // One address could not have all of them.
    let setup = Setup::with_streams(&[]).set("server.trusted_proxies", json!(["127.0.0.1"]));
    let process = spawn_after(&setup, "ulimit -n 400");
    // 400 files, of which 256 are not for connections and 36 for the admin listener.
    let held: Vec<TcpStream> = (0..108).map(|_| taken(&process)).collect();
    let waiting: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(process.service).expect("the system queues it"))
        .collect();
    let problems = process.problems();
    let said = "the service listener has reached its limit of 108 connections";
    assert!(problems.contains(said), "{problems}");
    assert_eq!(process.metric(OPEN), Some(108.0));
    assert_eq!(process.metric(FAILURES), Some(0.0), "{}", process.log());

    drop((held, waiting));
    let again = taken(&process);
    eventually("they are gone", || {
        (process.metric(OPEN) == Some(1.0)).then_some(())
    });
    assert_eq!(process.problems(), "[]");
    drop(again);
    process.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connection_keeps_its_place_when_it_becomes_a_websocket() {
    let app = Setup::screen()
        .set("server.connections_max", 2)
        .start()
        .await;
    let mut first = app.renderer(Transport::WebSocket, &["orders"]);
    first.connect().await;
    first.snapshots().await;
    let mut second = Raw::connect(&app.service).await;
    second
        .send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert_eq!(second.reply().await.status, 200);
    let listeners = &app.parts.metrics.listeners;
    assert_eq!(listeners.service.at_max(), Some(2));
    first.disconnect();
    let health = app.anonymous().get("/healthz").await;
    assert_eq!(health.status, 200);
    drop((second, health));
    eventually_async("they are gone", async || {
        (listeners.service.open.get() == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_only_connects_gives_way_to_who_asks() {
    let app = Setup::shop().set("server.connections_max", 3).start().await;
    let mut lasting = Raw::connect(&app.service).await;
    let health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    lasting.send(health).await;
    assert_eq!(lasting.reply().await.status, 200);
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(Raw::connect(&app.service).await);
    }
    for _ in 0..5 {
        let mut asks = Raw::connect(&app.service).await;
        asks.send(health).await;
        assert_eq!(asks.reply().await.status, 200);
    }
    assert_eq!(silent[0].rest().await, b"", "the oldest is closed");
    // What has asked before keeps its place.
    lasting.send(health).await;
    assert_eq!(lasting.reply().await.status, 200);
}

#[test]
fn while_the_system_gives_no_connections_the_log_has_one_line_and_the_status_says_why() {
    let process = Setup::with_streams(&[]).spawn();
    let mut admin = Client::connect(process.admin).expect("it listens");
    let token = bearer(ADMIN_TOKEN);
    let mut ask = |path: &str| {
        let answer = admin.request("GET", path, &token, "").expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    };
    assert!(ask("/api/admin/status").contains("\"problems\":[]"));
    let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    let id = id.expect("a process id");
    let limit = |files: u64| {
        let limit = Rlimit {
            current: Some(files),
            maximum: Some(files.max(1_000)),
        };
        prlimit(Some(id), Resource::Nofile, limit).expect("the process is ours");
    };
    limit(3);
    let mut waiting = TcpStream::connect(process.service).expect("the system queues it");
    eventually("it tries again and again", || {
        let failures = value_of(&ask("/metrics"), FAILURES);
        failures.filter(|count| *count >= 5.0).map(drop)
    });
    let status = ask("/api/admin/status");
    let said = "the service listener failed to accept connections in the last minute: ";
    assert!(
        status.contains(said) && status.contains("Too many open files"),
        "{status}"
    );
    limit(1_000);
    waiting
        .set_read_timeout(Some(PROCESS_DEADLINE))
        .expect("a socket");
    waiting
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it is sent");
    let mut answer = [0; 12];
    waiting
        .read_exact(&mut answer)
        .expect("it is taken after all");
    let log = process.log();
    assert_eq!(log.matches("cannot accept connections").count(), 1, "{log}");
    assert!(!log.contains("accept connection failed"), "{log}");
    process.stop();
}
