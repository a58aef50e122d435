//! What stands in a log entry, and which requests have one.

use serde_json::{Value, json};

use crate::setup::Setup;
use crate::wait::eventually_async;

/// Everything that the contract names, in its order.
const NAMES: [&str; 18] = [
    "timestamp",
    "request_id",
    "items_received",
    "status",
    "errors",
    "stream",
    "endpoint",
    "http_status",
    "key",
    "bytes",
    "client",
    "item_key",
    "idempotency_key",
    "duplicate_of",
    "headers",
    "sent_again_from",
    "processed_at",
    "sinks",
];

fn is_a_moment(value: &Value) -> bool {
    let pattern = "0000-00-00T00:00:00.000Z";
    value.as_str().is_some_and(|text| {
        text.len() == pattern.len()
            && text.chars().zip(pattern.chars()).all(|(found, wanted)| {
                if wanted == '0' {
                    found.is_ascii_digit()
                } else {
                    found == wanted
                }
            })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_accepted_request_is_logged_with_every_field() {
    let app = Setup::shop().start().await;
    let body = r#"[{"id": 1}, {"id": 2}]"#;
    let headers = [("X-Item-Key", "id"), ("Idempotency-Key", "k-1")];
    let reply = app
        .caller("shop")
        .post("/api/webhook/orders", &headers, body)
        .await;
    let id = reply.receipt().request_id;
    app.drain().await;
    let log = app.admin().log("shop", "").await;
    assert_eq!(log.len(), 1);
    let entry = &log[0];
    for name in NAMES {
        assert!(entry.get(name).is_some(), "{name} is missing");
    }
    assert!(is_a_moment(&entry["timestamp"]), "{entry}");
    assert!(is_a_moment(&entry["processed_at"]), "{entry}");
    assert!(is_a_moment(&entry["sinks"][0]["at"]), "{entry}");
    let secret = app.secret("shop");
    let expected = json!({
        "timestamp": entry["timestamp"], "request_id": id, "items_received": 2,
        "status": "processed", "errors": [], "stale": [], "stale_count": 0, "connector": "shop", "stream": "orders",
        "endpoint": "webhook", "http_status": 202, "key": &secret[..16], "bytes": body.len(),
        "client": "127.0.0.1", "item_key": "id", "idempotency_key": "k-1", "duplicate_of": null,
        "scheme": null, "event": null, "delivery_id": null,
        "headers": [{"name": "content-type", "value": "application/json"}, {"name": "accept", "value": null}],
        "sent_again_from": null,
        "processed_at": entry["processed_at"],
        "sinks": [{"name": "pool", "state": "done", "at": entry["sinks"][0]["at"]}],
    });
    assert_eq!(entry, &expected);
    let path = format!("/api/admin/requests/{id}");
    let mut whole = entry.clone();
    whole["sent_again_as"] = json!([]);
    assert_eq!(app.admin().get(&path).await.data(), whole);
    let text = entry.to_string();
    assert!(!text.contains(&secret[17..]), "the secret stands in no log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn refused_requests_are_logged_with_the_error_that_was_told() {
    let app = Setup::shop().stream("other").start().await;
    let shop = app.caller("shop");
    let with = |name: &'static str, value: &'static str| [(name, value)];
    let large = vec![b' '; 1_048_577];
    let mut told = Vec::new();
    for (status, code, reply) in [
        (400, "INVALID_PAYLOAD", shop.ingest("[1]").await),
        (
            400,
            "INVALID_PAYLOAD",
            shop.ingest_by("id", "[{}, {}]").await,
        ),
        (
            400,
            "INVALID_PAYLOAD",
            shop.ingest_with(&with("Content-Type", "text/plain"), "{}")
                .await,
        ),
        (
            404,
            "STREAM_NOT_FOUND",
            shop.post("/api/webhook/other", &[], "{}").await,
        ),
        (413, "PAYLOAD_TOO_LARGE", shop.ingest(large).await),
    ] {
        let id = reply.header("x-request-id").expect("an id").to_owned();
        told.push((id, status, reply.refused(status, code).message));
    }
    app.drain().await;
    let log = app.admin().log("shop", "").await;
    assert_eq!(log.len(), told.len());
    for (entry, (id, status, message)) in log.iter().rev().zip(&told) {
        assert_eq!(entry["request_id"], **id);
        assert_eq!(entry["status"], "rejected");
        assert_eq!(entry["http_status"], *status);
        assert_eq!(entry["errors"], json!([message]));
        assert_eq!(entry["items_received"], 0);
        assert_eq!(entry["stream"], "orders", "the key's stream");
        assert_eq!(entry["processed_at"], Value::Null);
        assert_eq!(entry["sinks"], json!([]));
    }
    assert_eq!(log[3]["item_key"], "id");
    assert_eq!(log[1]["endpoint"], "webhook");
    assert_eq!(log[0]["bytes"], 1_048_577);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_without_a_valid_key_are_counted_and_not_logged() {
    let app = Setup::shop().start().await;
    for _ in 0..5 {
        app.anonymous()
            .ingest("{}")
            .await
            .refused(401, "UNAUTHORIZED");
        let wrong = app.caller_with("ik_live_wrong_0123456789");
        wrong.ingest("{}").await.refused(401, "UNAUTHORIZED");
    }
    app.drain().await;
    assert_eq!(app.admin().log("shop", "").await, [Value::Null; 0]);
    let series = "headgate_requests_total{outcome=\"unauthorized\"}";
    assert_eq!(app.admin().metric(series).await, 10.0);
    let status = app.admin().get("/api/admin/status").await.data();
    assert_eq!(status["requests"]["unauthorized"], 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn test_keys_are_checked_and_logged_and_reach_no_sink() {
    let app = Setup::shop().test_key("trial", "orders").start().await;
    let trial = app.caller("trial");
    let reply = trial.ingest_by("id", r#"[{"id": 1}, {"id": 2}]"#).await;
    let id = reply.receipt().request_id;
    trial
        .ingest_by("id", "{}")
        .await
        .refused(400, "INVALID_PAYLOAD");
    trial
        .post("/api/webhook/other", &[], "{}")
        .await
        .refused(404, "STREAM_NOT_FOUND");
    assert_eq!(app.fields("orders").await, []);
    let log = app.admin().log("trial", "").await;
    let statuses: Vec<_> = log.iter().map(|entry| &entry["status"]).collect();
    assert_eq!(statuses, ["rejected", "rejected", "test"]);
    assert_eq!(log[2]["request_id"], *id);
    assert_eq!(log[2]["items_received"], 2);
    assert_eq!(log[2]["http_status"], 202);
    assert_eq!(log[2]["sinks"], json!([]));
    assert_eq!(
        trial.get(&format!("/api/requests/{id}")).await.data()["status"],
        "test"
    );
    // Not even after a restart.
    let app = app.restart().await;
    assert_eq!(app.fields("orders").await, []);
    let log = app.admin().log("trial", "status=test").await;
    assert_eq!(log.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_flood_is_an_entry_a_second_and_every_request_is_counted() {
    let app = Setup::shop()
        .connector("flood", "requests_per_second = 1\nburst = 1")
        .key("flood", "orders")
        .start()
        .await;
    let flood = app.caller("flood");
    let started = std::time::Instant::now();
    let mut refused = 0;
    for _ in 0..300 {
        let reply = flood.ingest("{}").await;
        if reply.status != 202 {
            reply.refused(429, "RATE_LIMITED");
            refused += 1;
        }
    }
    assert!(refused > 250);
    let entries = eventually_async("the log has counted every refusal", async || {
        app.drain().await;
        let entries = app.admin().log("flood", "status=rejected&limit=500").await;
        let counted: u64 = entries.iter().map(count).sum();
        assert!(counted <= refused);
        (counted == refused).then_some(entries)
    })
    .await;
    let seconds = started.elapsed().as_secs() + 1;
    assert!(
        entries.len() as u64 <= 2 * seconds,
        "{} entries in {seconds} s",
        entries.len()
    );
    for entry in &entries {
        assert_eq!(entry["http_status"], 429);
        assert_eq!(entry["connector"], "flood");
    }
    let series = "headgate_requests_total{outcome=\"rate_limited\"}";
    assert_eq!(app.admin().metric(series).await, refused as f64);
}

/// The number of requests that an entry of a flood stands for.
fn count(entry: &Value) -> u64 {
    let text = entry["errors"][0].as_str().expect("an error");
    let Some((before, _)) = text.split_once(" requests since the last entry") else {
        return 1;
    };
    let digits = before.rsplit('(').next().unwrap_or_default();
    digits.parse().expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_connector_has_a_log_of_its_own() {
    let app = Setup::shop().key("rival", "orders").start().await;
    let mine = app.caller("shop").ingest("{}").await.receipt().request_id;
    let theirs = app.caller("rival").ingest("{}").await.receipt().request_id;
    app.drain().await;
    for (connector, id) in [("shop", mine), ("rival", theirs)] {
        let log = app.admin().log(connector, "").await;
        assert_eq!(log.len(), 1);
        assert_eq!(log[0]["request_id"], *id);
        assert_eq!(log[0]["connector"], connector);
    }
}
