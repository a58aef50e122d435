//! Sinks that follow the newest state of the data pool, at random moments, with kills, pauses, refusals and lost answers in
//! between: in the end a receiver has what the pool has, removals and all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::copy::{Copy, Table, pool_of};
use super::{patch, refusal};
use crate::app::Random;
use crate::faults::{number, pause, random};
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::{PROCESS_DEADLINE, eventually, eventually_within};

/// Rounds of a run.
const ROUNDS: u64 = 24;
const STREAMS: [&str; 2] = ["orders", "merge-orders"];

pub(super) fn folder() -> Setup {
    Setup::with_streams(&["orders", "merge-orders", "other"])
        .merging("merge-orders")
        .unlimited()
}

/// A sink that follows, with calls of so many items.
pub(super) fn following(receiver: &Receiver, items_max: u64) -> Value {
    json!({
        "name": "team",
        "plugin": "http-forward",
        "mode": "latest",
        "max_rate": 1000,
        "streams": ["orders", "merge-*"],
        "batch": {"linger_ms": 0, "items_max": items_max},
        "retry": {"first_ms": 1, "max_ms": 20},
        "config": {"url": receiver.url("/in")},
        "http": {"hosts": [receiver.url("")], "networks": ["127.0.0.0/8"]},
    })
}

/// Somebody who takes everything.
fn content() -> (Receiver, Copy) {
    let copy = Copy::replacing();
    let taker = copy.clone();
    let receiver = Receiver::start(move |seen, _| {
        taker.note(seen);
        taker.take(seen);
        answer(200, "", "")
    });
    (receiver, copy)
}

/// The copy has what the pool has of the streams that the sink follows, with `n` in this range.
#[track_caller]
fn agree(process: &Process, folder: &Setup, copy: &Copy, least: u64, about: &str) {
    process.drained();
    let expected = || -> Table {
        let rows = pool_of(folder).into_iter();
        rows.filter(|((stream, _), row)| stream != "other" && row["n"].as_u64() >= Some(least))
            .collect()
    };
    let told = || {
        format!(
            "{about}: {:?}\nand the pool has {:?}\n{}",
            copy.table(),
            expected(),
            process.log()
        )
    };
    eventually_within(PROCESS_DEADLINE, told, || {
        (copy.table() == expected()).then_some(())
    });
}

fn operate(process: &Process, random: &mut Random, number: u64) {
    let stream = *random.one_of(&STREAMS);
    let key = |random: &mut Random| format!("k{}", random.within(0..20));
    if random.once_in(3) {
        process.removed(stream, &key(random));
        return;
    }
    let items: Value = (0..random.within(1..8))
        .map(|_| json!({"id": key(random), "n": random.within(0..100), format!("f{}", number % 3): number}))
        .collect();
    process.accepted(stream, BY_ID, &items.to_string());
}

/// What the receiver does with a request, in thousandths: it refuses it, it takes it and the answer is lost.
#[derive(Debug, Default)]
struct Faults {
    refuses: AtomicU64,
    loses: AtomicU64,
}

