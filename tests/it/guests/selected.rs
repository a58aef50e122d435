//! Sinks with `where` and `fields`: what a receiver gets of its streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::http::{LOOPBACK, ONCE};
use super::nobody_else_suffers;
use crate::command_line::{finish, headgate};
use crate::process::BY_ID;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;

/// A daemon whose stream `hostile` is forwarded as an array of items, with these settings of the sink.
fn forwarding(receiver: &Receiver, more: &str) -> Setup {
    let url = receiver.url("/in");
    let host = receiver.url("");
    let more = format!(
        "{more}config = {{ url = {url:?} }}\nhttp = {{ hosts = [{host:?}], {LOOPBACK} }}\n"
    );
    Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", "http-forward", "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

const ORDERS: &str = r#"[
    {"id": "a", "status": "paid", "total": 100.00, "customer": {"name": "Ann", "city": "Bern"}},
    {"id": "b", "status": "open", "total": 900},
    {"id": "c", "status": "paid", "total": "250.50", "customer": {"name": "Cem"}},
    {"id": "d", "status": "paid", "total": 99.99, "customer": {"name": "Dee"}},
    {"id": "e", "status": "paid"}
]"#;

#[test]
fn a_receiver_gets_the_items_and_fields_that_it_asks_for() {
    let receiver = Receiver::content();
    let more = format!(
        "{ONCE}where = \"status:paid,total>=100\"\nfields = \"Customer:customer.name,total,request:_request_id\"\n"
    );
    let process = forwarding(&receiver, &more).spawn();
    let id = process.processed("hostile", BY_ID, ORDERS);
    let seen = receiver.seen();
    let [seen] = &seen[..] else {
        panic!("one request was expected: {seen:?}");
    };
    // The number keeps its text.
    assert!(
        seen.body
            .contains(r#"{"Customer":"Ann","total":100.00,"request":"#),
        "{}",
        seen.body
    );
    let items = seen.json();
    let items = items.as_array().expect("items");
    let fields: Vec<&Value> = items.iter().map(|item| &item["fields"]).collect();
    assert_eq!(
        fields,
        [
            &json!({"Customer": "Ann", "total": 100.0, "request": id}),
            &json!({"Customer": "Cem", "total": "250.50", "request": id}),
        ]
    );
    // Each has its place in the request, whatever was left out before it.
    assert_eq!(
        items
            .iter()
            .map(|item| (&item["key"], &item["place"][1]))
            .collect::<Vec<_>>(),
        [(&json!("a"), &json!(0)), (&json!("c"), &json!(2))]
    );
    let sink = process.sink("hostile");
    assert_eq!(sink["where"], "status:paid,total>=100");
    nobody_else_suffers(process);
}

#[test]
fn requests_without_a_matching_item_are_processed_without_a_call() {
    let receiver = Receiver::content();
    let process = forwarding(&receiver, &format!("{ONCE}where = \"status:paid\"\n")).spawn();
    for number in 0..5 {
        let body = format!("{{\"id\": \"{number}\", \"status\": \"open\"}}");
        process.processed("hostile", BY_ID, &body);
    }
    assert_eq!(receiver.seen().len(), 0);
    process.processed("hostile", BY_ID, r#"{"id": "1", "status": "paid"}"#);
    // An update that does not match any more is skipped.
    process.processed("hostile", BY_ID, r#"{"id": "1", "status": "open"}"#);
    let seen = receiver.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0].json()[0]["fields"]["status"], "paid");
    nobody_else_suffers(process);
}

#[test]
fn removals_pass_unless_their_key_or_stream_does_not() {
    let receiver = Receiver::content();
    let more = format!("{ONCE}where = \"status:paid,_key^match-\"\nfields = \"id,key:_key\"\n");
    let process = forwarding(&receiver, &more).spawn();
    let body = r#"[{"id": "match-1", "status": "open"}, {"id": "other", "status": "open"}]"#;
    process.processed("hostile", BY_ID, body);
    process.removed("hostile", "match-1");
    process.drained();
    process.removed("hostile", "other");
    process.drained();
    let seen = receiver.seen();
    let [seen] = &seen[..] else {
        panic!("one request was expected: {seen:?}");
    };
    let items = seen.json();
    assert_eq!(items.as_array().expect("items").len(), 1);
    assert_eq!(items[0]["key"], "match-1");
    assert_eq!(items[0]["removed"], true);
    assert!(items[0].get("fields").is_none(), "{items}");
    nobody_else_suffers(process);
}

/// What was selected is tried again; with other fields it has another key, since it is another body.
#[test]
fn other_fields_come_under_another_idempotency_key() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let receiver = Receiver::start(move |_, _| match up.load(Ordering::SeqCst) {
        true => answer(204, "", ""),
        false => answer(503, "", "later"),
    });
    let more = "retry = { first_ms = 20, max_ms = 20, attempts = 100000 }\nwhere = \"total>=100\"\nfields = \"id,total\"\n";
    let mut folder = forwarding(&receiver, more);
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, ORDERS);
    let keys = || -> Vec<(String, String)> {
        let seen = receiver.seen();
        let of = seen.iter().map(|seen| {
            let key = seen.header("idempotency-key").expect("a key");
            (key.to_owned(), seen.body.clone())
        });
        of.collect()
    };
    eventually("it was tried twice", || (keys().len() >= 2).then_some(()));
    let before = keys();
    assert_eq!(before[0], before[1], "the same items, the same key");
    folder.change("fields = \"id,total\"", "fields = \"id\"");
    process.hang_up();
    eventually("the other fields are tried", || {
        (keys().last()?.1 != before[0].1).then_some(())
    });
    is_up.store(true, Ordering::SeqCst);
    process.request_becomes(&id, "processed");
    let (key, body) = keys().pop().expect("a request");
    assert_ne!(key, before[0].0);
    let items: Value = serde_json::from_str(&body).expect("JSON");
    let fields: Vec<&Value> = (items.as_array().expect("items").iter())
        .map(|item| &item["fields"])
        .collect();
    assert_eq!(
        fields,
        [
            &json!({"id": "a"}),
            &json!({"id": "b"}),
            &json!({"id": "c"})
        ]
    );
    nobody_else_suffers(process);
}

