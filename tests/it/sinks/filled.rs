//! Sinks that begin with what the data pool has: nothing is missing, nothing comes twice, removals in between arrive.

use serde_json::{Value, json};

use super::copy::{Copy, agree};
use super::{patch, refusal};
use crate::faults::pause;
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::{Setup, is_in_a_cluster};

/// Streams of which the journal keeps nothing for sinks that are yet to come.
pub(super) fn folder() -> Setup {
    Setup::with_streams(&["orders", "merge-orders", "orders-brief", "other"])
        .merging("merge-orders")
        .unlimited()
        .set("storage.payload_retention_minutes", 0)
        .set("storage.payload_retention_bytes", 0)
}

/// A sink that is filled, with pages of so many items.
pub(super) fn filled(receiver: &Receiver, name: &str, page: u64) -> Value {
    json!({
        "name": name,
        "plugin": "http-forward",
        "streams": ["orders", "merge-*"],
        "start": "state",
        "batch": {"linger_ms": 0, "items_max": page},
        "retry": {"first_ms": 20, "max_ms": 50},
        "config": {"url": receiver.url("/in")},
        "http": {"hosts": [receiver.url("")], "networks": ["127.0.0.0/8"]},
    })
}

fn make(process: &Process, sink: &Value) -> Value {
    process.make("/api/admin/sinks", sink).data(201)
}

fn refill(process: &Process, name: &str) -> Value {
    let path = format!("/api/admin/sinks/{name}/refill");
    let answer = process.call("POST", &path, "");
    assert_eq!(answer.status, 202, "{}\n{}", answer.body, process.log());
    answer.data(202)
}

/// `count` items from the number `first` on.
fn items(first: u64, count: u64) -> String {
    let items = first..first + count;
    let items: Value = items.map(|id| json!({"id": id, "n": id})).collect();
    items.to_string()
}

/// Nobody has what was accepted so far but the pool.
pub(super) fn forgotten(process: &Process, folder: &Setup) {
    process.drained();
    // A database keeps payloads for some hours.
    if is_in_a_cluster() {
        return;
    }
    process.drained_when(|| {
        let sql = "SELECT count(*) FROM payloads";
        folder.journal().query_row(sql, [], |row| row.get(0)) == Ok(0)
    });
}

