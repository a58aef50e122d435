//! What is done to sinks on a node that does not run them.
//!
//! **Invariant**: the receiver and the audit log show that it was done, once, by who asked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::process::Answer;
use crate::receiver::{Receiver, answer};

/// The IDs that a receiver has taken.
pub(crate) type Taken = Arc<Mutex<BTreeSet<String>>>;

/// A receiver that answers with this status, and a sink that sends to it. What it does not take is tried again in a day.
pub(crate) fn with_a_receiver() -> (Taken, Arc<AtomicU16>, Value) {
    let (taken, status) = (Taken::default(), Arc::new(AtomicU16::new(503)));
    let (takes, told) = (Arc::clone(&taken), Arc::clone(&status));
    let receiver = Receiver::start(move |seen, _| {
        let status = told.load(Ordering::Relaxed);
        let items = seen.json();
        let items = items
            .as_array()
            .filter(|_| status == 200)
            .into_iter()
            .flatten();
        let ids = items.map(|item| item["id"].as_str().expect("a text").to_owned());
        takes.lock().expect("no panic while held").extend(ids);
        answer(status, "", "")
    });
    let sink = json!({
        "name": "copy",
        "plugin": "http-forward",
        "streams": ["orders"],
        "batch": { "linger_ms": 0, "items_max": 1 },
        "retry": { "first_ms": 86_400_000, "max_ms": 86_400_000, "attempts": 9 },
        "config": { "url": receiver.url("/in"), "form": "field-array" },
        "http": { "hosts": [receiver.url("")], "networks": ["127.0.0.0/8"] },
    });
    (taken, status, sink)
}

pub(crate) fn ids(taken: &Taken) -> Vec<String> {
    let taken = taken.lock().expect("no panic while held");
    taken.iter().cloned().collect()
}

fn done(node: &Process, method: &str, path: &str, body: &str) -> Value {
    let done = node.call(method, &format!("/api/admin/sinks/copy{path}"), body);
    assert!((200..300).contains(&done.status), "{path}: {}", done.body);
    done.json()["data"].clone()
}

fn code(answer: &Answer) -> (u16, String) {
    let code = answer.json()["error"]["code"].clone();
    (answer.status, code.as_str().expect("a code").to_owned())
}