#[test]
fn a_sink_that_follows_has_what_the_pool_has_whatever_happens() {
    let mut random = random("newest");
    let folder = folder();
    let mut process = folder.spawn();
    let faults = Arc::new(Faults::default());
    let copy = Copy::replacing();
    let (taker, said) = (copy.clone(), Arc::clone(&faults));
    let dice = Mutex::new(Random(random.next()));
    let receiver = Receiver::start(move |seen, _| {
        taker.note(seen);
        let mut dice = dice.lock().expect("no panic while held");
        let happens = |dice: &mut Random, rate: &AtomicU64| {
            dice.within(0..1_000) < rate.load(Ordering::Relaxed)
        };
        if happens(&mut dice, &said.refuses) {
            return answer(*dice.one_of(&[500, 503, 429]), "", "");
        }
        taker.take(seen);
        match happens(&mut dice, &said.loses) {
            true => answer(502, "", ""),
            false => answer(200, "", ""),
        }
    });
    let mut least = 0;
    let items_max = random.within(1..7);
    process
        .make("/api/admin/sinks", &following(&receiver, items_max))
        .data(201);
    let mut operations = 0;
    for round in 0..number("HEADGATE_JOINS").unwrap_or(ROUNDS) {
        faults
            .refuses
            .store(*random.one_of(&[0, 100, 500, 1_000]), Ordering::Relaxed);
        faults
            .loses
            .store(*random.one_of(&[0, 300]), Ordering::Relaxed);
        if random.once_in(4) {
            least = *random.one_of(&[0, 30, 60]);
            let conditions = json!({"where": format!("n>={least}")});
            patch(&process, "team", &conditions).data(200);
        }
        if random.once_in(4) {
            process
                .call("POST", "/api/admin/sinks/team/pause", "")
                .data(200);
        }
        for _ in 0..random.within(1..16) {
            operations += 1;
            operate(&process, &mut random, operations);
            if random.once_in(8) {
                pause(Duration::from_micros(random.within(0..20_000)));
                process.kill();
                // A call of before would come after what the next daemon sends.
                receiver.ends_calls();
                process = folder.spawn();
            }
        }
        process
            .call("POST", "/api/admin/sinks/team/resume", "")
            .data(200);
        if random.once_in(5) {
            let begun = process.call("POST", "/api/admin/sinks/team/refill", "");
            assert!([202, 409].contains(&begun.status), "{}", begun.body);
        }
        if random.once_in(2) {
            faults.refuses.store(0, Ordering::Relaxed);
            faults.loses.store(0, Ordering::Relaxed);
            agree(&process, &folder, &copy, least, &format!("round {round}"));
        }
    }
    faults.refuses.store(0, Ordering::Relaxed);
    faults.loses.store(0, Ordering::Relaxed);
    agree(&process, &folder, &copy, least, "the end");
    assert_eq!(process.dead_letters("team"), [] as [Value; 0]);
    process.stop();
}

