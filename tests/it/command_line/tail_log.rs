//! `tail --log` against a running daemon, under load, over an outage, with filters.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{admin_args, headgate, operate};
use crate::guests::guest;
use crate::process::{BY_ID, Process};
use crate::program::Lines;
use crate::setup::Setup;
use crate::wait::eventually;

struct Tail {
    child: Child,
    lines: Lines,
}

impl Tail {
    fn start(process: &Process, args: &[&str]) -> Self {
        let mut command = headgate(&process.setup.path(""));
        command
            .args(["tail", "--log", "--output", "json"])
            .args(args);
        command.args(admin_args(process));
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("the program starts");
        let stdout = child.stdout.take().expect("piped");
        Self {
            child,
            lines: Lines::of(stdout),
        }
    }

    /// The next entry; none when it has ended.
    fn next(&mut self) -> Option<Value> {
        let line = self.lines.next()?;
        Some(serde_json::from_str(&line).expect("a line of JSON"))
    }

    /// The request id of the next entry.
    fn id(&mut self) -> String {
        let entry = self.next().expect("an entry");
        entry["request_id"].as_str().expect("an id").to_owned()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_request_is_printed_once_also_over_an_outage() {
    let folder = Setup::with_streams(&["orders"]).sink("pool", "pool", "*", "");
    let mut process = folder.spawn();
    let first = process.accepted("orders", BY_ID, r#"{"id": "first"}"#);
    // The same address again after the outage.
    let admin = process.admin;
    let mut tail = Tail::start(&process, &[]);
    assert_eq!(tail.id(), first);

    let mut sent = BTreeSet::new();
    let mut seen = Vec::new();
    let post = |process: &Process, sent: &mut BTreeSet<String>| {
        for number in 0..700 {
            let body = format!("{{\"id\": \"{number}\"}}");
            sent.insert(process.accepted("orders", BY_ID, &body));
        }
    };
    post(&process, &mut sent);
    for _ in 0..sent.len() {
        seen.push(tail.id());
    }
    process.kill();
    process = eventually("the port is free", || {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_headgate"));
        serve.args(["serve", "--config", "headgate.toml"]);
        serve.env("HEADGATE_ADMIN__LISTEN", admin.to_string());
        folder.spawn_as(serve).ok()
    });
    post(&process, &mut sent);
    for _ in seen.len()..sent.len() {
        seen.push(tail.id());
    }
    let once: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(once.len(), seen.len(), "none twice");
    assert_eq!(once, sent);
    assert!(seen.is_sorted(), "in the order of time");
    process.stop();
}

#[test]
fn filters_wait_for_what_becomes_of_a_request() {
    let folder = Setup::with_streams(&["orders"]).sink("back", &guest("doorkeeper"), "*", "");
    let process = folder.spawn();
    let put = |key: &str| process.accepted("orders", BY_ID, &format!("{{\"id\": \"{key}\"}}"));
    let early = put("early");
    process.request_becomes(&early, "processed");
    process.request_becomes(&put("close"), "processed");
    let mut failed = Tail::start(&process, &["--status", "failed,rejected"]);
    let mut processed = Tail::start(&process, &["--status", "processed", "--count", "2"]);
    assert_eq!(processed.id(), early, "what was there before");
    processed.next().expect("the door");
    // Waits in between, and is decided after those that come later.
    let waits = put("retry-1");
    // Not before, or it is one batch with what comes next.
    process.sink_becomes("back", "retrying", |sink| sink["retries"] == 1);
    let refused = process.post("orders", BY_ID, "oops");
    assert_eq!(refused.status, 400);
    let rejected = put("reject-1");
    assert_eq!(failed.next().expect("an entry")["status"], "rejected");
    assert_eq!(failed.id(), rejected);
    let taken = put("plain");
    assert_eq!(processed.id(), taken);
    process.request_becomes(&put("open"), "processed");
    let again = process.call("POST", "/api/admin/sinks/back/retry", "");
    assert_eq!(again.status, 200, "{}", again.body);
    let ids: BTreeSet<String> = std::iter::from_fn(|| processed.next())
        .map(|entry| entry["request_id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(ids.len(), 1, "it ends after two");
    process.request_becomes(&waits, "processed");

    let told = operate(&process, ["tail", "--log", "--connector", "nobody"]).failed(1);
    assert!(told.contains("there are: tests"), "{told}");
    process.stop();
}
