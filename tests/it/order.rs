//! Operations in the order in which they were accepted: a request is one entry, whatever it asks of its items.

mod cases;

use serde_json::{Value, json};

use crate::app::TestApp;
use crate::setup::Setup;

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