#[test]
fn what_was_overtaken_is_never_sent_and_nothing_waits() {
    let down = Arc::new(AtomicU64::new(0));
    let copy = Copy::replacing();
    let refused = Arc::new(AtomicU64::new(0));
    let (taker, is_down, refuses) = (copy.clone(), Arc::clone(&down), Arc::clone(&refused));
    let receiver = Receiver::start(move |seen, _| match is_down.load(Ordering::Relaxed) {
        0 => {
            taker.take(seen);
            answer(200, "", "")
        }
        _ => {
            refuses.fetch_add(1, Ordering::Relaxed);
            answer(503, "", "down")
        }
    });
    let folder = folder();
    let process = folder.spawn();
    process
        .make("/api/admin/sinks", &following(&receiver, 100))
        .data(201);
    process.sink_becomes("team", "running", |sink| sink["state"] == "running");
    down.store(1, Ordering::Relaxed);
    process.processed(
        "orders",
        BY_ID,
        r#"[{"id": "a", "n": 0}, {"id": "b", "n": 0}]"#,
    );
    for number in 1..50 {
        // A request is processed as soon as the other sinks have it.
        let items = json!([{"id": "a", "n": number}]).to_string();
        process.processed("orders", BY_ID, &items);
    }
    process.removed("orders", "b");
    // One call may have been made of what was there before.
    let before = refused.load(Ordering::Relaxed);
    crate::wait::eventually("a call is made of what is there now", || {
        (refused.load(Ordering::Relaxed) >= before + 2).then_some(())
    });
    process.sink_becomes("team", "failing", |sink| sink["state"] == "failing");
    let shown = process.sink("team");
    assert_eq!(
        (&shown["retries"], &shown["dead_letters"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(shown["mode"], "latest");
    down.store(0, Ordering::Relaxed);
    agree(&process, &folder, &copy, 0, "it is back");
    let updates: Vec<String> = copy.updates().into_iter().map(|(key, _)| key).collect();
    assert_eq!(
        updates,
        ["a"],
        "the newest of one item, and nothing of one that is gone"
    );
    process.stop();
}

#[test]
fn what_is_refused_is_counted_and_comes_again_when_it_changes() {
    let copy = Copy::replacing();
    let taker = copy.clone();
    let receiver = Receiver::start(move |seen, _| match seen.body.contains("bad") {
        true => answer(422, "", "no bad"),
        false => {
            taker.take(seen);
            answer(200, "", "")
        }
    });
    let folder = folder();
    let process = folder.spawn();
    process
        .make("/api/admin/sinks", &following(&receiver, 1))
        .data(201);
    // Items that come while it is filled may be handed over by the filling and as changes.
    process.sink_becomes("team", "running", |sink| sink["state"] == "running");
    process.processed(
        "orders",
        BY_ID,
        r#"[{"id": "a", "n": 1, "is": "bad"}, {"id": "b", "n": 2}]"#,
    );
    process.drained();
    let shown = process.sink("team");
    // Once, or twice where the filling had only begun to run.
    let rejected = shown["latest"]["rejected"].as_u64();
    assert!((Some(1)..=Some(2)).contains(&rejected), "{shown}");
    assert!(
        shown["latest"]["last_rejected"]
            .as_str()
            .is_some_and(|why| why.contains("no bad")),
        "{shown}"
    );
    assert_eq!(
        process.metric("headgate_sink_rejected_total{sink=\"team\"}"),
        rejected.map(|count| count as f64)
    );
    assert_eq!(process.dead_letters("team"), [] as [Value; 0]);
    process.processed("orders", BY_ID, r#"{"id": "a", "n": 3}"#);
    agree(&process, &folder, &copy, 0, "mended");
    process.stop();
}

#[test]
fn a_sink_that_shows_has_what_operators_put_over_it() {
    let (receiver, copy) = content();
    let folder = folder();
    let process = folder.spawn();
    process.processed(
        "orders",
        BY_ID,
        r#"[{"id": "a", "n": 1}, {"id": "b", "n": 2}]"#,
    );
    let mut sink = following(&receiver, 10);
    sink["shown"] = json!(true);
    process.make("/api/admin/sinks", &sink).data(201);
    let fields = |key: &str| {
        copy.table()
            .get(&("orders".to_owned(), key.to_owned()))
            .cloned()
    };
    eventually("all of it", || {
        (fields("b") == Some(json!({"id": "b", "n": 2}))).then_some(())
    });
    let put = json!({"key": "a", "fields": {"n": 9}}).to_string();
    process
        .call("POST", "/api/admin/streams/orders/override", &put)
        .data(202);
    eventually("the override", || {
        (fields("a") == Some(json!({"id": "a", "n": 9}))).then_some(())
    });
    process
        .call("POST", "/api/admin/streams/orders/hold", "{}")
        .data(202);
    process.processed("orders", BY_ID, r#"{"id": "b", "n": 7}"#);
    process.drained();
    assert_eq!(fields("b"), Some(json!({"id": "b", "n": 2})), "it is held");
    process
        .call("POST", "/api/admin/streams/orders/take", "{}")
        .data(202);
    eventually("what was held", || {
        (fields("b") == Some(json!({"id": "b", "n": 7}))).then_some(())
    });
    process.stop();
}

#[test]
fn what_does_not_go_with_following_is_refused_by_its_name() {
    let (receiver, _) = content();
    let process = folder().spawn();
    let whole = following(&receiver, 10);
    for (name, value, says) in [
        (
            "start",
            json!("journal"),
            "start mode = \"latest\" always starts with all items",
        ),
        (
            "start",
            json!("now"),
            "start mode = \"latest\" always starts with all items",
        ),
        (
            "retry",
            json!({"attempts": 3}),
            "retry.attempts with mode = \"latest\"",
        ),
        (
            "ordering",
            json!("strict"),
            "ordering with mode = \"latest\"",
        ),
        (
            "in_flight",
            json!(2),
            "in_flight mode = \"latest\" makes one call",
        ),
        (
            "mode",
            json!("journal"),
            "max_rate requires mode = \"latest\"",
        ),
    ] {
        let mut sink = whole.clone();
        sink[name] = value;
        let (_, told) = refusal(
            &process.call("POST", "/api/admin/sinks", &sink.to_string()),
            400,
        );
        assert!(told.contains(says), "{name}: {told}");
    }
    let mut unknown = whole.clone();
    unknown["streams"] = json!(["nobody-writes"]);
    unknown["plugin"] = json!("pool");
    let answer = process.call("POST", "/api/admin/sinks", &unknown.to_string());
    assert!((400..500).contains(&answer.status), "{}", answer.body);
    process.make("/api/admin/sinks", &whole).data(201);
    let (_, told) = refusal(
        &patch(
            &process,
            "team",
            &json!({"mode": "journal", "max_rate": null}),
        ),
        400,
    );
    assert!(told.contains("mode cannot be changed"), "{told}");
    process.stop();
}
