//! PUTs of items, and their undo, in a daemon that is killed between their data and their act.
//!
//! While the sink of the pool is paused, the response to a PUT waits for it, up to a second: the data is stored by then, and the
//! act is not recorded.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{token, with_operators};
use crate::process::{BY_ID, Client, JSON, Process, bearer};
use crate::setup::Setup;
use crate::wait::eventually;

const BASE: &str = "/api/admin/streams/scores";

/// With the item `m1`.
fn daemon() -> Process {
    let process = with_operators(Setup::with_streams(&["scores"])).spawn();
    process.processed("scores", BY_ID, r#"[{"id": "m1", "n": 1}]"#);
    process
}

/// A call of the operator `anna`; none: it had no response.
fn anna(admin: SocketAddr, (method, path): (&str, &str), key: &str, body: &str) -> Option<Value> {
    let headers = format!("{}{JSON}Idempotency-Key: {key}\r\n", bearer(&token("anna")));
    let mut client = Client::connect(admin).ok()?;
    let path = format!("{BASE}/{path}");
    let answer = client.request(method, &path, &headers, body).ok()?;
    Some(answer.data(202))
}

/// The requests of operators whose data was stored, by their ids.
fn stored(process: &Process) -> BTreeSet<String> {
    let path = "/api/admin/connectors/operator/requests?limit=100";
    let log = process.call("GET", path, "");
    if log.status == 404 {
        // The log has none.
        return BTreeSet::new();
    }
    let log = log.data(200);
    let log = log.as_array().expect("a list").iter();
    // A repeat of a call whose act is not recorded yet is a duplicate of it.
    let first = log.filter(|entry| entry["duplicate_of"].is_null());
    let id = |entry: &Value| entry["request_id"].as_str().map(str::to_owned);
    first.map(|entry| id(entry).expect("an id")).collect()
}

/// The acts of the audit log: action and request, oldest first.
fn audited(process: &Process) -> Vec<(String, String)> {
    let entries = process.list("/api/admin/audit?kind=stream&name=scores&limit=100");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let acts = entries.iter().rev().filter(|entry| entry["who"] == "anna");
    acts.map(|entry| (text(&entry["action"]), text(&entry["after"]["request_id"])))
        .collect()
}

/// Kills the daemon as soon as the data of a call is stored, and starts it again. The id of that request.
fn interrupted(process: Process, call: (&str, &str), key: &str, body: &str) -> (Process, String) {
    assert_eq!(
        process.try_call("POST", "/api/admin/sinks/pool/pause", ""),
        Some(200)
    );
    let before = stored(&process);
    let admin = process.admin;
    let id = std::thread::scope(|threads| {
        threads.spawn(move || anna(admin, call, key, body));
        let id = eventually("the data is stored", || {
            stored(&process).difference(&before).next().cloned()
        });
        process.signal(rustix::process::Signal::KILL);
        id
    });
    let setup = process.setup.clone();
    process.kill();
    let process = setup.spawn();
    process.try_call("POST", "/api/admin/sinks/pool/resume", "");
    (process, id)
}

fn n_becomes(process: &Process, n: u64) {
    eventually("the item is so", || {
        let item = process.admin(&format!("{BASE}/items/m1"));
        (item["fields"]["n"] == n).then_some(())
    });
}

#[test]
fn a_put_that_a_kill_interrupts_is_recorded_once_and_a_repeat_finds_it() {
    let mut process = daemon();
    let mut expected = Vec::new();
    for n in 2..6 {
        let (call, key, body) = (("PUT", "items/m1"), format!("put-{n}"), json!({ "n": n }));
        let id;
        (process, id) = interrupted(process, call, &key, &body.to_string());
        expected.push(("put".to_owned(), id.clone()));
        if n % 2 == 0 {
            let again = anna(process.admin, call, &key, &body.to_string()).expect("a response");
            assert_eq!(again["request_id"], *id, "{again}");
        }
        eventually("it is in the audit log", || {
            (audited(&process).len() >= expected.len()).then_some(())
        });
        assert_eq!(audited(&process), expected);
        n_becomes(&process, n);
    }
    // Nothing was stored twice.
    let of_acts: BTreeSet<String> = expected.iter().map(|(_, id)| id.clone()).collect();
    assert_eq!(stored(&process), of_acts);
    let undone = anna(process.admin, ("POST", "undo"), "undo", "{}").expect("a response");
    assert_eq!(undone["undone"], "PUT");
    n_becomes(&process, 4);
    process.stop();
}

#[test]
fn an_undo_of_a_put_that_a_kill_interrupts_is_recorded_once() {
    let process = daemon();
    let put = anna(process.admin, ("PUT", "items/m1"), "put", r#"{"n": 2}"#);
    let put = put.expect("a response")["request_id"].clone();
    n_becomes(&process, 2);
    let undo = ("POST", "undo");
    let (process, id) = interrupted(process, undo, "undo", "{}");
    n_becomes(&process, 1);
    let again = anna(process.admin, undo, "undo", "{}").expect("a response");
    assert_eq!(
        (&again["request_id"], &again["undone"]),
        (&json!(id), &json!("PUT"))
    );
    let put = put.as_str().expect("an id").to_owned();
    let expected = [("put".to_owned(), put), ("undo".to_owned(), id)];
    eventually("it is in the audit log", || {
        (audited(&process).len() >= expected.len()).then_some(())
    });
    assert_eq!(audited(&process), expected);
    // The list of acts is empty.
    let nothing = process.call("POST", &format!("{BASE}/undo"), "{}");
    assert_eq!(nothing.status, 409, "{}", nothing.body);
    process.stop();
}
