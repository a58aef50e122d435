//! Streams that have as much in the data pool as they may.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{TestApp, in_background};
use crate::setup::Setup;

async fn stream(app: &TestApp) -> Value {
    app.admin().get("/api/admin/streams/orders").await.data()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_stream_takes_updates_and_removals_and_nothing_new() {
    if crate::setup::one_node_only("the status of a node has what this node has stored today") {
        return;
    }
    let app = Setup::new()
        .stream_with("orders", "items_max = 2")
        .connector("shop", "item_key = \"id\"")
        .key("shop", "orders")
        .test_key("shop", "orders")
        .start()
        .await;
    let shop = app.caller("shop");
    let three = r#"[{"id": 1}, {"id": 2}, {"id": 3}]"#;
    // What is accepted before it is full may pass the limit.
    shop.ingest_once("first", three).await.receipt();
    app.drain().await;
    let shown = stream(&app).await;
    assert_eq!(
        (&shown["items"], &shown["items_max"]),
        (&json!(3), &json!(2)),
        "{shown}"
    );
    assert_eq!(shown["bytes"], 3 * (1 + 8), "{shown}");
    let reply = shop.ingest(r#"{"id": 4}"#).await;
    let told = reply.refused(429, "STREAM_FULL");
    assert!(
        told.message.contains("2 items") && told.message.contains("items_max"),
        "{}",
        told.message
    );
    assert_eq!(reply.header("retry-after"), Some("30"));
    let refused = shop.ingest(r#"[{"id": 1}, {"id": 4}]"#).await;
    refused.refused(429, "STREAM_FULL");
    // Whoever repeats what was accepted hears so.
    let again = shop.ingest_once("first", three).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    app.caller_of("shop", 1)
        .ingest(r#"{"id": 4}"#)
        .await
        .receipt();
    shop.ingest(r#"[{"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 1, "n": 2}]"#)
        .await
        .receipt();
    app.remove("shop", "orders", "2").await;
    app.remove("shop", "orders", "3").await;
    app.drain().await;
    shop.ingest(r#"{"id": 4}"#).await.receipt();
    app.drain().await;
    let expected = [
        ("1".to_owned(), r#"{"id":1,"n":2}"#.to_owned()),
        ("4".to_owned(), r#"{"id":4}"#.to_owned()),
    ];
    assert_eq!(app.fields("orders").await, expected);
    shop.ingest(r#"{"id": 5}"#)
        .await
        .refused(429, "STREAM_FULL");
    let status = app.admin().get("/api/admin/status").await.data();
    let named = status["problems"].as_array().expect("a list");
    let full = |problem: &&Value| {
        problem
            .as_str()
            .is_some_and(|one| one.contains("orders is full (2 of 2 items)"))
    };
    assert_eq!(named.iter().filter(full).count(), 1, "{status}");
    let limits = status["limits"].as_array().expect("a list");
    let limit = |name: &str| {
        limits
            .iter()
            .find(|limit| limit["name"] == name)
            .expect("a limit")
    };
    let expected = json!({"name": "streams.items_max", "unit": "items", "used": 2, "max": 2, "holder": "orders"});
    assert_eq!(*limit("streams.items_max"), expected);
    let stored = limit("limits.bytes_per_day");
    assert_eq!(
        (&stored["holder"], &stored["max"]),
        (&json!("shop/key-0"), &Value::Null)
    );
    assert!(
        stored["used"].as_u64().is_some_and(|used| used > 50),
        "{stored}"
    );
    assert!(limit("live.connections_per_key_max")["max"].as_u64() > Some(0));
    assert_eq!(limit("live.max_page_bytes")["used"], 0);
    assert_eq!(limit("storage.min_free_bytes")["unit"], "bytes");
    // Over a restart as well.
    let app = app.restart().await;
    app.caller("shop")
        .ingest(r#"{"id": 5}"#)
        .await
        .refused(429, "STREAM_FULL");
}

/// Sends these at once; how many were taken, and how many refused because the stream is full.
async fn at_once(app: &TestApp, bodies: impl Iterator<Item = String>) -> (usize, usize) {
    let all: Vec<_> = bodies
        .map(|body| {
            let shop = app.caller("shop");
            in_background(async move { shop.ingest(body).await.status })
        })
        .collect();
    let (mut taken, mut full) = (0, 0);
    for reply in all {
        match reply.await.expect("an answer") {
            202 => taken += 1,
            429 => full += 1,
            other => panic!("{other}"),
        }
    }
    (taken, full)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_accepted_and_not_settled_counts() {
    if crate::setup::one_node_only("nodes that accept at once can exceed the limit of a stream") {
        return;
    }
    let app = Setup::new()
        .stream_with("orders", "items_max = 3")
        .connector("shop", "item_key = \"id\"")
        .key("shop", "orders")
        .set("pool.enabled", false)
        .sink("late", "pool", "*", "enabled = false")
        .start()
        .await;
    let new = |from: u32| (from..from + 8).map(|id| format!("{{\"id\": {id}}}"));
    assert_eq!(at_once(&app, new(0)).await, (3, 5));
    assert_eq!(at_once(&app, new(100)).await, (0, 8));
    assert_eq!(app.fields_now("orders").len(), 0, "nothing is settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_before_a_restart_and_is_not_settled_counts() {
    if crate::setup::one_node_only("nodes that accept at once can exceed the limit of a stream") {
        return;
    }
    let app = Setup::new()
        .stream_with("orders", "items_max = 3")
        .connector("shop", "item_key = \"id\"")
        .key("shop", "orders")
        .set("pool.enabled", false)
        .sink("late", "pool", "*", "enabled = false")
        .start()
        .await;
    let new = |from: u32| (from..from + 2).map(|id| format!("{{\"id\": {id}}}"));
    assert_eq!(at_once(&app, new(0)).await, (2, 0));
    let app = app.restart().await;
    let eight = (100..108).map(|id| format!("{{\"id\": {id}}}"));
    assert_eq!(at_once(&app, eight).await, (1, 7));
    // An update of what waits is none of a new item.
    assert_eq!(at_once(&app, new(0)).await, (2, 0));
    assert_eq!(app.fields_now("orders").len(), 0, "nothing is settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_counts_once_and_what_is_gone_does_not() {
    if crate::setup::one_node_only("nodes that accept at once can exceed the limit of a stream") {
        return;
    }
    let app = Setup::new()
        .stream_with("orders", "items_max = 3\nbytes_max = 1000")
        .connector("shop", "item_key = \"id\"")
        .key("shop", "orders")
        .start()
        .await;
    for round in 0..3 {
        let new = (0..8).map(|id| format!("{{\"id\": \"{round}-{id}\"}}"));
        assert_eq!(at_once(&app, new).await, (3, 5), "round {round}");
        app.drain().await;
        let there = app.fields("orders").await;
        assert_eq!(there.len(), 3);
        // Updates of what is there go on, however many.
        let updates = there
            .iter()
            .map(|(key, _)| format!("{{\"id\": \"{key}\", \"n\": {round}}}"));
        assert_eq!(at_once(&app, updates).await, (3, 0));
        for (key, _) in &there {
            app.remove("shop", "orders", key).await;
        }
        app.drain().await;
        assert_eq!(app.fields("orders").await.len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_that_is_full_by_bytes_takes_what_is_no_larger() {
    let app = Setup::new()
        .stream_with("other", "")
        .connector("shop", "item_key = \"id\"")
        .start()
        .await;
    let admin = app.admin();
    let made = json!({"name": "orders", "bytes_max": 20});
    admin.make("/api/admin/streams", made).await;
    let key = json!({"name": "main", "stream": "orders"});
    let made = admin.make("/api/admin/connectors/shop/keys", key).await;
    let shop = app.caller_with(made["secret"].as_str().expect("a secret"));
    shop.ingest(r#"{"id": 1, "text": "abcdefghijk"}"#)
        .await
        .receipt();
    app.drain().await;
    shop.ingest(r#"{"id": 2}"#)
        .await
        .refused(429, "STREAM_FULL");
    shop.ingest(r#"{"id": 1, "text": "abcdefghijklm"}"#)
        .await
        .refused(429, "STREAM_FULL");
    // Named twice, it is the same item, and the last of both counts.
    shop.ingest(r#"[{"id": 1}, {"id": 1, "text": "abcdefghijklm"}]"#)
        .await
        .refused(429, "STREAM_FULL");
    shop.ingest(r#"{"id": 1, "text": "ABCDEFGHIJK"}"#)
        .await
        .receipt();
    let any = json!({"bytes_max": null});
    let changed = admin
        .send(Method::PATCH, "/api/admin/streams/orders", &any)
        .await;
    assert_eq!(changed.data()["bytes_max"], Value::Null);
    shop.ingest(r#"{"id": 2}"#).await.receipt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_has_no_more_items_than_its_connector_allows() {
    let app = Setup::new()
        .stream("orders")
        .connector("shop", "item_key = \"id\"\nmax_items_per_request = 2")
        .key("shop", "orders")
        .connector("crm", "item_key = \"id\"")
        .key("crm", "orders")
        .start()
        .await;
    let (two, three) = (
        r#"[{"id": 1}, {"id": 2}]"#,
        r#"[{"id": 1}, {"id": 2}, {"id": 3}]"#,
    );
    let shop = app.caller("shop");
    shop.ingest(two).await.receipt();
    let reply = shop.ingest(three).await;
    let told = reply.refused(400, "INVALID_PAYLOAD").message;
    assert!(
        told.contains("3 items")
            && told.contains("`max_items_per_request`")
            && told.contains("is 2"),
        "{told}"
    );
    // 0, the default, is any number; a patch of a connector that was made at run time counts at once.
    app.caller("crm").ingest(three).await.receipt();
    let admin = app.admin();
    let made = json!({"name": "web", "stream": "orders", "max_items_per_request": 1});
    let made = admin.make("/api/admin/connectors", made).await;
    assert_eq!(made["max_items_per_request"], 1, "{made}");
    let wrong = json!({"max_items_per_request": -1});
    let refused = admin
        .send(Method::PATCH, "/api/admin/connectors/web", &wrong)
        .await;
    let told = refused.refused(400, "INVALID_REQUEST").message;
    assert!(
        told.contains("max_items_per_request must be from 0"),
        "{told}"
    );
}