#[test]
fn a_sink_that_is_made_later_has_all_items_then_what_follows() {
    let folder = folder();
    let process = folder.spawn();
    for first in (0..300).step_by(60) {
        process.accepted("orders", BY_ID, &items(first, 60));
    }
    process.accepted("merge-orders", BY_ID, r#"{"id": "m", "a": 1}"#);
    process.accepted("merge-orders", BY_ID, r#"{"id": "m", "b": 2}"#);
    process.accepted("other", BY_ID, r#"{"id": "not for it"}"#);
    process.removed("orders", "7");
    forgotten(&process, &folder);

    let (receiver, copy) = Copy::content();
    make(&process, &filled(&receiver, "team", 50));
    let full = |sink: &Value| sink["lag"] == 0;
    let sink = process.sink_becomes("team", "full", full);
    assert_eq!(
        (&sink["state"], &sink["filling"]),
        (&json!("running"), &Value::Null)
    );
    assert_eq!(sink["behind_since"], Value::Null);
    let updates = copy.updates();
    assert_eq!(updates.len(), 300, "each item once");
    assert!(updates.iter().all(|(_, fill)| *fill == Some(1)));
    assert!(receiver.seen().len() >= 6, "pages of 50");
    assert_eq!(copy.table().len(), 300);
    process.removed("orders", "8");
    process.accepted("orders", BY_ID, r#"{"id": 9, "n": "new"}"#);
    process.accepted("merge-orders", BY_ID, r#"{"id": "m", "c": 3}"#);
    process.drained();
    let mut pool = super::copy::pool_of(&folder);
    pool.retain(|(stream, _), _| stream != "other");
    assert_eq!(copy.table(), pool);
    assert_eq!(
        process.metric("headgate_sink_fill_left{sink=\"team\"}"),
        Some(0.0)
    );
    process.stop();
}

#[test]
fn a_refill_skips_no_removal_and_its_keys_are_new() {
    let folder = folder();
    let process = folder.spawn();
    let (receiver, copy) = Copy::content();
    make(&process, &filled(&receiver, "team", 2));
    for id in ["a", "b", "c", "d", "e"] {
        process.accepted("orders", BY_ID, &json!({"id": id, "n": 1}).to_string());
    }
    process.accepted("orders", BY_ID, r#"{"id": "c", "n": 2}"#);
    agree(&process, &folder, &copy, "before");
    let keys = receiver.seen().len();
    // The sink has taken the update of a, and has not heard that it is gone.
    process
        .call("POST", "/api/admin/sinks/team/pause", "")
        .data(200);
    process.removed("orders", "a");
    process.accepted("orders", BY_ID, r#"{"id": "b", "n": 3}"#);
    process.drained_when(|| process.sink("pool")["lag"] == 0);
    // The receiver lost something that it had.
    assert_eq!(refill(&process, "team"), json!({"fill": 2, "items": 4}));
    process
        .call("POST", "/api/admin/sinks/team/resume", "")
        .data(200);
    agree(&process, &folder, &copy, "after");
    let seen = receiver.seen();
    let mut known: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("idempotency-key"))
        .collect();
    let all = known.len();
    assert!(all > keys, "it is sent again");
    known.sort_unstable();
    known.dedup();
    assert_eq!(
        known.len(),
        all,
        "no key comes again in a filling, or behind it"
    );
    // Once more: what came by the journal behind the first filling comes under other keys, too.
    assert_eq!(refill(&process, "team")["fill"], 3);
    process.accepted("orders", BY_ID, r#"{"id": "c", "n": 1}"#);
    agree(&process, &folder, &copy, "after the second");
    process.stop();
}

#[test]
fn a_receiver_that_refuses_one_item_has_the_others() {
    let folder = folder();
    let process = folder.spawn();
    process.accepted("orders", BY_ID, &items(100, 40));
    forgotten(&process, &folder);
    let (receiver, copy) = Copy::answering(|seen, _| match seen.body.contains("\"117\"") {
        true => Some(answer(503, "", "")),
        false => None,
    });
    let mut sink = filled(&receiver, "team", 10);
    sink["retry"]["attempts"] = json!(2);
    make(&process, &sink);
    process.sink_becomes("team", "full but for one", |sink| {
        sink["lag"] == 0 && sink["dead_letters"] == 1
    });
    let letter = process.dead_letter("team");
    assert_eq!(
        (&letter["key"], &letter["stream"]),
        (&json!("117"), &json!("orders"))
    );
    assert_eq!(copy.table().len(), 39);
    assert_eq!(copy.updates().len(), 39, "each item once");
    process.stop();
}

#[test]
fn while_it_fills_it_says_so_and_is_not_filled_again() {
    let folder = folder();
    let process = folder.spawn();
    process.accepted("orders", BY_ID, &items(0, 30));
    forgotten(&process, &folder);
    let open = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let door = std::sync::Arc::clone(&open);
    let (receiver, copy) = Copy::answering(move |_, number| {
        let is_open = number == 0 || door.load(std::sync::atomic::Ordering::Relaxed);
        (!is_open).then(|| answer(503, "", ""))
    });
    make(&process, &filled(&receiver, "team", 10));
    let sink = process.sink_becomes("team", "filled in part", |sink| {
        sink["filling"]["done"] == 10
    });
    assert_eq!(sink["filling"]["left"], 20, "{sink}");
    assert_eq!(sink["behind_since"], sink["filling"]["began_at"]);
    assert!(sink["lag"].as_u64() >= Some(20), "{sink}");
    assert!(["filling", "paused"].contains(&sink["state"].as_str().expect("a word")));
    assert_eq!(
        process.metric("headgate_sink_fill_left{sink=\"team\"}"),
        Some(20.0)
    );
    let again = process.call("POST", "/api/admin/sinks/team/refill", "");
    assert_eq!(refusal(&again, 409).0, "FILLING");
    // What is accepted meanwhile waits.
    process.accepted("orders", BY_ID, r#"{"id": 29, "n": "later"}"#);
    process.removed("orders", "28");
    // Neither a stop nor a kill changes that.
    process.kill();
    let process = folder.spawn();
    open.store(true, std::sync::atomic::Ordering::Relaxed);
    agree(&process, &folder, &copy, "filled");
    assert_eq!(process.sink("team")["state"], "running");
    process.stop();
}

#[test]
fn what_it_receives_from_now_on_it_has_from_the_pool_too() {
    let folder = folder();
    let process = folder.spawn();
    process.accepted("orders", BY_ID, &items(0, 20));
    forgotten(&process, &folder);
    let (receiver, copy) = Copy::content();
    let mut sink = filled(&receiver, "team", 5);
    sink["where"] = json!("n<10");
    make(&process, &sink);
    process.drained();
    assert_eq!(copy.table().len(), 10);
    let changed = patch(&process, "team", &json!({"where": "n<15"})).data(200);
    assert_eq!(changed["where"], "n<15");
    process.drained_when(|| copy.table().len() == 15 && process.is_drained());
    assert!(copy.updates().iter().any(|(_, fill)| *fill == Some(2)));
    // Another plugin setting is no reason to be filled.
    let updates = copy.updates().len();
    patch(&process, "team", &json!({"retry": {"first_ms": 30}})).data(200);
    process.accepted("orders", BY_ID, r#"{"id": 3, "n": 4}"#);
    process.drained();
    assert_eq!(copy.updates().len(), updates + 1);
    process.stop();
}

#[test]
fn what_cannot_be_filled_is_refused() {
    let mut folder = folder().sink(
        "filter",
        "filter-map",
        "other",
        "config = { rules = [{ drop = true }] }\n",
    );
    let process = folder.spawn();
    let receiver = Receiver::content();
    let mut sink = filled(&receiver, "team", 5);
    sink["streams"] = json!(["other"]);
    let refused = process.call("POST", "/api/admin/sinks", &sink.to_string());
    let (code, message) = refusal(&refused, 409);
    assert_eq!(code, "NO_STATE");
    assert!(message.contains("\"filter\""), "{message}");
    sink["start"] = json!("now");
    make(&process, &sink);
    let refused = process.call("POST", "/api/admin/sinks/team/refill", "");
    assert_eq!(refusal(&refused, 409).0, "NO_STATE");
    let refused = process.call("POST", "/api/admin/sinks/filter/refill", "");
    assert_eq!(refusal(&refused, 409).0, "NOTHING_TO_FILL");
    let refused = process.call("POST", "/api/admin/sinks/nobody/refill", "");
    assert_eq!(refusal(&refused, 404).0, "SINK_NOT_FOUND");
    process.stop();
    folder = folder.sink("late", "http-forward", "other", "start = \"state\"\nconfig = { url = \"http://127.0.0.1:9/\" }\nhttp = { hosts = [\"http://127.0.0.1:9\"] }\n");
    let Err(said) = folder.try_spawn() else {
        panic!("the configuration is not refused");
    };
    assert!(format!("{said:?}").contains("start"), "{said:?}");
}

#[test]
fn kills_in_a_filling_leave_nothing_out_and_repeat_nothing_under_another_key() {
    let folder = folder();
    let mut process = folder.spawn();
    process.accepted("orders", BY_ID, &items(0, 400));
    forgotten(&process, &folder);
    let (receiver, copy) = Copy::content();
    make(&process, &filled(&receiver, "team", 7));
    for round in 0..6 {
        process.accepted(
            "orders",
            BY_ID,
            &json!({"id": round * 50, "n": "later"}).to_string(),
        );
        process.removed("orders", &(round * 40 + 3).to_string());
        pause(std::time::Duration::from_millis(20 * round));
        process.kill();
        process = folder.spawn();
    }
    agree(&process, &folder, &copy, "after kills");
    let seen = receiver.seen();
    assert!(seen.len() > 57, "{} pages", seen.len());
    process.stop();
}
