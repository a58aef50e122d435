//! Idempotency keys: a repeat is answered like the first and processed by nobody.

use serde_json::Value;

use crate::app::{Reply, TestApp, in_background};
use crate::setup::Setup;
use crate::wait::eventually_async;

fn replayed(reply: &Reply) -> bool {
    match reply.header("idempotent-replayed") {
        None => false,
        Some(value) => {
            assert_eq!(value, "true");
            true
        }
    }
}

/// A connector's log entries with this status, newest first.
async fn logged(app: &TestApp, connector: &str, status: &str) -> Vec<Value> {
    app.drain().await;
    let query = format!("status={status}&limit=500");
    app.admin().log(connector, &query).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn replayed_key_returns_the_first_receipt() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let body = r#"[{"n": 1}, {"n": 2}]"#;
    let first = shop.ingest_once("k-1", body).await;
    assert!(!replayed(&first));
    let receipt = first.receipt();
    let before = app.items("orders").await;
    for path in [
        "/api/ingest",
        "/api/webhook/orders",
        "/api/ingest?stream=orders",
    ] {
        let repeat = shop.post(path, &[("Idempotency-Key", "k-1")], body).await;
        assert!(replayed(&repeat), "{path}");
        assert_eq!(repeat.body, first.body, "{path}");
        assert_eq!(repeat.receipt(), receipt, "{path}");
    }
    assert_eq!(
        app.items("orders").await,
        before,
        "nothing was processed again"
    );

    let duplicates = logged(&app, "shop", "duplicate").await;
    assert_eq!(duplicates.len(), 3);
    for entry in duplicates {
        assert_eq!(entry["duplicate_of"], *receipt.request_id);
        assert_ne!(entry["request_id"], *receipt.request_id);
        assert_eq!(entry["idempotency_key"], "k-1");
        assert_eq!(entry["http_status"], 202);
        assert_eq!(entry["errors"], serde_json::json!([]));
    }
    // On another node, the state of its sinks may be older than the copy.
    let processed = eventually_async("it is processed", async || {
        let processed = logged(&app, "shop", "processed").await;
        Some(processed).filter(|processed| !processed.is_empty())
    })
    .await;
    assert_eq!(processed.len(), 1);
    assert_eq!(processed[0]["duplicate_of"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_repeat_with_another_payload_is_answered_alike_and_noted() {
    let app = Setup::shop().start().await;
    let shop = app.caller("shop");
    let first = shop.ingest_once("k", r#"{"n": 1}"#).await;
    let repeat = shop.ingest_once("k", r#"[{"n": 2}, {"n": 3}]"#).await;
    assert!(replayed(&repeat));
    assert_eq!(repeat.body, first.body);
    let fields = app.fields("orders").await;
    assert_eq!(fields, [("0".to_owned(), r#"{"n":1}"#.to_owned())]);
    let duplicates = logged(&app, "shop", "duplicate").await;
    let errors = duplicates[0]["errors"].as_array().expect("a list");
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .as_str()
            .is_some_and(|text| text.contains("payload differs"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_counts_within_its_connector_and_stream() {
    let app = Setup::shop()
        .stream("returns")
        .key("shop", "orders")
        .key("shop", "returns")
        .key("rival", "orders")
        .start()
        .await;
    let first = app.caller("shop").ingest_once("k", "{}").await;
    assert!(!replayed(&first));
    // A rotated key loses nothing.
    let rotated = app.caller_of("shop", 1).ingest_once("k", "{}").await;
    assert!(replayed(&rotated));
    assert_eq!(rotated.body, first.body);
    for other in [app.caller_of("shop", 2), app.caller("rival")] {
        let reply = other.ingest_once("k", "{}").await;
        assert!(!replayed(&reply));
        assert_ne!(reply.receipt(), first.receipt());
        assert!(replayed(&other.ingest_once("k", "{}").await));
    }
    // Keys are compared exactly.
    for other in ["K", "k1", "kk"] {
        assert!(!replayed(
            &app.caller("shop").ingest_once(other, "{}").await
        ));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refused_request_leaves_its_key_free() {
    let app = Setup::shop()
        .stream("other")
        .connector("busy", "requests_per_second = 1\nburst = 1")
        .key("busy", "orders")
        .start()
        .await;
    let shop = app.caller("shop");
    let key = [("Idempotency-Key", "k")];
    shop.ingest_once("k", "[1]")
        .await
        .refused(400, "INVALID_PAYLOAD");
    let large = vec![b' '; 1_048_577];
    shop.ingest_once("k", large)
        .await
        .refused(413, "PAYLOAD_TOO_LARGE");
    let elsewhere = shop.post("/api/webhook/other", &key, "{}").await;
    elsewhere.refused(404, "STREAM_NOT_FOUND");
    let reply = shop.ingest_once("k", "{}").await;
    reply.receipt();
    assert!(!replayed(&reply));

    let busy = app.caller("busy");
    let mut number = 0;
    let refused = crate::wait::eventually_async("the rate is used up", async || {
        number += 1;
        let key = format!("busy-{number}");
        (busy.ingest_once(&key, "{}").await.status == 429).then_some(key)
    })
    .await;
    let reply = crate::wait::eventually_async("the rate is back", async || {
        let reply = busy.ingest_once(&refused, "{}").await;
        (reply.status == 202).then_some(reply)
    })
    .await;
    assert!(!replayed(&reply));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_32_twins_at_once_one_is_processed() {
    let app = Setup::shop().unlimited().start().await;
    for round in 0..5 {
        let key = format!("round-{round}");
        let twins = (0..32).map(|twin| {
            let (shop, key) = (app.caller("shop"), key.clone());
            let body = format!("{{\"twin\": {twin}}}");
            in_background(async move { shop.ingest_once(&key, body).await })
        });
        let mut replies = Vec::new();
        for twin in twins.collect::<Vec<_>>() {
            replies.push(twin.await.expect("a caller does not panic"));
        }
        let receipt = replies[0].receipt();
        assert!(replies.iter().all(|reply| reply.receipt() == receipt));
        let new = replies.iter().filter(|reply| !replayed(reply)).count();
        assert_eq!(new, 1);
        let items = app.items("orders").await;
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].request_id, receipt.request_id);
    }
    app.admin().counts("headgate_sink_items_total", 5.0).await;
    assert_eq!(logged(&app, "shop", "processed").await.len(), 5);
    assert_eq!(logged(&app, "shop", "duplicate").await.len(), 5 * 31);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_is_remembered_over_a_restart() {
    let app = Setup::shop().start().await;
    let first = app.caller("shop").ingest_once("k", r#"[{}, {}]"#).await;
    let app = app.restart().await;
    let repeat = app.caller("shop").ingest_once("k", r#"[{}, {}]"#).await;
    assert!(replayed(&repeat));
    assert_eq!(repeat.body, first.body);
    let app = app.restart().await;
    let repeat = app.caller("shop").ingest_once("k", "{}").await;
    assert!(replayed(&repeat));
    assert_eq!(repeat.body, first.body);
    assert_eq!(logged(&app, "shop", "duplicate").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn test_keys_have_claims_of_their_own() {
    let app = Setup::shop().test_key("shop", "orders").start().await;
    let (live, test) = (app.caller("shop"), app.caller_of("shop", 1));
    let rehearsal = test.ingest_once("k", r#"{"n": 0}"#).await;
    assert!(!replayed(&rehearsal));
    let again = test.ingest_once("k", r#"{"n": 0}"#).await;
    assert!(replayed(&again), "a rehearsal shows what would happen");
    assert_eq!(again.body, rehearsal.body);
    let real = live.ingest_once("k", r#"{"n": 1}"#).await;
    assert!(!replayed(&real));
    assert!(replayed(&live.ingest_once("k", r#"{"n": 1}"#).await));
    let fields = app.fields("orders").await;
    assert_eq!(fields, [("0".to_owned(), r#"{"n":1}"#.to_owned())]);
}

/// Moves the one claim in a stopped daemon's journal into the past.
fn age_claims(data_dir: &std::path::Path, by_ms: i64) {
    let journal = rusqlite::Connection::open(data_dir.join("journal.db")).expect("a file");
    let aged = journal.execute("UPDATE claim_log SET at_ms = at_ms - ?1", [by_ms]);
    assert_eq!(aged, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_is_free_again_after_24_hours() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    const DAY_MS: i64 = 86_400_000;
    let app = Setup::shop().start().await;
    let first = app.caller("shop").ingest_once("k", r#"{"n": 1}"#).await;

    let stopped = app.stop().await;
    age_claims(stopped.data_dir(), DAY_MS - 120_000);
    let app = stopped.start().await;
    let repeat = app.caller("shop").ingest_once("k", r#"{"n": 2}"#).await;
    assert!(replayed(&repeat), "two minutes before its time");
    assert_eq!(repeat.body, first.body);

    let stopped = app.stop().await;
    age_claims(stopped.data_dir(), 121_000);
    let app = stopped.start().await;
    let anew = app.caller("shop").ingest_once("k", r#"{"n": 3}"#).await;
    assert!(!replayed(&anew), "its time is over");
    assert_ne!(anew.receipt().request_id, first.receipt().request_id);
    assert!(replayed(&app.caller("shop").ingest_once("k", "{}").await));
    let fields = app.fields("orders").await;
    assert_eq!(fields, [("0".to_owned(), r#"{"n":3}"#.to_owned())]);
}
