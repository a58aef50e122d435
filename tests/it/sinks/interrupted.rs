//! Sinks that follow the newest state and are interrupted: by a kill, by a failure in the middle of a call, by removals that
//! the data pool has forgotten. Afterwards the receiver has the items of the data pool.
//!
//! **Invariant**: each test waits for something that the sink sends later than the checked items, so a missing item fails the
//! test at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::copy::{Copy, Table, pool_of};
use super::newest::{folder, following};
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, Reply, answer};
use crate::wait::eventually;

/// Answers to the next call with the item `b`: 200, none, 503.
const ACCEPTS: u64 = 0;
const STALLS: u64 = 1;
const FAILS: u64 = 2;

/// A receiver, its copy of the streams, and its answer to the next call with the item `b`.
fn receiver() -> (Receiver, Copy, Arc<AtomicU64>) {
    let (copy, next) = (Copy::replacing(), Arc::new(AtomicU64::new(ACCEPTS)));
    let (taker, says) = (copy.clone(), Arc::clone(&next));
    let receiver = Receiver::start(move |seen, _| {
        taker.note(seen);
        let says = match seen.body.contains(r#""key":"b""#) {
            true => says.swap(ACCEPTS, Ordering::Relaxed),
            false => ACCEPTS,
        };
        if says == FAILS {
            return answer(503, "", "");
        }
        taker.take(seen);
        match says {
            STALLS => Reply::Stall(String::new()),
            _ => answer(200, "", ""),
        }
    });
    (receiver, copy, next)
}

/// A sink that sends each item in a request of its own.
fn one_by_one(receiver: &Receiver) -> Value {
    let mut sink = following(receiver, 100);
    sink["config"]["per"] = json!("item");
    sink
}

fn items(keys: &[&str], n: u64) -> String {
    let items: Value = keys.iter().map(|key| json!({"id": key, "n": n})).collect();
    items.to_string()
}

fn tell(process: &Process, verb: &str) {
    let path = format!("/api/admin/sinks/team/{verb}");
    process.call("POST", &path, "").data(200);
}

/// Removes items and waits for the data pool: the sink is paused.
fn removed_meanwhile(process: &Process, keys: &[&str]) {
    for key in keys {
        process.removed("orders", key);
    }
    process.drained_when(|| process.sink("pool")["lag"] == 0);
}

/// Sends a last item and waits for it; then the copy must equal the data pool.
#[track_caller]
fn agree(process: &Process, folder: &crate::setup::Setup, copy: &Copy, last: &str) {
    process.accepted("orders", BY_ID, &items(&[last], 1));
    let has_last = |table: &Table| table.contains_key(&("orders".to_owned(), last.to_owned()));
    eventually("the last item arrives", || {
        has_last(&copy.table()).then_some(())
    });
    assert_eq!(copy.table(), pool_of(folder), "{}", process.log());
}

#[test]
fn a_kill_during_a_call_does_not_lose_the_removal_of_its_items() {
    let (receiver, copy, next) = receiver();
    let folder = folder();
    let process = folder.spawn();
    process
        .make("/api/admin/sinks", &following(&receiver, 100))
        .data(201);
    next.store(STALLS, Ordering::Relaxed);
    process.accepted("orders", BY_ID, &items(&["b"], 1));
    eventually("the receiver has the item and does not answer", || {
        (copy.table().len() == 1).then_some(())
    });
    // The next daemon does not call the sink before the item is removed.
    tell(&process, "pause");
    process.kill();
    receiver.ends_calls();
    let process = folder.spawn();
    removed_meanwhile(&process, &["b"]);
    tell(&process, "resume");
    agree(&process, &folder, &copy, "z");
    process.stop();
}

#[test]
fn a_sink_is_refilled_if_removals_were_forgotten_while_it_was_paused() {
    let (receiver, copy, _) = receiver();
    let folder = folder();
    let process = folder.spawn();
    process
        .make("/api/admin/sinks", &following(&receiver, 100))
        .data(201);
    process.accepted("orders", BY_ID, &items(&["a", "b"], 1));
    eventually("the receiver has both", || {
        (copy.table().len() == 2).then_some(())
    });
    tell(&process, "pause");
    removed_meanwhile(&process, &["a"]);
    // The same change as after 100,000 later removals.
    let forget = "BEGIN IMMEDIATE;
        UPDATE history SET floor = (SELECT max(seq) FROM removed);
        DELETE FROM removed;
        COMMIT;";
    assert_eq!(folder.tamper("pool.db", forget), 1);
    tell(&process, "resume");
    agree(&process, &folder, &copy, "z");
    let because = &process.sink("team")["latest"]["refilled_because"];
    let because = because.as_str().expect("a reason");
    assert!(because.contains("no longer stored"), "{because}");
    process.stop();
}

#[test]
fn items_after_a_failure_in_the_middle_of_a_call_are_sent_again() {
    let (receiver, copy, next) = receiver();
    let folder = folder();
    let process = folder.spawn();
    let keys = ["a", "b", "c"];
    process.processed("orders", BY_ID, &items(&keys, 1));
    // A failure in the middle of a page of the refill,
    next.store(FAILS, Ordering::Relaxed);
    process
        .make("/api/admin/sinks", &one_by_one(&receiver))
        .data(201);
    agree(&process, &folder, &copy, "d");
    process.drained();
    // of updates,
    next.store(FAILS, Ordering::Relaxed);
    let before = receiver.seen().len();
    process.processed("orders", BY_ID, &items(&keys, 2));
    process.drained();
    assert_eq!(copy.table(), pool_of(&folder), "{}", process.log());
    let sent = receiver.seen().split_off(before).into_iter();
    let sent: Vec<_> = sent.map(|seen| seen.json()[0]["key"].clone()).collect();
    assert_eq!(
        sent,
        ["a", "b", "b", "c"],
        "the accepted item is not sent again"
    );
    // and of removals.
    tell(&process, "pause");
    removed_meanwhile(&process, &keys);
    next.store(FAILS, Ordering::Relaxed);
    tell(&process, "resume");
    process.drained();
    assert_eq!(copy.table(), pool_of(&folder), "{}", process.log());
    assert_eq!(copy.table().len(), 1, "only the last item is left");
    process.stop();
}
