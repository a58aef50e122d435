//! Deliveries that come late, twice, in any order; items that are not renewed.

use serde_json::json;

use super::{GitHub, SECRET, Shopify, address, daemon, hex, mac, now_seconds};
use crate::app::{TestApp, Transport};
use crate::setup::Setup;
use crate::wait::eventually_async;

/// All orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    match count {
        0 => vec![Vec::new()],
        _ => (orders(count - 1).into_iter())
            .flat_map(|order| {
                (0..count).map(move |at| {
                    let mut order = order.clone();
                    order.insert(at, count - 1);
                    order
                })
            })
            .collect(),
    }
}

/// Sends what a shop says of one order, in an order of its own; each is what it is and has a delivery id of its own.
async fn send(app: &TestApp, name: &str, number: usize, order: &[usize], said: &[(&str, &str)]) {
    let anyone = app.anonymous();
    for at in order {
        let (topic, rest) = said[at % said.len()];
        let delivery = format!("{number}-{}", at % said.len());
        let body = format!(r#"{{"id": {number}{rest}}}"#);
        let delivery = Shopify {
            delivery: &delivery,
            topic,
        };
        let reply = delivery.send(&anyone, &address(name), &body).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_ends_right_in_each_of_720_orders() {
    let app = daemon("orders", "shopify").await;
    let said = [
        (
            "orders/create",
            r#", "updated_at": "2026-01-05T10:00:00-05:00", "state": "new""#,
        ),
        (
            "orders/updated",
            r#", "updated_at": "2026-01-05T10:00:05-05:00", "state": "paid""#,
        ),
        ("orders/delete", ""),
    ];
    let all = orders(6);
    assert_eq!(all.len(), 720);
    for (number, order) in all.iter().enumerate() {
        send(&app, "orders", number, order, &said).await;
    }
    app.drain().await;
    assert_eq!(app.fields("orders").await, [], "each was deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_newest_version_stays_whatever_comes_after_it() {
    let app = daemon("orders", "shopify").await;
    let said = [
        (
            "orders/create",
            r#", "updated_at": "2026-01-05T10:00:00-05:00", "state": "new""#,
        ),
        (
            "orders/updated",
            r#", "updated_at": "2026-01-05T10:00:05-05:00", "state": "paid""#,
        ),
        (
            "orders/updated",
            r#", "updated_at": "2026-01-05T15:00:03Z", "state": "open""#,
        ),
    ];
    for (number, order) in orders(3).iter().enumerate() {
        send(&app, "orders", number, order, &said).await;
    }
    app.drain().await;
    let fields = app.fields("orders").await;
    assert_eq!(fields.len(), 6);
    for (key, fields) in fields {
        assert!(fields.contains(r#""state":"paid""#), "{key}: {fields}");
    }
    let log = app.admin().log("orders", "status=stale&limit=500").await;
    assert!(!log.is_empty(), "the log says which came too late");
    for entry in &log {
        assert_eq!(entry["sinks"][0]["state"], "stale", "{entry}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_signed_with_its_time_and_no_id_counts_once() {
    let app = daemon("rooms", "zoom").await;
    let anyone = app.anonymous();
    let now = now_seconds();
    let send = async |seconds_ago: u64, more: (&str, &str)| {
        let time = (now - seconds_ago).to_string();
        let body = r#"{"event": "meeting.started", "payload": {"object": {"id": "r1"}}}"#;
        let signature = hex(&mac(SECRET, format!("v0:{time}:{body}").as_bytes()));
        let signature = format!("v0={signature}");
        let headers = [
            ("x-zm-signature", &*signature),
            ("x-zm-request-timestamp", &*time),
            more,
        ];
        let reply = anyone.post(&address("rooms"), &headers, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    let processed = async || {
        app.drain().await;
        app.admin().log("rooms", "status=processed").await.len()
    };
    // Captured, it is sent again under ids that nobody signed.
    send(90, ("x-more", "1")).await;
    for id in ["a", "b", "c"] {
        send(90, ("Idempotency-Key", id)).await;
    }
    assert_eq!(processed().await, 1);
    // An id that is no part of what is signed changes nothing, whatever place it stands in.
    send(90, ("ce-id", "e1")).await;
    assert_eq!(processed().await, 1);
    // On again is in earnest: it has another time.
    send(60, ("Idempotency-Key", "d")).await;
    assert_eq!(processed().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_delivery_without_the_id_that_others_of_its_tool_have_counts_once() {
    let app = daemon("talk", "slack").await;
    let anyone = app.anonymous();
    let time = now_seconds().to_string();
    let body = r#"{"command": "/score", "text": "2:1"}"#;
    let signature = hex(&mac(SECRET, format!("v0:{time}:{body}").as_bytes()));
    let signature = format!("v0={signature}");
    let headers = [
        ("X-Slack-Signature", &*signature),
        ("X-Slack-Request-Timestamp", &*time),
    ];
    for _ in 0..3 {
        let reply = anyone.post(&address("talk"), &headers, body).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
    }
    app.drain().await;
    assert_eq!(app.fields("talk").await.len(), 1);
    let log = app.admin().log("talk", "status=duplicate").await;
    assert_eq!(log.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn versions_and_removals_are_set_for_any_stream() {
    let rules = "version = \"rev\"\ndelete_when = { field = \"state\", is = [\"gone\", \"0\"] }";
    let app = Setup::new()
        .stream_with("orders", rules)
        .connector("shop", "item_key = \"id\"")
        .key("shop", "orders")
        .read_key("screen", &["orders"], "")
        .unlimited()
        .start()
        .await;
    let shop = app.caller("shop");
    let mut screen = app.renderer(Transport::Sse, &["orders"]);
    screen.connect().await;
    let send = async |body: serde_json::Value| {
        shop.ingest(body.to_string()).await.receipt();
        app.drain().await;
    };
    send(json!([{"id": 1, "rev": 5}, {"id": 2, "rev": 5}, {"id": 3}])).await;
    send(json!([{"id": 1, "rev": 4, "late": true}, {"id": 2, "rev": 6.5, "state": "gone"}])).await;
    send(json!({"id": 2, "rev": 6, "late": true})).await;
    let keys = async || -> Vec<String> {
        app.fields("orders")
            .await
            .into_iter()
            .map(|(key, _)| key)
            .collect()
    };
    assert_eq!(keys().await, ["1", "3"]);
    assert!(!app.fields("orders").await[0].1.contains("late"));
    // One that cannot be read leaves it to the order of acceptance.
    send(json!({"id": 1, "rev": "soon"})).await;
    assert!(app.fields("orders").await[0].1.contains("soon"));
    send(json!({"id": 2, "rev": 7})).await;
    send(json!({"id": 3, "state": 0})).await;
    assert_eq!(keys().await, ["1", "2"]);
    let content = app.content(&["orders"]).await;
    screen.holds(&content).await;
    let status = |query: &'static str| async { app.admin().log("shop", query).await.len() };
    assert_eq!(status("status=removed").await, 1, "the other updates too");
    assert_eq!(status("status=stale").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_item_that_is_not_renewed_goes_and_screens_hear_of_it() {
    let app = Setup::new()
        .stream_with("seats", "expire_after_seconds = 2")
        .connector("desk", "item_key = \"id\"")
        .key("desk", "seats")
        .read_key("screen", &["seats"], "")
        .unlimited()
        .start()
        .await;
    let desk = app.caller("desk");
    let mut screen = app.renderer(Transport::Sse, &["seats"]);
    screen.connect().await;
    desk.ingest(r#"[{"id": "once"}, {"id": "renewed"}]"#)
        .await
        .receipt();
    eventually_async("the first goes, the other is renewed", async || {
        desk.ingest(r#"{"id": "renewed"}"#).await.receipt();
        app.drain().await;
        let keys: Vec<String> = app
            .fields("seats")
            .await
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        (keys == ["renewed"]).then_some(())
    })
    .await;
    eventually_async("all are gone", async || {
        app.fields("seats").await.is_empty().then_some(())
    })
    .await;
    let content = app.content(&["seats"]).await;
    screen.holds(&content).await;
    // What comes after it brings it back.
    desk.ingest(r#"{"id": "once"}"#).await.receipt();
    app.drain().await;
    assert_eq!(app.fields("seats").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_delivery_that_updates_and_removes_is_one_request() {
    let rule = "delete_when = { field = \"state\", is = [\"gone\"] }";
    let app = Setup::new()
        .stream_with("orders", rule)
        .connector("shop", "item_key = \"id\"")
        .key("shop", "orders")
        .start()
        .await;
    let body = json!([
        {"id": "a", "state": "gone"}, {"id": "a", "state": "open"},
        {"id": "b", "state": "open"}, {"id": "b", "state": "gone"},
        {"id": "c", "state": "open"},
    ]);
    let shop = app.caller("shop");
    for repeat in [false, true] {
        let sent = shop.ingest_once("once", body.to_string()).await;
        assert_eq!(sent.header("idempotent-replayed").is_some(), repeat);
        assert_eq!(sent.receipt().items, 5);
    }
    app.drain().await;
    let keys: Vec<String> = (app.fields("orders").await.into_iter())
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, ["a", "c"]);
    let log = app.admin().log("shop", "").await;
    let of = |entry: &serde_json::Value| {
        let status = entry["status"].as_str().map(ToOwned::to_owned);
        (status.expect("a status"), entry["items_received"].clone())
    };
    let all: Vec<_> = log.iter().map(of).collect();
    let wanted = [("duplicate", 5), ("processed", 5)];
    assert_eq!(
        all,
        wanted.map(|(status, items)| (status.to_owned(), json!(items)))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_delivery_is_a_repeat_by_its_id_and_where_that_is_wanted_by_its_body() {
    let key =
        |replay: &str| format!("verify = {{ scheme = \"github\", secret = \"{SECRET}\"{replay} }}");
    let app = Setup::new()
        .unlimited()
        .stream("usual")
        .signing_key("usual", "main", "usual", &key(", replay = \"delivery\""))
        .stream("strict")
        // As its preset has it.
        .signing_key("strict", "main", "strict", &key(""))
        .start()
        .await;
    let anyone = app.anonymous();
    for (name, others_are_new) in [("usual", true), ("strict", false)] {
        let path = address(name);
        for (delivery, body, is_new) in [
            ("d-1", r#"{"on": 1}"#, true),
            // By another id: somebody who once saw it, or a lamp that goes on again.
            ("d-2", r#"{"on": 1}"#, others_are_new),
            ("d-1", r#"{"on": 0}"#, false),
            ("d-3", r#"{"on": 0}"#, true),
        ] {
            let push = GitHub {
                secret: SECRET,
                delivery,
                event: "push",
            };
            let kind = "application/json";
            let reply = push.send(&anyone, &path, kind, body.as_bytes()).await;
            assert_eq!(reply.status, 202, "{}", reply.text());
            let repeated = reply.header("idempotent-replayed").is_some();
            assert_eq!(repeated, !is_new, "{name} {delivery} {body}");
        }
    }
}
