//! Streams that are deleted, and made again under their names.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::setup::Setup;

/// Makes the stream `news`, and a key for it; the key's secret.
async fn made(app: &TestApp, key: &str) -> String {
    let admin = app.admin();
    admin
        .make("/api/admin/streams", json!({"name": "news"}))
        .await;
    let key = json!({"name": key, "stream": "news"});
    let made = admin.make("/api/admin/connectors/shop/keys", key).await;
    made["secret"].as_str().expect("a secret").to_owned()
}

async fn deleted(app: &TestApp, query: &str) {
    let path = format!("/api/admin/streams/news?{query}");
    let reply = app.admin().call(Method::DELETE, &path).await;
    assert_eq!(reply.data()["name"], "news");
}

const THREE: &str = r#"[{"id": 1}, {"id": 2}, {"id": 3}]"#;

async fn started() -> TestApp {
    Setup::new()
        .connector("shop", "item_key = \"id\"")
        .start()
        .await
}

/// The requests by which the daemon itself removed items.
async fn removals(app: &TestApp) -> Vec<Value> {
    app.admin().log("headgate", "limit=500").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_has_nothing_of_the_one_before_it() {
    let app = started().await;
    let admin = app.admin();
    let old = app.caller_with(&made(&app, "old").await);
    for (name, streams) in [("one", json!(["news"])), ("two", json!(["news", "other"]))] {
        if name == "two" {
            admin
                .make("/api/admin/streams", json!({"name": "other"}))
                .await;
        }
        let key = json!({"name": name, "streams": streams});
        admin.make("/api/admin/read-keys", key).await;
    }
    old.ingest_once("k", THREE).await.receipt();
    app.drain().await;
    deleted(&app, "force=true").await;
    assert_eq!(app.fields_now("news").len(), 3, "they stay");
    old.ingest("{}").await.refused(404, "STREAM_NOT_FOUND");

    let secret = made(&app, "new").await;
    let new = app.caller_with(&secret);
    assert_eq!(app.fields_now("news").len(), 0);
    let told = removals(&app).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (
            &told[0]["items_received"],
            &told[0]["stream"],
            &told[0]["status"]
        ),
        (&json!(3), &json!("news"), &json!("removed"))
    );
    old.ingest(r#"{"id": 4}"#)
        .await
        .refused(401, "UNAUTHORIZED");
    let key = admin
        .get("/api/admin/connectors/shop/keys/old")
        .await
        .data();
    assert_eq!(key["state"], "revoked");
    let one = admin.get("/api/admin/read-keys/one").await.data();
    assert_eq!(
        (&one["state"], &one["streams"]),
        (&json!("revoked"), &json!(["news"]))
    );
    let two = admin.get("/api/admin/read-keys/two").await.data();
    assert_eq!(
        (&two["state"], &two["streams"]),
        (&json!("active"), &json!(["other"]))
    );
    // What was sent to the one before is no repeat.
    let reply = new.ingest_once("k", THREE).await;
    assert_eq!(reply.header("idempotent-replayed"), None);
    app.drain().await;
    assert_eq!(app.fields("news").await.len(), 3);
    let app = app.restart().await;
    let reply = app.caller_with(&secret).ingest_once("k", THREE).await;
    assert_eq!(reply.header("idempotent-replayed"), Some("true"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_is_deleted_with_its_items() {
    let app = started().await;
    let shop = app.caller_with(&made(&app, "main").await);
    let many: Vec<Value> = (0..2_500).map(|id| json!({"id": id})).collect();
    shop.ingest(Value::from(many).to_string()).await.receipt();
    deleted(&app, "force=true&items=true").await;
    app.drain().await;
    assert_eq!(app.fields("news").await.len(), 0);
    let told = removals(&app).await;
    let counts: Vec<u64> = told
        .iter()
        .map(|one| one["items_received"].as_u64().expect("a number"))
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 2_500, "{counts:?}");
    assert!(
        told.iter().all(|one| one["status"] == "removed"),
        "{told:?}"
    );
    app.admin()
        .call(Method::DELETE, "/api/admin/streams/news?items=true")
        .await
        .refused(404, "STREAM_NOT_FOUND");
}
