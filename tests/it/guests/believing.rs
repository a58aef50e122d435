//! Receivers that believe what identifies a request: each item reaches them under one key, whatever fails in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use super::http::LOOPBACK;
use super::nobody_else_suffers;
use crate::process::{BY_ID, Process};
use crate::receiver::{Book, Receiver, Reply, Seen, answer};
use crate::setup::Setup;
use crate::wait::eventually;

const PATIENT: &str = "retry = { first_ms = 10, max_ms = 40, attempts = 1000 }\n";
/// What `webhook` signs with.
const SIGNING: &str =
    "secrets = { signing = \"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\" }\n";

/// A daemon whose stream `hostile` goes to the receiver.
fn sending(receiver: &Receiver, plugin: &str, config: &str, more: &str) -> Setup {
    let host = receiver.url("");
    let more = format!(
        "{more}config = {{ url = \"{host}/in\"{config} }}\nhttp = {{ hosts = [{host:?}], {LOOPBACK} }}\n"
    );
    Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", plugin, "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

fn send(process: &Process, keys: &[&str]) -> String {
    let items: Vec<String> = (keys.iter())
        .map(|key| format!("{{\"id\": \"{key}\"}}"))
        .collect();
    process.accepted("hostile", BY_ID, &format!("[{}]", items.join(",")))
}

/// Whether there is one left, which it takes.
fn take(left: &AtomicUsize) -> bool {
    let less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        .is_ok()
}

/// The keys of the items in a request.
fn keys(seen: &Seen) -> Vec<String> {
    let body = seen.json();
    let list = match body.get("data") {
        Some(data) => data.clone(),
        None => body,
    };
    let list = list.as_array().expect("a list");
    let key = |item: &Value| item["key"].as_str().expect("a key").to_owned();
    list.iter().map(key).collect()
}

#[test]
fn a_batch_that_nobody_settled_comes_again_as_it_was() {
    for (plugin, config, known_by, more) in [
        ("http-forward", "", "idempotency-key", ""),
        ("webhook", ", per = \"batch\"", "webhook-id", SIGNING),
        ("webhook", ", per = \"batch\"", "idempotency-key", SIGNING),
    ] {
        let book = Book::default();
        let (open, hangs) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(1));
        let receiver = Receiver::start({
            let (book, open) = (book.clone(), Arc::clone(&open));
            move |request, before| {
                if before == 0 {
                    // So that the next batch holds what comes meanwhile.
                    eventually("the door opens", || {
                        open.load(Ordering::Relaxed).then_some(())
                    });
                }
                book.take(request.header(known_by).expect("a key"), keys(request));
                match before > 0 && hangs.swap(0, Ordering::Relaxed) == 1 {
                    // It has the items, and nobody learns of it.
                    true => Reply::Stall(String::new()),
                    false => answer(200, "", ""),
                }
            }
        });
        let batch = "batch = { items_max = 100 }\n";
        let more = format!("{PATIENT}{batch}{more}");
        let mut folder = sending(&receiver, plugin, config, &more);
        let process = folder.spawn();
        send(&process, &["first"]);
        eventually("a request", || (receiver.seen().len() == 1).then_some(()));
        send(&process, &["a0", "a1"]);
        send(&process, &["b0"]);
        open.store(true, Ordering::Relaxed);
        eventually("a batch", || (receiver.seen().len() == 2).then_some(()));
        let last = send(&process, &["c0", "c1"]);
        process.kill();
        // What would be cut now is another batch.
        folder.change("items_max = 100", "items_max = 1");
        let process = folder.spawn();
        process.request_becomes(&last, "processed");
        process.drained();
        let seen = receiver.seen();
        assert_eq!(keys(&seen[1]), ["a0", "a1", "b0"], "{plugin}");
        assert_eq!(keys(&seen[2]), keys(&seen[1]), "{plugin}");
        assert_eq!(seen[2].header(known_by), seen[1].header(known_by));
        book.holds_each_once(&["first", "a0", "a1", "b0", "c0", "c1"]);
        nobody_else_suffers(process);
    }
}

