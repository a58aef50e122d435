//! Signing keys that are made at run time, and where their secrets are not.

use reqwest::Method;
use serde_json::{Value, json};

use super::{OTHER, SECRET, Shopify, address};
use crate::app::TestApp;
use crate::setup::Setup;

fn order(delivery: &str) -> Shopify<'_> {
    Shopify {
        delivery,
        topic: "orders/create",
    }
}

async fn made() -> TestApp {
    let app = Setup::new()
        .set("server.public_url", "https://hooks.example.com")
        .unlimited()
        .start()
        .await;
    let verify = json!({"scheme": "shopify", "secret": SECRET});
    let body = json!({"name": "orders", "kind": "webhook", "stream": "orders", "verify": verify});
    let made = app.admin().make("/api/admin/connectors", body).await;
    assert_eq!(made["secret"], Value::Null);
    let key = &made["keys"][0];
    assert_eq!(
        key["url"],
        "https://hooks.example.com/api/webhook/orders/orders"
    );
    assert!(
        key["prefix"]
            .as_str()
            .is_some_and(|one| one.starts_with("shopify_")),
        "{key}"
    );
    app
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_secret_comes_in_over_the_api_and_goes_nowhere() {
    let app = made().await;
    order("w-1")
        .send(&app.anonymous(), &address("orders"), r#"{"id": 1}"#)
        .await
        .receipt();
    let admin = app.admin();
    for path in [
        "/api/admin/connectors",
        "/api/admin/connectors/orders",
        "/api/admin/connectors/orders/keys",
        "/api/admin/connectors/orders/keys/main",
        "/api/admin/audit",
        "/api/admin/connectors/orders/requests",
        "/api/admin/status",
        "/metrics",
    ] {
        let text = admin.get(path).await.text();
        assert!(!text.contains(SECRET), "{path}: {text}");
    }
    let app = app.restart().await;
    order("w-2")
        .send(&app.anonymous(), &address("orders"), r#"{"id": 2}"#)
        .await
        .receipt();
    app.drain().await;
    assert_eq!(app.fields("orders").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_secret_is_rotated_with_grace_and_revoked_at_once() {
    let app = made().await;
    let admin = app.admin();
    let keys = "/api/admin/connectors/orders/keys";
    let rotate = format!("{keys}/main/rotate");
    let refused = admin.send(Method::POST, &rotate, &json!({})).await;
    assert!(
        refused
            .refused(400, "INVALID_REQUEST")
            .message
            .contains("secret")
    );
    let same = admin
        .send(Method::POST, &rotate, &json!({"secret": SECRET}))
        .await;
    assert_eq!(same.status, 400, "{}", same.text());
    let rotated = admin
        .send(Method::POST, &rotate, &json!({"secret": OTHER}))
        .await;
    assert_eq!(rotated.status, 201, "{}", rotated.text());
    // Its tool may sign with the old one for a while.
    order("w-1")
        .send(&app.anonymous(), &address("orders"), r#"{"id": 1}"#)
        .await
        .receipt();
    let log = admin.log("orders", "").await;
    assert_eq!(log[0]["scheme"], "shopify");
    let old = admin.get(keys).await.list();
    let old = old
        .iter()
        .find(|key| key["name"] != "main")
        .expect("the old one");
    let revoke = format!("{keys}/{}/revoke", old["name"].as_str().expect("a name"));
    admin.send(Method::POST, &revoke, &json!({})).await.data();
    let late = order("w-2")
        .send(&app.anonymous(), &address("orders"), r#"{"id": 2}"#)
        .await;
    late.refused(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_cannot_verify_is_refused_with_what_to_do() {
    let app = Setup::shop().start().await;
    let make = async |verify: Value| {
        let body = json!({"name": "tool", "stream": "orders", "verify": verify});
        let path = "/api/admin/connectors/shop/keys";
        let refused = app.admin().send(Method::POST, path, &body).await;
        let message = refused.refused(400, "INVALID_REQUEST").message;
        assert!(!message.contains(SECRET), "{message}");
        message
    };
    for (verify, says) in [
        (json!({"scheme": "shopfy", "secret": SECRET}), "shopify"),
        (json!({"scheme": "shopify"}), "secret"),
        (json!({"scheme": "shopify", "secret": "short"}), "16"),
        (json!({"scheme": "stripe", "secret": SECRET}), "whsec_"),
        (json!({"scheme": "standard", "secret": "whsec_?"}), "whsec_"),
        (json!({"scheme": "square", "secret": SECRET}), "public_url"),
        (json!({"scheme": "sns", "secret": SECRET}), "topic"),
        (
            json!({"scheme": "sns", "secret": SECRET, "topic": "a"}),
            "it has no certificate",
        ),
        (
            json!({"scheme": "pubsub", "secret": "{}", "audience": "a"}),
            "Key Set",
        ),
        (
            json!({"scheme": "cloudevents", "secret": SECRET}),
            "allow_in_url",
        ),
        (
            json!({"scheme": "github", "secret": SECRET, "hash": "sha3"}),
            "hash",
        ),
        (
            json!({"scheme": "github", "secret": {"file": "/etc/passwd"}}),
            "text",
        ),
        (
            json!({"scheme": "github", "secret": SECRET, "tolerance": 5}),
            "tolerance_seconds",
        ),
    ] {
        let message = make(verify.clone()).await;
        assert!(message.contains(says), "{verify}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sample_is_signed_by_the_daemon_itself() {
    let app = made().await;
    let admin = app.admin();
    let trigger = "/api/admin/connectors/orders/trigger";
    let event = json!({"event": "orders/create"});
    let sent = admin.send(Method::POST, trigger, &event).await;
    assert_eq!(sent.status, 202, "{}", sent.text());
    app.drain().await;
    let fields = app.fields("orders").await;
    assert_eq!(fields.len(), 1);
    assert!(
        fields[0].1.contains(r#""_event":"orders/create""#),
        "{}",
        fields[0].1
    );
    let removal = admin
        .send(Method::POST, trigger, &json!({"event": "orders/delete"}))
        .await;
    assert_eq!(removal.status, 202, "{}", removal.text());
    app.drain().await;
    assert_eq!(app.fields("orders").await, []);
    let refused = admin
        .send(Method::POST, trigger, &json!({"event": "nothing"}))
        .await;
    assert!(
        refused
            .refused(400, "INVALID_REQUEST")
            .message
            .contains("orders/create")
    );
    let other = admin
        .send(Method::POST, trigger, &json!({"preset": "github"}))
        .await;
    assert!(
        other
            .refused(400, "INVALID_REQUEST")
            .message
            .contains("shopify")
    );
}