#[test]
fn a_sink_is_operated_on_any_node() {
    let Some(server) = Postgres::start("a_sink_is_operated_on_any_node") else {
        return;
    };
    let (taken, status, sink) = with_a_receiver();
    let [runs, waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    waits.make("/api/admin/sinks", &sink);
    runs.sink_becomes("copy", "running", |sink| sink["state"] == "running");
    accepted(&waits, "one");
    waits.sink_becomes("copy", "waiting with one", |sink| sink["retries"] == 1);
    status.store(200, Ordering::Relaxed);
    assert_eq!(done(&waits, "POST", "/retry", "")["retries"], 1);
    runs.drained();
    assert_eq!(ids(&taken), ["one"]);

    // What is given up there becomes dead letters, which are seen, sent again and discarded here.
    status.store(503, Ordering::Relaxed);
    accepted(&waits, "two");
    accepted(&runs, "three");
    waits.sink_becomes("copy", "waiting with two", |sink| {
        sink["retries"].as_u64() >= Some(1)
    });
    let given_up = eventually("all are given up", || {
        done(&waits, "POST", "/retries/end", "");
        (waits.sink("copy")["dead_letters"] == 2).then(|| waits.dead_letters("copy"))
    });
    assert_eq!(given_up.len(), 2);
    status.store(200, Ordering::Relaxed);
    let one = json!({ "ids": [given_up[0]["id"]] }).to_string();
    assert_eq!(
        done(&waits, "POST", "/dead-letters/retry", &one)["sent_again"],
        1
    );
    assert_eq!(
        done(&waits, "DELETE", "/dead-letters?all=true", "")["discarded"],
        1
    );
    runs.drained();
    assert_eq!(ids(&taken).len(), 2);

    // All that the pool has.
    assert_eq!(done(&waits, "POST", "/refill", "")["items"], 3);
    eventually("it is filled", || {
        (ids(&taken) == ["one", "three", "two"]).then_some(())
    });

    // What is wrong is said as on the node itself.
    for (method, path, refused) in [
        (
            "DELETE",
            "copy/dead-letters/77",
            (404, "DEAD_LETTER_NOT_FOUND"),
        ),
        ("DELETE", "copy/retries/77", (404, "RETRY_NOT_FOUND")),
        ("POST", "pool/refill", (409, "NOTHING_TO_FILL")),
        ("POST", "nobody/retry", (404, "SINK_NOT_FOUND")),
    ] {
        let path = format!("/api/admin/sinks/{path}");
        let said = [&waits, &runs].map(|node| code(&node.call(method, &path, "")));
        assert_eq!(said[0], (refused.0, refused.1.to_owned()), "{path}");
        assert_eq!(said[0], said[1], "{path}");
    }

    // By whom.
    let entries = runs.list("/api/admin/audit?limit=100");
    for action in ["retry", "end_retries", "resend", "discard", "refill"] {
        let entry = entries.iter().find(|entry| entry["action"] == action);
        let entry = entry.unwrap_or_else(|| panic!("{action}: {entries:?}"));
        assert_eq!(entry["client"], "127.0.0.1", "{entry}");
    }
    assert_eq!(server.query("SELECT count(*) FROM headgate.asks"), "0");

    // Whoever runs them then.
    status.store(503, Ordering::Relaxed);
    accepted(&waits, "four");
    waits.sink_becomes("copy", "waiting again", |sink| sink["retries"] == 1);
    status.store(200, Ordering::Relaxed);
    runs.kill();
    assert_eq!(done(&waits, "POST", "/retry", "")["retries"], 1);
    waits.drained();
    assert_eq!(ids(&taken), ["four", "one", "three", "two"]);
    waits.stop();
}

#[test]
fn the_sinks_run_on_the_node_that_an_operator_names() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let Some(server) = Postgres::start("the_sinks_run_on_the_node_that_is_named") else {
        return;
    };
    let (taken, status, sink) = with_a_receiver();
    status.store(200, Ordering::Relaxed);
    let nodes = NAMES.map(|name| node(&server, name).spawn());
    nodes[0].make("/api/admin/sinks", &sink);
    let mut sent = Vec::new();
    for round in 0..9 {
        // Asked of each node, for each.
        let (asked, name) = (&nodes[round / 3], NAMES[round % 3]);
        let path = format!("/api/admin/cluster/nodes/{name}/claim");
        let done = asked.call("POST", &path, "");
        assert_eq!(done.status, 200, "{}", done.body);
        assert_eq!(owner(asked), name);
        let id = format!("{round}");
        accepted(asked, &id);
        sent.push(id);
        eventually("it is delivered", || (ids(&taken) == sent).then_some(()));
    }
    let excluded = node(&server, "d").set("cluster.sinks", false).spawn();
    for (name, refused) in [
        ("d", (409, "NODE_CANNOT_RUN_SINKS")),
        ("e", (404, "NODE_NOT_FOUND")),
    ] {
        let path = format!("/api/admin/cluster/nodes/{name}/claim");
        let said = eventually("the node is known", || {
            let said = code(&nodes[1].call("POST", &path, ""));
            (name == "e" || said.0 != 404).then_some(said)
        });
        assert_eq!(said, (refused.0, refused.1.to_owned()));
    }
    let claims = nodes[2].list("/api/admin/audit?limit=100");
    let claims = claims.iter().filter(|entry| entry["action"] == "claim");
    assert!(claims.count() >= 8);
    excluded.stop();
    for node in nodes {
        node.stop();
    }
}

#[test]
fn what_no_node_can_do_is_refused_and_never_done_later() {
    let Some(server) = Postgres::start("what_no_node_can_do_is_refused") else {
        return;
    };
    let (taken, status, sink) = with_a_receiver();
    let runs = node(&server, "a").spawn();
    let waits = node(&server, "b").set("cluster.sinks", false).spawn();
    waits.make("/api/admin/sinks", &sink);
    accepted(&waits, "one");
    waits.sink_becomes("copy", "waiting with one", |sink| sink["retries"] == 1);
    let again = runs.setup.clone();
    runs.kill();
    let refused = waits.call("POST", "/api/admin/sinks/copy/retry", "");
    assert_eq!(code(&refused), (503, "UNAVAILABLE".to_owned()));
    assert!(
        refused.body.contains("nothing was changed"),
        "{}",
        refused.body
    );
    assert_eq!(server.query("SELECT count(*) FROM headgate.asks"), "0");
    status.store(200, Ordering::Relaxed);
    let back = again.spawn();
    back.sink_becomes("copy", "running", |sink| sink["state"] == "running");
    accepted(&waits, "two");
    waits.sink_becomes("copy", "waiting with one still", |sink| {
        sink["retries"] == 1
    });
    assert_eq!(done(&waits, "POST", "/retry", "")["retries"], 1);
    back.drained();
    assert_eq!(ids(&taken), ["one", "two"]);
    for node in [back, waits] {
        node.stop();
    }
}