#[test]
fn a_dead_letter_has_the_whole_item() {
    let receiver = Receiver::start(|_, before| match before {
        0 => answer(422, "", "no"),
        _ => answer(204, "", ""),
    });
    let more = format!("{ONCE}where = \"status:paid,total>=200\"\nfields = \"id\"\n");
    let process = forwarding(&receiver, &more).spawn();
    process.failed("hostile", BY_ID, ORDERS);
    let letter = process.dead_letter("hostile");
    assert_eq!(letter["key"], "c");
    let fields = &letter["fields"];
    assert_eq!(fields["customer.name"], "Cem", "{letter}");
    let path = "/api/admin/sinks/hostile/dead-letters/retry";
    process.call("POST", path, "").data(200);
    process.sink_becomes("hostile", "without dead letters", |sink| {
        sink["dead_letters"] == 0 && sink["retries"] == 0
    });
    let seen = receiver.seen();
    assert_eq!(seen[1].json()[0]["fields"], json!({"id": "c"}));
    nobody_else_suffers(process);
}

/// The built-in sink shows screens what it received.
#[test]
fn the_pool_holds_the_items_and_fields_of_its_sink() {
    let folder = Setup::with_streams(&["orders"]).sink(
        "pool",
        "pool",
        "orders",
        "where = \"status:paid\"\nfields = \"-customer.*,-status\"\n",
    );
    let process = folder.spawn();
    process.processed("orders", BY_ID, ORDERS);
    let items: Vec<(String, Value)> = folder
        .items("orders")
        .into_iter()
        .map(|(key, fields, _)| (key, fields))
        .collect();
    let item = |key: &str, fields: Value| (key.to_owned(), fields);
    assert_eq!(
        items,
        [
            item("a", json!({"id": "a", "total": 100.0})),
            item("c", json!({"id": "c", "total": "250.50"})),
            item("d", json!({"id": "d", "total": 99.99})),
            item("e", json!({"id": "e"})),
        ]
    );
    process.stop();
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let receiver = Receiver::content();
    for (setting, words) in [
        (
            "where = \"total>=many\"\n",
            "sinks[0].where: where, character 8: a number is expected behind `>=`; `many` is none",
        ),
        (
            "where = \"_position:1\"\n",
            "where, character 1: `_position` is not known here",
        ),
        (
            "fields = \"id,Key:_key,id\"\n",
            "sinks[0].fields: fields, character 13: `id` is there twice, see character 1",
        ),
    ] {
        let folder = forwarding(&receiver, setting);
        folder.write();
        let mut command = headgate(&folder.path(""));
        command.args(["check", "--config", "headgate.toml"]);
        let done = finish(&mut command, "");
        assert_eq!(done.code, Some(2), "{}{}", done.out, done.err);
        let said = done.out + &done.err;
        assert!(said.contains(words), "{said}");
    }
}