#[test]
fn what_was_acknowledged_never_comes_again_when_a_later_part_fails() {
    // Patient, and so impatient that the rest is halved.
    for (retry, refusals) in [
        (PATIENT, 5),
        ("retry = { first_ms = 10, max_ms = 40, attempts = 2 }\n", 2),
    ] {
        let book = Book::default();
        let left = AtomicUsize::new(refusals);
        let receiver = Receiver::start({
            let book = book.clone();
            move |request, _| {
                let keys = keys(request);
                let last = keys.iter().any(|key| key == "e");
                if last && take(&left) {
                    return answer(503, "", "later");
                }
                book.take(request.header("idempotency-key").expect("a key"), keys);
                answer(200, "", "")
            }
        });
        let process = sending(&receiver, "http-forward", ", max_items = 2", retry).spawn();
        let id = send(&process, &["a", "b", "c", "d", "e", "f"]);
        process.request_becomes(&id, "processed");
        book.holds_each_once(&["a", "b", "c", "d", "e", "f"]);
        let with = |key: &str| {
            let seen = receiver.seen();
            seen.iter()
                .filter(|one| keys(one).iter().any(|own| own == key))
                .count()
        };
        assert_eq!((with("a"), with("c"), with("e")), (1, 1, refusals + 1));
        nobody_else_suffers(process);
    }
}

#[test]
fn what_was_refused_before_a_failure_is_refused_for_good() {
    let book = Book::default();
    let failures = AtomicUsize::new(3);
    let receiver = Receiver::start({
        let book = book.clone();
        move |request, _| {
            let keys = keys(request);
            match &*keys[0] {
                "a" => return answer(422, "", "no a please"),
                "e" if take(&failures) => {
                    return answer(503, "", "later");
                }
                _ => {}
            }
            book.take(request.header("idempotency-key").expect("a key"), keys);
            answer(200, "", "")
        }
    });
    let process = sending(&receiver, "http-forward", ", max_items = 2", PATIENT).spawn();
    let id = send(&process, &["a", "b", "c", "d", "e", "f"]);
    process.request_becomes(&id, "failed");
    process.drained();
    book.holds_each_once(&["c", "d", "e", "f"]);
    let letters = process.dead_letters("hostile");
    let mut dead: Vec<_> = (letters.iter())
        .map(|letter| letter["key"].as_str())
        .collect();
    dead.sort_unstable();
    assert_eq!(dead, [Some("a"), Some("b")]);
    assert_eq!(letters[0]["reason"], "answered 422: no a please");
    let first = receiver
        .seen()
        .iter()
        .filter(|one| keys(one)[0] == "a")
        .count();
    assert_eq!(first, 1, "they are not asked for again");
    nobody_else_suffers(process);
}

#[test]
fn webhooks_that_were_taken_one_by_one_are_not_sent_again() {
    let failures = AtomicUsize::new(3);
    let receiver = Receiver::start(move |request, _| {
        let is_last = request.json()["data"]["key"] == "c";
        match is_last && take(&failures) {
            true => answer(500, "", ""),
            false => answer(204, "", ""),
        }
    });
    let more = format!("{PATIENT}{SIGNING}");
    let process = sending(&receiver, "webhook", "", &more).spawn();
    let id = send(&process, &["a", "b", "c", "d"]);
    process.request_becomes(&id, "processed");
    let seen = receiver.seen();
    let ids: Vec<_> = seen
        .iter()
        .map(|one| one.header("webhook-id").expect("an id"))
        .collect();
    let expected = [0, 1, 2, 2, 2, 2, 3].map(|place| format!("{id}.{place}"));
    assert_eq!(ids, expected);
    let mut keys: Vec<_> = seen
        .iter()
        .map(|one| one.header("idempotency-key"))
        .collect();
    keys.dedup();
    assert_eq!(keys.len(), 4);
    nobody_else_suffers(process);
}
