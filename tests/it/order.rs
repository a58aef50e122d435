//! Operations in the order in which they were accepted: a request is one entry, whatever it asks of its items.

mod cases; // those of `order-vectors.json`
mod histories; // random ones, against the model
mod model; // the rules as plain as they can be

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::TestApp;
use crate::process::BY_ID;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;

/// A component of an older world, which takes updates and removals in calls of their own.
const OLDER: [&str; 2] = [
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/components/pool-of-1.0.0.wasm"
    ),
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/components/pool-of-1.1.0.wasm"
    ),
];
const RULES: &str = "version = \"rev\"\ndelete_when = { field = \"op\", is = [\"del\"] }";

/// The streams `replaced` and `merged`, each with a connector of its name.
async fn daemon() -> TestApp {
    Setup::new()
        .stream_with("replaced", RULES)
        .stream_with("merged", &format!("{RULES}\non_update = \"merge\""))
        .connector("replaced", "item_key = \"id\"")
        .key("replaced", "replaced")
        .connector("merged", "item_key = \"id\"")
        .key("merged", "merged")
        .unlimited()
        .start()
        .await
}

/// What the pool has, by key.
async fn held(app: &TestApp, stream: &str) -> Value {
    let all = app.fields(stream).await.into_iter();
    let parsed = |fields: String| serde_json::from_str::<Value>(&fields).expect("an object");
    all.map(|(key, fields)| (key, parsed(fields))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_array_is_applied_in_the_order_in_which_it_was_sent() {
    let app = daemon().await;
    // A request, and what is there of its key afterwards: replaced, merged.
    let cases = [
        (
            json!([{"n": 1, "rev": 9}, {"op": "del", "rev": 2}]),
            json!({"n": 1, "rev": 9}),
            json!({"n": 1, "rev": 9}),
        ),
        (
            json!([{"n": 1, "rev": 5}, {"op": "del", "rev": 4}, {"n": 3, "rev": 4}]),
            json!({"n": 1, "rev": 5}),
            json!({"n": 1, "rev": 5}),
        ),
        (
            json!([{"op": "del", "rev": 4}, {"n": 2, "rev": 5}, {"op": "del", "rev": 5}]),
            Value::Null,
            Value::Null,
        ),
        (
            json!([{"n": 1}, {"op": "del"}, {"m": 2}]),
            json!({"m": 2}),
            json!({"m": 2}),
        ),
        (
            json!([{"n": 1}, {"m": 2}, {"m": 3}]),
            json!({"m": 3}),
            json!({"n": 1, "m": 3}),
        ),
        (
            json!([{"op": "del"}, {"n": 1}, {"op": "del"}]),
            Value::Null,
            Value::Null,
        ),
    ];
    for (number, (operations, replaced, merged)) in cases.iter().enumerate() {
        for (stream, wanted) in [("replaced", replaced), ("merged", merged)] {
            let mut sent = operations.clone();
            let all = sent.as_array_mut().expect("an array");
            for operation in &mut *all {
                operation["id"] = json!(number.to_string());
            }
            let count = all.len() as u64;
            let receipt = app.caller(stream).ingest(sent.to_string()).await.receipt();
            assert_eq!(receipt.items, count, "{sent}");
            app.drain().await;
            let mut found = held(&app, stream).await[number.to_string()].take();
            if let Some(fields) = found.as_object_mut() {
                fields.remove("id");
            }
            assert_eq!(found, *wanted, "{stream}: {sent}");
        }
    }
    for stream in ["replaced", "merged"] {
        let log = app.admin().log(stream, "").await;
        let items: Vec<_> = log
            .iter()
            .map(|entry| entry["items_received"].as_u64())
            .collect();
        let sent = cases
            .iter()
            .rev()
            .map(|(sent, ..)| sent.as_array().map(|all| all.len() as u64));
        assert!(
            items.iter().copied().eq(sent),
            "one request each: {items:?}"
        );
        assert!(
            log.iter().all(|entry| entry["status"] == "processed"),
            "{log:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_only_removes_is_logged_as_removed() {
    let app = daemon().await;
    let caller = app.caller("replaced");
    for body in [
        json!([{"id": 1}, {"id": 2}, {"id": 3}]),
        json!([{"id": 1, "op": "del"}, {"id": 3, "op": "del"}]),
    ] {
        caller.ingest(body.to_string()).await.receipt();
    }
    app.drain().await;
    assert_eq!(held(&app, "replaced").await, json!({"2": {"id": 2}}));
    let removed = app.admin().log("replaced", "status=removed").await;
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0]["items_received"], 2);
}

#[test]
fn components_of_older_worlds_get_an_array_in_its_order() {
    for component in OLDER {
        let folder = Setup::with_streams(&["orders"])
            .connector("tests", RULES)
            .sink("older", component, "orders", "");
        let process = folder.spawn();
        let array = json!([
            {"id": "a", "n": 1}, {"id": "b", "n": 1}, {"id": "a", "op": "del"}, {"id": "c", "op": "del"},
            {"id": "a", "n": 2}, {"id": "c", "n": 2}, {"id": "b", "op": "del"},
        ]);
        let id = process.processed("orders", BY_ID, &array.to_string());
        let held = folder.items("orders");
        let held: Vec<_> = held
            .iter()
            .map(|(key, fields, _)| (&**key, &fields["n"]))
            .collect();
        assert_eq!(held, [("a", &json!(2)), ("c", &json!(2))], "{component}");
        let request = process.request(&id);
        assert_eq!(request["sinks"][0]["state"], "done", "{request}");
        assert_eq!(process.sink("older")["dead_letters"], 0);
        process.stop();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a receiver that takes its time")]
fn a_receiver_gets_updates_and_removals_together_in_their_order() {
    let receiver = Receiver::start(|_, _| {
        std::thread::sleep(Duration::from_millis(20));
        answer(200, "", "")
    });
    let url = receiver.url("/in");
    let (host, _) = url.rsplit_once('/').expect("a path");
    let mut folder = Setup::with_streams(&["orders"])
        .connector("tests", RULES)
        .set("storage.payload_retention_minutes", 60)
        .sink("pool", "pool", "orders", "");
    let process = folder.spawn();
    // The key of each, its version, and whether it is removed.
    let operation = |number: u64| {
        let key = format!("k{}", number % 500);
        (key, number.to_string(), number % 10 == 9)
    };
    for first in (0..3_000).step_by(100) {
        let array: Value = (first..first + 100)
            .map(|number| {
                let (key, rev, removed) = operation(number);
                match removed {
                    true => json!({"id": key, "rev": rev, "op": "del"}),
                    false => json!({"id": key, "rev": rev}),
                }
            })
            .collect();
        process.accepted("orders", BY_ID, &array.to_string());
    }
    process.drained();
    process.stop();
    let more = format!(
        "start = \"oldest\"\nconfig = {{ url = {url:?} }}\nhttp = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
    );
    folder = folder.sink("mirror", "http-forward", "orders", &more);
    let process = folder.spawn();
    process.drained();
    let seen = receiver.seen();
    assert!(seen.len() < 20, "{} calls", seen.len());
    let mut number = 0;
    let mut last = (0, 0);
    for item in seen
        .iter()
        .flat_map(|seen| seen.json().as_array().cloned().expect("a list"))
    {
        let (key, rev, removed) = operation(number);
        assert_eq!(item["key"], *key, "{number}");
        assert_eq!(item["version"], *rev, "{number}");
        assert_eq!(item.get("removed").is_some(), removed, "{number}: {item}");
        assert_eq!(item.get("fields").is_none(), removed, "{number}: {item}");
        let place = |at: usize| item["place"][at].as_u64().expect("a number");
        assert!(last < (place(0), place(1)) || number == 0, "{item}");
        last = (place(0), place(1));
        number += 1;
    }
    assert_eq!(number, 3_000);
    process.stop();
}

#[test]
fn a_receiver_of_fields_gets_no_removals_and_the_updates_around_them_together() {
    let receiver = Receiver::content();
    let url = receiver.url("/in");
    let (host, _) = url.rsplit_once('/').expect("a path");
    let more = format!(
        "config = {{ url = {url:?}, form = \"field-array\", max_items = 2 }}\nhttp = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let folder = Setup::with_streams(&["orders"])
        .connector("tests", RULES)
        .sink("mirror", "http-forward", "orders", &more);
    let process = folder.spawn();
    let array =
        json!([{"id": 1}, {"id": 7, "op": "del"}, {"id": 2}, {"id": 1, "op": "del"}, {"id": 3}]);
    process.processed("orders", BY_ID, &array.to_string());
    let bodies: Vec<String> = receiver.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies, [r#"[{"id":1},{"id":2}]"#, r#"[{"id":3}]"#]);
    process.stop();
}

#[test]
fn what_waits_does_what_its_stream_did_when_it_was_accepted() {
    let mut folder = Setup::with_streams(&["first", "second"])
        .merging("first")
        .of_stream("second", "on_update = \"replace\"");
    let process = folder.spawn();
    for stream in ["first", "second"] {
        process.processed(stream, BY_ID, r#"{"id": "a", "n": 1}"#);
    }
    process
        .call("POST", "/api/admin/sinks/pool/pause", "")
        .data(200);
    for stream in ["first", "second"] {
        process.accepted(stream, BY_ID, r#"{"id": "a", "m": 2}"#);
    }
    // The pool reads what waits from the file.
    process.kill();
    for (from, to) in [
        ("merge", "either"),
        ("replace", "merge"),
        ("either", "replace"),
    ] {
        folder.change(
            &format!("on_update = \"{from}\""),
            &format!("on_update = \"{to}\""),
        );
    }
    let process = folder.spawn();
    for stream in ["first", "second"] {
        process.accepted(stream, BY_ID, r#"{"id": "b", "n": 1}"#);
        process.accepted(stream, BY_ID, r#"{"id": "b", "m": 2}"#);
    }
    process
        .call("POST", "/api/admin/sinks/pool/resume", "")
        .data(200);
    process.drained();
    let held = |folder: &Setup, stream: &str| -> Vec<(String, Value)> {
        let items = folder.items(stream).into_iter();
        let without_id = |mut fields: Value| {
            fields.as_object_mut().expect("an object").remove("id");
            fields
        };
        items
            .map(|(key, fields, _)| (key, without_id(fields)))
            .collect()
    };
    let of = |a: Value, b: Value| vec![("a".to_owned(), a), ("b".to_owned(), b)];
    assert_eq!(
        held(&folder, "first"),
        of(json!({"n": 1, "m": 2}), json!({"m": 2}))
    );
    assert_eq!(
        held(&folder, "second"),
        of(json!({"m": 2}), json!({"n": 1, "m": 2}))
    );

    // Keys that are in use do it from the next request on.
    folder.change(
        "on_update = \"replace\"",
        "on_update = \"merge\" # both now",
    );
    process.hang_up();
    eventually("the stream merges", || {
        let stream = process.admin("/api/admin/streams/first");
        (stream["on_update"] == "merge").then_some(())
    });
    process.accepted("first", BY_ID, r#"{"id": "b", "k": 3}"#);
    process.drained();
    assert_eq!(held(&folder, "first")[1].1, json!({"m": 2, "k": 3}));
    process.stop();
}
