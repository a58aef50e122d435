//! Sinks that begin with the data pool, and begin again, at random moments under load, with kills and failing receivers in
//! between: in the end a receiver has what the pool has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::copy::{Copy, agree};
use super::filled::{filled, folder};
use crate::app::Random;
use crate::faults::{number, pause, random};
use crate::process::{BY_ID, Process};
use crate::receiver::answer;

/// Joins of a run.
const JOINS: u64 = 24;

const STREAMS: [&str; 3] = ["orders", "merge-orders", "orders-brief"];

/// A few random operations on few keys.
fn operate(process: &Process, random: &mut Random, number: u64) {
    let stream = *random.one_of(&STREAMS);
    let key = |random: &mut Random| format!("k{}", random.within(0..40));
    if random.once_in(4) {
        process.removed(stream, &key(random));
        return;
    }
    let items: Value = (0..random.within(1..12))
        .map(|item| {
            // Of a merged item, some of its fields.
            let field = format!("f{}", random.within(0..4));
            json!({"id": key(random), field: format!("{number}/{item}")})
        })
        .collect();
    // One object must not name a key twice with the same field; an array may.
    process.accepted(stream, BY_ID, &items.to_string());
}

#[test]
fn a_sink_that_joins_at_any_moment_has_what_the_pool_has() {
    let mut random = random("joins");
    let folder = folder().of_stream("orders-brief", "expire_after_seconds = 2");
    let mut process = folder.spawn();
    // Of the requests that come, so many in a thousand fail.
    let failing = Arc::new(AtomicU64::new(0));
    let rate = Arc::clone(&failing);
    let dice = Arc::new(std::sync::Mutex::new(Random(random.next())));
    let (receiver, copy) = Copy::answering(move |_, _| {
        let mut dice = dice.lock().expect("no panic while held");
        let fails = dice.within(0..1_000) < rate.load(Ordering::Relaxed);
        fails.then(|| answer(*dice.one_of(&[500, 503, 429]), "", ""))
    });
    let mut operations = 0;
    let mut is_made = false;
    for join in 0..number("HEADGATE_JOINS").unwrap_or(JOINS) {
        for _ in 0..random.within(0..12) {
            operations += 1;
            operate(&process, &mut random, operations);
        }
        failing.store(*random.one_of(&[0, 0, 100, 400]), Ordering::Relaxed);
        if is_made {
            // What is accepted while the sink is behind, or pauses, is what a filling has most to do with.
            if random.once_in(2) {
                process
                    .call("POST", "/api/admin/sinks/team/pause", "")
                    .data(200);
                for _ in 0..random.within(1..6) {
                    operations += 1;
                    operate(&process, &mut random, operations);
                }
            }
            let begun = process.call("POST", "/api/admin/sinks/team/refill", "");
            assert!([202, 409].contains(&begun.status), "{}", begun.body);
            process
                .call("POST", "/api/admin/sinks/team/resume", "")
                .data(200);
        } else {
            let page = random.within(1..9);
            let mut sink = filled(&receiver, "team", page);
            sink["streams"] = json!(["orders*", "merge-*"]);
            // No attempts are used up: nothing becomes a dead letter.
            sink["retry"] = json!({"first_ms": 1, "max_ms": 20, "attempts": 1_000_000});
            if random.once_in(3) {
                sink["in_flight"] = json!(3);
            }
            process.make("/api/admin/sinks", &sink).data(201);
            is_made = true;
        }
        for _ in 0..random.within(0..8) {
            operations += 1;
            operate(&process, &mut random, operations);
            if random.once_in(6) {
                pause(Duration::from_micros(random.within(0..30_000)));
                process.kill();
                process = folder.spawn();
            }
        }
        if random.once_in(3) {
            failing.store(0, Ordering::Relaxed);
            agree(&process, &folder, &copy, &format!("join {join}"));
            if random.once_in(2) {
                // Another one begins with nothing.
                process
                    .call("DELETE", "/api/admin/sinks/team?discard=true", "")
                    .data(200);
                copy.lose();
                is_made = false;
            }
        }
    }
    failing.store(0, Ordering::Relaxed);
    if is_made {
        agree(&process, &folder, &copy, "the end");
    }
    process.stop();
}
