//! `send --spool`: what client libraries have left in a directory, sent by the command line.
//!
//! **Invariant**: a file is written as the libraries write it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;

use super::send::{report, send};
use super::{finish, headgate, operate};
use crate::app::TestApp;
use crate::process::Process;
use crate::setup::Setup;
use crate::wait::eventually;

fn key(number: usize) -> String {
    format!("018e0000-0000-7000-8000-{number:012}")
}

/// Puts a batch into a spool.
fn spooled(spool: &Path, number: usize, body: &str) {
    let key = key(number);
    let head = format!(r#"{{"v":1,"idempotency_key":"{key}","item_key":"id","created":0}}"#);
    fs::write(spool.join(format!("{key}.json")), format!("{head}\n{body}")).expect("a file");
}

/// The files of a spool, but for those that begin with a dot, and `rejected`.
fn files(spool: &Path) -> Vec<String> {
    let entries = fs::read_dir(spool).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.') && name != "rejected");
    names.sort();
    names
}

fn counts<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| report[name].as_u64().expect("a number"))
}

/// Runs it on a spool; the report, and what went wrong.
fn emptied(app: &TestApp, spool: &Path, more: &[&str]) -> (Value, super::Done) {
    let folder = spool.to_str().expect("a path");
    let args = [&["--spool", folder, "--output", "json"], more].concat();
    let done = send(app, &args, "");
    let report = serde_json::from_str(&done.out).unwrap_or_default();
    (report, done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_spool_is_emptied_in_order_however_old_its_batches_are() {
    let app = Setup::shop().start().await;
    let spool = tempfile::tempdir().expect("a folder");
    let spool = spool.path();
    spooled(spool, 2, r#"[{"id": 7, "total": 1.10}, {"id": 8}]"#);
    spooled(spool, 1, r#"[{"id": 7, "total": 1}]"#);
    let folder = spool.to_str().expect("a path");
    let tried = ["--spool", folder, "--output", "json", "--dry-run"];
    assert_eq!(report(send(&app, &tried, ""))["items"], 3);
    assert_eq!(files(spool).len(), 2);

    let (sent, done) = emptied(&app, spool, &[]);
    done.ok();
    let names = ["items", "batches", "replayed", "kept", "rejected"];
    assert_eq!(counts(&sent, names), [3, 2, 0, 0, 0], "{sent}");
    assert_eq!(files(spool), Vec::<String>::new());
    let items = app.items("orders").await;
    assert_eq!(items[0].fields, r#"{"id":7,"total":1.10}"#);
    assert_eq!(items.len(), 2);

    // Accepted before, and the answer was lost; a batch that is none does not stop what follows it.
    spooled(spool, 1, r#"[{"id": 7, "total": 1}]"#);
    spooled(spool, 4, "[{");
    spooled(spool, 6, r#"[{"id": 11}]"#);
    let (sent, done) = emptied(&app, spool, &[]);
    assert_eq!(counts(&sent, names), [2, 2, 1, 1, 0], "{sent}");
    assert!(done.failed(1).contains("1 file"));
    assert_eq!(files(spool), [format!("{}.json.damaged", key(4))]);
    let items = app.items("orders").await;
    let newest = r#"{"id":7,"total":1.10}"#;
    assert!(items.iter().any(|item| item.fields == newest), "{items:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rejected_item_is_kept_listed_and_sent_again() {
    let app = Setup::shop().start().await;
    let spool = tempfile::tempdir().expect("a folder");
    let spool = spool.path();
    // A library has sent the first part, before its program ended.
    let part = format!("{}/0/2", key(2));
    let headers = [("Idempotency-Key", &*part), ("X-Item-Key", "id")];
    let caller = app.caller("shop");
    let reply = caller.ingest_with(&headers, r#"[{"id":1},{"id":2}]"#).await;
    reply.receipt();
    let body = r#"[{"id": 1}, {"id": 2}, {"no": "key"}, {"id": 4, "total": 1.10}]"#;
    spooled(spool, 2, body);
    spooled(spool, 3, r#"[{"id": 5}]"#);

    let names = [
        "items", "batches", "replayed", "refused", "kept", "rejected",
    ];
    let (sent, done) = emptied(&app, spool, &[]);
    assert_eq!(counts(&sent, names), [4, 3, 1, 1, 0, 1], "{sent}");
    let told = done.failed(1);
    let line = format!("{}/2/1, 1 item: INVALID_PAYLOAD: ", key(2));
    for says in [&*line, "--rejected", "--again"] {
        assert!(told.contains(says), "{says}: {told}");
    }
    assert_eq!(app.items("orders").await.len(), 4);
    assert_eq!(files(spool), Vec::<String>::new());

    // Nothing of it is sent twice; what lies there is listed, and sent when somebody says so.
    let (sent, done) = emptied(&app, spool, &[]);
    assert_eq!(counts(&sent, names), [0, 0, 0, 0, 0, 1], "{sent}");
    done.failed(1);
    let (listed, done) = emptied(&app, spool, &["--rejected"]);
    done.ok();
    assert_eq!(listed[0]["items"][0]["no"], "key", "{listed}");
    assert_eq!(listed[0]["error"]["code"], "INVALID_PAYLOAD");
    let (sent, done) = emptied(&app, spool, &["--again"]);
    assert_eq!(counts(&sent, names), [0, 0, 0, 1, 0, 1], "{sent}");
    done.failed(1);

    // Somebody has mended it.
    let file = spool.join("rejected").join(format!("{}.json", key(2)));
    let text = fs::read_to_string(&file).expect("a file");
    fs::write(&file, text.replace(r#"{"no": "key"}"#, r#"{"id": 3}"#)).expect("a file");
    let (sent, done) = emptied(&app, spool, &["--again"]);
    done.ok();
    assert_eq!(counts(&sent, names), [1, 1, 0, 0, 0, 0], "{sent}");
    assert!(!file.exists());
    assert_eq!(app.items("orders").await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_blocks_a_spool_ends_the_command_and_nothing_is_lost() {
    let app = Setup::shop().start().await;
    let spool = tempfile::tempdir().expect("a folder");
    let spool = spool.path();
    spooled(spool, 1, r#"[{"id": 1}]"#);
    spooled(spool, 2, r#"[{"id": 2}]"#);
    for (more, says) in [
        (
            &["--key", "ik_live_0123456789abcdefghijklmnopqrstuv"][..],
            "401 UNAUTHORIZED",
        ),
        (
            &["--url", "http://127.0.0.1:1", "--retries", "1"],
            "retry 1 of 1",
        ),
        (&["--stream", "others"], "404 STREAM_NOT_FOUND"),
    ] {
        let (sent, done) = emptied(&app, spool, more);
        let told = done.failed(1);
        assert!(told.contains(says), "{says}: {told}");
        assert_eq!(counts(&sent, ["items", "kept"]), [0, 2], "{sent}");
        assert_eq!(files(spool).len(), 2);
    }

    let lock = fs::File::create(spool.join(".lock")).expect("a file");
    lock.lock().expect("a lock");
    let (_, done) = emptied(&app, spool, &[]);
    let told = done.failed(2);
    assert!(told.contains("is used by another program"), "{told}");
    drop(lock);
    let (sent, done) = emptied(&app, spool, &["--stream", "orders"]);
    done.ok();
    assert_eq!(counts(&sent, ["items", "kept"]), [2, 0], "{sent}");

    // A batch says which stream it is for.
    let text = format!(
        "{}\n[{{\"id\":3}}]",
        format_args!(
            r#"{{"v":1,"idempotency_key":"{}","item_key":"id","stream":"others"}}"#,
            key(3)
        )
    );
    fs::write(spool.join(format!("{}.json", key(3))), text).expect("a file");
    let (_, done) = emptied(&app, spool, &["--stream", "orders"]);
    assert!(done.failed(2).contains("is for the stream others"));
    let (_, done) = emptied(&app, spool, &[]);
    assert!(done.failed(1).contains("404 STREAM_NOT_FOUND"));
    assert_eq!(files(spool).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refusal_is_no_failure_of_the_disk_and_a_disk_that_fails_loses_nothing() {
    let app = Setup::shop().start().await;
    let spool = tempfile::tempdir().expect("a folder");
    let spool = spool.path();
    // Cut several times before the one that is bad is alone.
    let mut items: Vec<String> = (0..200).map(|id| format!(r#"{{"id":{id}}}"#)).collect();
    items.insert(70, r#"{"no":"key"}"#.to_owned());
    spooled(spool, 1, &format!("[{}]", items.join(",")));
    let names = ["items", "kept", "rejected"];
    let (sent, done) = emptied(&app, spool, &["--retries", "0"]);
    assert_eq!(counts(&sent, names), [200, 0, 1], "{sent}");
    assert!(done.failed(1).contains("--rejected"));
    assert_eq!(files(spool), Vec::<String>::new());

    // Where the folder of rejected items should be there is a file: what is refused stays where it is.
    fs::remove_dir_all(spool.join("rejected")).expect("a folder");
    fs::write(spool.join("rejected"), "").expect("a file");
    spooled(spool, 2, r#"[{"no":"key"}]"#);
    let (_, done) = emptied(&app, spool, &["--retries", "0"]);
    let told = done.failed(1);
    assert!(told.contains("rejected"), "{told}");
    assert_eq!(files(spool), [format!("{}.json", key(2))]);
    fs::remove_file(spool.join("rejected")).expect("a file");
    let (_, done) = emptied(&app, spool, &[]);
    assert!(done.failed(1).contains("--rejected"));
    assert_eq!(files(spool), Vec::<String>::new());
}

/// So many that five kills come before the last one.
const BATCHES: usize = 500;
const ITEMS_PER_BATCH: usize = 20;
const KILLS: usize = 5;

/// Begins to send a spool to a process.
fn begin(process: &Process, spool: &Path) -> Child {
    let mut command: Command = headgate(spool);
    command
        .args(["send", "--retries", "0", "--spool"])
        .arg(spool);
    command.env("HEADGATE_URL", format!("http://{}", process.service));
    command.env("HEADGATE_KEY", process.setup.secret("shop", 0));
    command.spawn().expect("the program starts")
}

/// In turn the daemon is killed, and the command.
#[test]
fn ten_thousand_items_of_a_spool_arrive_once_through_five_kills() {
    let spool = tempfile::tempdir().expect("a folder");
    let spool = spool.path();
    for batch in 0..BATCHES {
        let first = batch * ITEMS_PER_BATCH;
        let items = first..first + ITEMS_PER_BATCH;
        let items: Vec<String> = items.map(|id| format!(r#"{{"id":{id}}}"#)).collect();
        spooled(spool, batch, &format!("[{}]", items.join(",")));
    }
    let mut process = Setup::shop().unlimited().spawn();
    for kill in 0..KILLS {
        let before = files(spool).len();
        let mut sending = begin(&process, spool);
        eventually("a batch is accepted", || {
            let left = files(spool).len();
            (left < before || left == 0).then_some(())
        });
        if kill % 2 == 0 {
            let setup = process.setup.clone();
            process.kill();
            let ended = sending.wait().expect("a child");
            assert!(!ended.success() || files(spool).is_empty());
            process = setup.spawn();
        } else {
            sending.kill().expect("a child");
            sending.wait().expect("a child");
        }
    }
    let mut last = headgate(spool);
    last.args(["send", "--spool"]).arg(spool);
    last.env("HEADGATE_URL", format!("http://{}", process.service));
    last.env("HEADGATE_KEY", process.setup.secret("shop", 0));
    finish(&mut last, "").ok();
    assert_eq!(files(spool), Vec::<String>::new());

    // By the log, no batch was processed twice.
    let log = ["requests", "--limit", "1000", "--output", "ndjson"];
    let log = operate(&process, log).ok();
    let entries = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let taken = entries.filter(|entry| entry["status"] != "duplicate");
    let items: u64 = taken
        .map(|entry| entry["items_received"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(items as usize, BATCHES * ITEMS_PER_BATCH);
    eventually("the pool has every item", || {
        let export = ["export", "orders", "--fields", "id", "--format", "csv"];
        let export = operate(&process, export).ok();
        let mut ids: Vec<usize> = export
            .lines()
            .filter_map(|line| line.trim().parse().ok())
            .collect();
        ids.sort_unstable();
        ids.into_iter()
            .eq(0..BATCHES * ITEMS_PER_BATCH)
            .then_some(())
    });
}
